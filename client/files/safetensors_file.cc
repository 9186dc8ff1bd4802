#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "client/files/file_errors.h"
#include "client/files/file_io.h"
#include "client/files/host_array.h"
#include "client/files/safetensors.h"
#include "formats/safetensors_header.h"

namespace chx {
namespace {

constexpr uint64_t kLengthBytes = 8;

absl::StatusOr<SafetensorsHeader> ReadHeader(InputFile* file) {
  if (file->bytes() < kLengthBytes) return ValueError("is too short for a .safetensors file");
  unsigned char bytes[kLengthBytes];
  CHX_RETURN_IF_ERROR(file->Read(reinterpret_cast<char*>(bytes), kLengthBytes));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{bytes[i]} << (8 * i);
  const uint64_t rest = file->bytes() - kLengthBytes;
  if (length > std::min(rest, kMaxSafetensorsHeader)) {
    return ValueError("expects a .safetensors file, whose header has at most ",
                      std::min(rest, kMaxSafetensorsHeader), " bytes here, got ", length);
  }
  std::string text;
  const auto read = [file](char* out, size_t count) { return file->Read(out, count); };
  CHX_RETURN_IF_ERROR(ReadString(read, length, &text));
  return ParseSafetensorsHeader(text, rest - length);
}

absl::StatusOr<Array> ReadEntry(InputFile* file, const SafetensorsEntry& entry, Session& session,
                                DeviceId device) {
  HostArray host;
  host.dtype = entry.dtype;
  host.shape = entry.shape;
  const auto read = [file](char* out, size_t count) { return file->Read(out, count); };
  CHX_RETURN_IF_ERROR(ReadString(read, entry.end - entry.begin, &host.data));
  NormalizeElements({}, &host);
  Array array = UploadHostArray(session, host, device);
  CHX_RETURN_IF_ERROR(array.status());
  return array;
}

absl::Status Write(const SafetensorsHeader& header, const std::string& prefix,
                   const ArrayMap& arrays, OutputFile* file) {
  CHX_RETURN_IF_ERROR(file->Write(prefix));
  for (const SafetensorsEntry& entry : header.entries) {
    CHX_ASSIGN_OR_RETURN(const HostArray host, FetchHostArray(arrays.at(entry.name)));
    CHX_RETURN_IF_ERROR(file->Write(host.data));
  }
  return file->Commit();
}

}  // namespace

absl::Status SaveSafetensors(const std::string& path, const ArrayMap& arrays,
                             const SafetensorsMetadata& metadata) {
  const FilePlace place = {"save_safetensors", path, ""};
  SafetensorsHeader header;
  header.metadata = metadata;
  for (const auto& [name, array] : arrays) {
    CHX_RETURN_IF_ERROR(array.status());
    header.entries.push_back({name, array.dtype(), array.shape()});
  }
  // So that each is aligned.
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return ItemSize(a.dtype) > ItemSize(b.dtype);
  });
  const absl::StatusOr<std::string> prefix = SafetensorsPrefix(&header);
  CHX_RETURN_IF_ERROR(AtPlace(place, prefix.status()));
  OutputFile file(place);
  CHX_RETURN_IF_ERROR(file.Open());
  return Write(header, *prefix, arrays, &file);
}

absl::StatusOr<ArrayMap> LoadSafetensors(Session& session, const std::string& path, DeviceId device,
                                         SafetensorsMetadata* metadata) {
  FilePlace place = {"load_safetensors", path, ""};
  InputFile file(place);
  CHX_RETURN_IF_ERROR(file.Open());
  absl::StatusOr<SafetensorsHeader> header = ReadHeader(&file);
  CHX_RETURN_IF_ERROR(AtPlace(place, header.status()));
  ArrayMap arrays;
  for (const SafetensorsEntry& entry : header->entries) {  // as they follow one another
    place.member = entry.name;
    absl::StatusOr<Array> array = ReadEntry(&file, entry, session, device);
    CHX_RETURN_IF_ERROR(AtPlace(place, array.status()));
    arrays[entry.name] = *std::move(array);
  }
  if (metadata != nullptr) *metadata = std::move(header->metadata);
  return arrays;
}

}  // namespace chx
