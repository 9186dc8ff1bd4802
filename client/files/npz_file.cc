#include <zip.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/files/file_errors.h"
#include "client/files/file_io.h"
#include "client/files/npy_format.h"
#include "client/files/npz.h"
#include "client/files/npz_reader.h"

namespace chx {
namespace {

constexpr char kLoad[] = "load_npz";
constexpr uint64_t kMostDeflated = 1100;  // times as many bytes; deflate cannot do more than 1032
constexpr uint64_t kSlack = 1024;

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

absl::Status NotAZip(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const absl::Status status =
      ValueError("expects a .npz file, which is a ZIP archive: ", zip_error_strerror(&error));
  zip_error_fini(&error);
  return status;
}

// Whether the member may be what it says: memory is allocated for it.
absl::Status CheckMember(const zip_stat_t& info, uint64_t archive_bytes) {
  constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((info.valid & kNeeded) != kNeeded) return ValueError("is a damaged member");
  if (info.encryption_method != ZIP_EM_NONE) return ValueError("expects no encryption");
  if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE) {
    return ValueError("expects no compression or deflate, got method ", info.comp_method);
  }
  if (info.comp_size > archive_bytes || info.size > kMostDeflated * archive_bytes ||
      info.size > kMostDeflated * info.comp_size + kSlack) {
    return ValueError("is a damaged member: ", info.size, " bytes cannot come from ",
                      info.comp_size);
  }
  return absl::OkStatus();
}

absl::StatusOr<HostArray> ReadMember(zip_t* archive, const zip_stat_t& info) {
  const std::unique_ptr<zip_file_t, CloseMember> member(zip_fopen_index(archive, info.index, 0));
  if (member == nullptr) return ValueError(zip_strerror(archive));
  const auto read = [&member](char* out, size_t bytes) -> absl::Status {
    const zip_int64_t got = zip_fread(member.get(), out, bytes);
    if (got < 0) return ValueError(zip_file_strerror(member.get()));
    if (static_cast<size_t>(got) == bytes) return absl::OkStatus();
    return ValueError("is cut short: expects ", bytes, " bytes more, got ", got);
  };
  absl::StatusOr<HostArray> array = ReadNpy(read, info.size);
  char beyond = 0;  // at the end the checksum is looked at
  if (array.ok() && zip_fread(member.get(), &beyond, 1) != 0) {
    return ValueError(zip_file_strerror(member.get()));
  }
  return array;
}

absl::Status ReadMembers(zip_t* archive, uint64_t archive_bytes, FilePlace place, ArraySink sink) {
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    place.member = absl::StrCat("member ", i);
    if (zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &info) != 0) {
      return AtPlace(place, ValueError(zip_strerror(archive)));
    }
    if ((info.valid & ZIP_STAT_NAME) != 0) place.member = info.name;
    absl::string_view name = place.member;
    if (!absl::ConsumeSuffix(&name, ".npy")) {
      return AtPlace(place, ValueError("expects members NAME.npy only"));
    }
    CHX_RETURN_IF_ERROR(AtPlace(place, CheckMember(info, archive_bytes)));
    absl::StatusOr<HostArray> array = ReadMember(archive, info);
    CHX_RETURN_IF_ERROR(AtPlace(place, array.status()));
    CHX_RETURN_IF_ERROR(AtPlace(place, sink(std::string(name), *std::move(array))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadNpzFile(const std::string& path, ArraySink sink) {
  const FilePlace place = {kLoad, path, ""};
  InputFile file(place);
  CHX_RETURN_IF_ERROR(file.Open());
  int code = 0;
  const Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive == nullptr) return AtPlace(place, NotAZip(code));
  return ReadMembers(archive.get(), file.bytes(), place, sink);
}

absl::Status ReadNpzBytes(absl::string_view bytes, ArraySink sink) {
  const FilePlace place = {kLoad, "(memory)", ""};
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  const Archive archive(source == nullptr ? nullptr
                                          : zip_open_from_source(source, ZIP_RDONLY, &error));
  if (archive == nullptr) {
    const absl::Status status = NotAZip(zip_error_code_zip(&error));
    if (source != nullptr) zip_source_free(source);
    zip_error_fini(&error);
    return AtPlace(place, status);
  }
  return ReadMembers(archive.get(), bytes.size(), place, sink);
}

absl::StatusOr<ArrayMap> LoadNpz(Session& session, const std::string& path, DeviceId device) {
  ArrayMap arrays;
  CHX_RETURN_IF_ERROR(ReadNpzFile(path, [&](const std::string& name, HostArray host) {
    Array array = UploadHostArray(session, host, device);
    CHX_RETURN_IF_ERROR(array.status());
    if (arrays.emplace(name, std::move(array)).second) return absl::OkStatus();
    return ValueError("is there twice");
  }));
  return arrays;
}

}  // namespace chx
