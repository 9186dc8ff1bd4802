#include "client/files/npz_writer.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/files/file_errors.h"
#include "client/files/host_array.h"
#include "client/files/npy_format.h"
#include "client/files/npz.h"

namespace chx {
namespace {

constexpr zip_uint16_t kFirstDay = (1 << 5) | 1;  // of 1980: equal arrays make equal files

// Adds a member to the archive; false as libzip says.
bool Add(zip_t* archive, const std::string& name, const NpzOptions& options, NpzMember* member) {
  zip_source_t* const source = member->MakeSource(archive);
  if (source == nullptr) return false;
  const zip_int64_t index =
      zip_file_add(archive, absl::StrCat(name, ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return false;
  }
  const auto i = static_cast<zip_uint64_t>(index);
  return zip_set_file_compression(archive, i, options.compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE,
                                  0) == 0 &&
         zip_file_set_dostime(archive, i, 0, kFirstDay, 0) == 0;
}

// The error of a member if there is one, else libzip's.
absl::Status ErrorOf(zip_t* archive, const std::list<NpzMember>& members) {
  for (const NpzMember& member : members) CHX_RETURN_IF_ERROR(member.status());
  return absl::UnknownError(absl::StrCat("cannot write: ", zip_strerror(archive)));
}

}  // namespace

zip_int64_t NpzMember::Open() {
  const absl::StatusOr<HostArray> host = FetchHostArray(array_);
  if (!host.ok()) {
    status_ = host.status();
    zip_error_set(&error_, ZIP_ER_READ, 0);
    return -1;
  }
  data_ = NpyPrefix(host->dtype, host->shape) + host->data;
  position_ = 0;
  return 0;
}

zip_int64_t NpzMember::Read(char* out, size_t bytes) {
  const size_t count = std::min(bytes, data_.size() - position_);
  if (count != 0) std::memcpy(out, data_.data() + position_, count);
  position_ += count;
  return static_cast<zip_int64_t>(count);
}

zip_int64_t NpzMember::Describe(void* data) const {
  auto* const info = static_cast<zip_stat_t*>(data);
  zip_stat_init(info);
  info->size = NpyPrefix(array_.dtype(), array_.shape()).size() +
               static_cast<zip_uint64_t>(array_.spec().nbytes());
  info->valid |= ZIP_STAT_SIZE;
  return sizeof(*info);
}

zip_int64_t NpzMember::Call(void* self, void* data, zip_uint64_t bytes, zip_source_cmd_t command) {
  NpzMember& member = *static_cast<NpzMember*>(self);
  switch (command) {
    case ZIP_SOURCE_OPEN:
      return member.Open();
    case ZIP_SOURCE_READ:
      return member.Read(static_cast<char*>(data), bytes);
    case ZIP_SOURCE_CLOSE:
      member.data_ = std::string();
      return 0;
    case ZIP_SOURCE_STAT:
      return member.Describe(data);
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&member.error_, data, bytes);
    case ZIP_SOURCE_FREE:
      return 0;
    case ZIP_SOURCE_SUPPORTS:
      return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                            ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
    default:
      zip_error_set(&member.error_, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

absl::Status SaveNpz(const std::string& path, const ArrayMap& arrays, const NpzOptions& options) {
  FilePlace place = {"save_npz", path, ""};
  // libzip removes an archive of no members.
  if (arrays.empty()) return AtPlace(place, ValueError("expects at least one array"));
  for (const auto& [name, array] : arrays) {
    CHX_RETURN_IF_ERROR(array.status());
    place.member = name;
    CHX_RETURN_IF_ERROR(AtPlace(place, CheckNpyDtype(array.dtype())));
  }
  place.member.clear();
  int code = 0;
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (archive == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const absl::Status status =
        absl::UnknownError(absl::StrCat("cannot write: ", zip_error_strerror(&error)));
    zip_error_fini(&error);
    return AtPlace(place, status);
  }
  std::list<NpzMember> members;  // which stay where they are
  bool added = true;
  for (auto it = arrays.begin(); added && it != arrays.end(); ++it) {
    added = Add(archive, it->first, options, &members.emplace_back(it->second));
  }
  // Closing is what writes, to another file, which then takes the place of this one.
  if (added && zip_close(archive) == 0) return absl::OkStatus();
  const absl::Status status = ErrorOf(archive, members);
  zip_discard(archive);
  return AtPlace(place, status);
}

}  // namespace chx
