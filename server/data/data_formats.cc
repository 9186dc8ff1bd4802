#include "server/data/data_formats.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "formats/npy_header.h"
#include "formats/safetensors_header.h"
#include "formats/zip_members.h"
#include "ops/error.h"

namespace chx::server {
namespace {

constexpr size_t kMaxArrays = 4096;
constexpr size_t kMaxNameBytes = 256;
constexpr uint64_t kMaxJson = 1 << 20;
constexpr uint64_t kLengthBytes = 8;

// One that has `bytes` bytes of the file from `begin` on.
absl::StatusOr<DataArray> ReadNpy(ReadAtFn read, uint64_t begin, uint64_t bytes) {
  uint64_t at = begin;
  const auto next = [&](char* out, size_t size) {
    const absl::Status status = read(at, out, size);
    at += size;
    return status;
  };
  uint64_t prefix = 0;
  CHX_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(next, bytes, &prefix));
  CHX_RETURN_IF_ERROR(CheckShape("data", header.shape, header.dtype));
  if (header.order.swapped)
    return DtypeError("expects little-endian elements, got big-endian ones");
  if (header.order.fortran && header.shape.size() > 1) {
    return ValueError("expects C order, got Fortran's: numpy.ascontiguousarray(x) changes it");
  }
  DataArray array;
  array.dtype = header.dtype;
  array.shape = Shape(header.shape);
  array.begin = begin + prefix;
  const auto want = static_cast<uint64_t>(NumElements(array.shape) * ItemSize(array.dtype));
  if (bytes - prefix == want) return array;
  return ValueError("expects ", want, " bytes of elements for shape ", array.shape.ToString(),
                    ", got ", bytes - prefix);
}

absl::StatusOr<std::vector<DataArray>> ReadNpz(uint64_t bytes, ReadAtFn read) {
  CHX_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZipMembers(read, bytes));
  std::vector<DataArray> arrays;
  for (const ZipMember& member : members) {
    absl::string_view name = member.name;
    if (!absl::ConsumeSuffix(&name, ".npy")) return ValueError("expects members NAME.npy only");
    absl::StatusOr<DataArray> array = ReadNpy(read, member.begin, member.bytes);
    if (!array.ok()) {
      return MakeError(KindOf(array.status()),
                       absl::StrCat("'", name, "': ", array.status().message()));
    }
    array->name = std::string(name);
    arrays.push_back(*std::move(array));
  }
  return arrays;
}

absl::StatusOr<std::vector<DataArray>> ReadSafetensors(uint64_t bytes, ReadAtFn read) {
  if (bytes < kLengthBytes) return ValueError("is too short for a .safetensors file");
  unsigned char start[kLengthBytes];
  CHX_RETURN_IF_ERROR(read(0, reinterpret_cast<char*>(start), kLengthBytes));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{start[i]} << (8 * i);
  const uint64_t rest = bytes - kLengthBytes;
  if (length > rest || length > kMaxJson) {
    return ValueError("expects a .safetensors file, whose header has at most ",
                      std::min(rest, kMaxJson), " bytes here, got ", length);
  }
  std::string text(static_cast<size_t>(length), '\0');
  CHX_RETURN_IF_ERROR(read(kLengthBytes, &text[0], text.size()));
  CHX_ASSIGN_OR_RETURN(const SafetensorsHeader header, ParseSafetensorsHeader(text, rest - length));
  std::vector<DataArray> arrays;
  for (const SafetensorsEntry& entry : header.entries) {
    DataArray array;
    array.name = entry.name;
    array.dtype = entry.dtype;
    array.shape = entry.shape;
    array.begin = kLengthBytes + length + entry.begin;
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// The last part of a path, without an ending.
std::string StemOf(absl::string_view path, absl::string_view ending) {
  path.remove_suffix(ending.size());
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace

absl::StatusOr<std::vector<DataArray>> ReadDataHeader(const std::string& path, uint64_t bytes,
                                                      ReadAtFn read) {
  std::vector<DataArray> arrays;
  if (absl::EndsWith(path, ".npz")) {
    CHX_ASSIGN_OR_RETURN(arrays, ReadNpz(bytes, read));
  } else if (absl::EndsWith(path, ".safetensors")) {
    CHX_ASSIGN_OR_RETURN(arrays, ReadSafetensors(bytes, read));
  } else if (absl::EndsWith(path, ".npy")) {
    CHX_ASSIGN_OR_RETURN(DataArray array, ReadNpy(read, 0, bytes));
    array.name = StemOf(path, ".npy");
    arrays.push_back(std::move(array));
  } else {
    return ValueError("expects a file NAME.npy, NAME.npz or NAME.safetensors");
  }
  if (arrays.size() > kMaxArrays) return ValueError("expects at most ", kMaxArrays, " arrays");
  for (const DataArray& array : arrays) {
    if (array.name.size() > kMaxNameBytes) {
      return ValueError("expects names of at most ", kMaxNameBytes, " bytes");
    }
  }
  return arrays;
}

}  // namespace chx::server
