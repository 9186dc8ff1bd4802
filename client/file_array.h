// Arrays in files on the daemon's side: data of runs that is in nobody's memory (docs/runs.md).
//
//   absl::StatusOr<chx::FileArrayMap> train = chx::FindFileArrays(*session, "mnist/train.npz");
//   const chx::RunStep step = {program, {train->at("x"), train->at("t")}, 64, {"loss"}};
#ifndef CHX_CLIENT_FILE_ARRAY_H_
#define CHX_CLIENT_FILE_ARRAY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref.h"
#include "client/array.h"
#include "client/session.h"

namespace chx {

// An array in a file below the folder that the daemon's operator has named (chxd --data-root), of
// which rows are read when they are needed. Holds no memory of the session's.
class FileArray {
 public:
  // Of the file, as given to FindFileArrays.
  const std::string& path() const { return path_; }
  // Within the file.
  const std::string& name() const { return name_; }
  // Of all of it; the device is where its rows will be.
  const ArraySpec& spec() const { return spec_; }
  const Ref<Session>& session() const { return session_; }

  // Makes an array of the session's of all rows, or of these, which may be in any order. Waits.
  //
  // kValue: the file has changed, or there are no such rows.
  Array Load() const;
  Array Load(absl::Span<const int64_t> rows) const;

 private:
  friend absl::StatusOr<std::map<std::string, FileArray>> FindFileArrays(Session& session,
                                                                         const std::string& path,
                                                                         DeviceId device);
  FileArray(Ref<Session> session, std::string path, std::string name, ArraySpec spec)
      : session_(std::move(session)),
        path_(std::move(path)),
        name_(std::move(name)),
        spec_(std::move(spec)) {}

  Ref<Session> session_;
  std::string path_;
  std::string name_;
  ArraySpec spec_;
};

// A file's arrays by their names.
using FileArrayMap = std::map<std::string, FileArray>;

// The arrays of a file NAME.npy, NAME.npz without compression or NAME.safetensors, by their names;
// that of a .npy file is the file's without its ending. `path` is relative to the daemon's folder.
// Waits.
//
// kValue: there is no such file, it is damaged, or elements are in Fortran's order;
// absl::IsPermissionDenied: the tenant may not use files.
absl::StatusOr<FileArrayMap> FindFileArrays(Session& session, const std::string& path,
                                            DeviceId device = 0);
// One of them. Without a name, the only one that there is.
absl::StatusOr<FileArray> FindFileArray(Session& session, const std::string& path,
                                        const std::string& name = "", DeviceId device = 0);

}  // namespace chx

#endif  // CHX_CLIENT_FILE_ARRAY_H_
