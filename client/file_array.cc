#include "client/file_array.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "client/data_files.h"
#include "ops/error.h"

namespace chx {
namespace {

Array Read(const FileArray& array, absl::Span<const int64_t> rows) {
  const DataFileArray file = {array.name(), array.spec().dtype, array.spec().shape};
  absl::StatusOr<ArrayPtr> read =
      ReadDataFile(array.session().get(), array.path(), file, array.spec().device, rows);
  return read.ok() ? Array(*std::move(read)) : Array(read.status());
}

}  // namespace

Array FileArray::Load() const { return Read(*this, {}); }

Array FileArray::Load(absl::Span<const int64_t> rows) const {
  if (rows.empty() || spec_.ndim() == 0) {
    return Array(ValueError("[data] expects one row at least, of an array with a first axis"));
  }
  return Read(*this, rows);
}

absl::StatusOr<FileArrayMap> FindFileArrays(Session& session, const std::string& path,
                                            DeviceId device) {
  CHX_ASSIGN_OR_RETURN(const std::vector<DataFileArray> found, DescribeDataFile(&session, path));
  FileArrayMap arrays;
  for (const DataFileArray& each : found) {
    arrays.emplace(each.name, FileArray(Ref<Session>(&session), path, each.name,
                                        ArraySpec(each.dtype, each.shape, device)));
  }
  return arrays;
}

absl::StatusOr<FileArray> FindFileArray(Session& session, const std::string& path,
                                        const std::string& name, DeviceId device) {
  CHX_ASSIGN_OR_RETURN(const FileArrayMap arrays, FindFileArrays(session, path, device));
  const auto found = name.empty() && arrays.size() == 1 ? arrays.begin() : arrays.find(name);
  if (found != arrays.end()) return found->second;
  const auto add_name = [](std::string* out, const FileArrayMap::value_type& each) {
    out->append(each.first);
  };
  return ValueError("[data] expects the name of an array of '", path, "', which has ",
                    absl::StrJoin(arrays, ", ", add_name), ", got '", name, "'");
}

}  // namespace chx
