// Files of arrays: .npz, the header of .npy and that of .safetensors, as clients and the daemon
// read them. The first byte says which.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/files/npy_format.h"
#include "client/files/npz_reader.h"
#include "formats/safetensors_header.h"
#include "server/data/data_formats.h"
#include "tests/fuzz/target.h"

namespace chx {
namespace {

constexpr size_t kReaders = 6;
uint64_t counts[kReaders][2];  // taken, refused

uint64_t BytesOf(Dtype dtype, const Shape& shape) {
  return static_cast<uint64_t>(NumElements(shape) * ItemSize(dtype));
}

bool NpzIsSane(absl::string_view bytes) {
  return ReadNpzBytes(bytes,
                      [](const std::string&, HostArray array) {
                        if (array.data.size() != BytesOf(array.dtype, array.shape)) std::abort();
                        return absl::OkStatus();
                      })
      .ok();
}

bool NpyIsSane(absl::string_view bytes) {
  absl::string_view left = bytes;
  const auto read = [&left](char* out, size_t count) -> absl::Status {
    if (count > left.size()) return ValueError("is cut short");
    std::memcpy(out, left.data(), count);
    left.remove_prefix(count);
    return absl::OkStatus();
  };
  const absl::StatusOr<HostArray> array = ReadNpy(read, bytes.size());
  if (array.ok() && array->data.size() != BytesOf(array->dtype, array->shape)) std::abort();
  return array.ok();
}

bool SafetensorsAreSane(absl::string_view text) {
  constexpr uint64_t kBytes = 32;
  const absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(text, kBytes);
  if (!header.ok()) return false;
  uint64_t sum = 0;
  for (const SafetensorsEntry& entry : header->entries) {
    if (entry.end - entry.begin != BytesOf(entry.dtype, entry.shape)) std::abort();
    if (entry.begin != sum) std::abort();
    sum = entry.end;
  }
  if (sum != kBytes) std::abort();
  return true;
}

bool DataIsSane(const char* path, absl::string_view bytes) {
  const auto read = [bytes](uint64_t begin, char* out, size_t count) -> absl::Status {
    if (begin > bytes.size() || count > bytes.size() - begin) return ValueError("is cut short");
    std::memcpy(out, bytes.data() + begin, count);
    return absl::OkStatus();
  };
  const auto arrays = server::ReadDataHeader(path, bytes.size(), read);
  if (!arrays.ok()) return false;
  for (const server::DataArray& array : *arrays) {
    const uint64_t want = BytesOf(array.dtype, array.shape);
    if (array.begin > bytes.size() || want > bytes.size() - array.begin) std::abort();
    const auto rows = static_cast<uint64_t>(array.rows() * array.row_bytes());
    if (rows != want) std::abort();
  }
  return true;
}
bool NpzOfDaemonIsSane(absl::string_view bytes) { return DataIsSane("a.npz", bytes); }
bool NpyOfDaemonIsSane(absl::string_view bytes) { return DataIsSane("a.npy", bytes); }
bool SafetensorsOfDaemonAreSane(absl::string_view bytes) {
  return DataIsSane("a.safetensors", bytes);
}

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  bool (*const readers[chx::kReaders])(absl::string_view) = {
      chx::NpzIsSane,         chx::NpyIsSane,         chx::SafetensorsAreSane,
      chx::NpzOfDaemonIsSane, chx::NpyOfDaemonIsSane, chx::SafetensorsOfDaemonAreSane};
  const size_t which = data[0] % chx::kReaders;
  ++chx::counts[which][readers[which](bytes) ? 0 : 1];
  return 0;
}

namespace chx {

std::string FuzzCounts() {
  std::string text;
  const char* const names[] = {".npz",          ".npy",          ".safetensors",
                               "daemon's .npz", "daemon's .npy", "daemon's .safetensors"};
  for (size_t i = 0; i < kReaders; ++i) {
    absl::StrAppend(&text, "  ", names[i], " taken ", counts[i][0], ", refused ", counts[i][1],
                    "\n");
  }
  return text;
}

std::vector<std::string> FuzzSeeds() {
  using std::string_literals::operator""s;
  const std::string npy = NpyPrefix(Dtype::kInt16, Shape({2, 1})) + "\1\2\3\4";
  // A ZIP archive of one stored member that holds it, whose checksum is wrong.
  const std::string size = {static_cast<char>(npy.size()), 0, 0, 0};
  const std::string fields = "\0\0\0\0\x21\0\0\0\0\0"s + size + size + "\5\0"s;
  const std::string local = "PK\3\4\x0a\0"s + fields + "\0\0a.npy"s + npy;
  const std::string central =
      "PK\1\2\x0a\0\x0a\0"s + fields + "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a.npy"s;
  const std::string end = "PK\5\6\0\0\0\0\1\0\1\0"s + static_cast<char>(central.size()) +
                          "\0\0\0"s + static_cast<char>(local.size()) + "\0\0\0\0\0"s;
  const std::string json = R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
  const std::string tensors =
      static_cast<char>(json.size()) + "\0\0\0\0\0\0\0"s + json + "01234567";
  return {
      "\0"s + local + central + end,
      "\1"s + npy,
      "\3"s + local + central + end,
      "\4"s + npy,
      "\5"s + tensors,
      "\1\x93NUMPY\2\0\x40\0\0\0{'descr': '>f8', 'fortran_order': True, 'shape': (0, 3L), }"s,
      R"(2{"w": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]}})"s,
      R"(2{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "__metadata__": {"a": "b"},
             "b": {"dtype": "F32", "shape": [7], "data_offsets": [4, 32]}})"s};
}

}  // namespace chx
