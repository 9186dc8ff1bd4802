// Errors that name a file.
#ifndef CHX_CLIENT_FILES_FILE_ERRORS_H_
#define CHX_CLIENT_FILES_FILE_ERRORS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chx {

// Where in a file something was wrong.
struct FilePlace {
  absl::string_view op;  // "load_npz"
  std::string path;
  std::string member;  // of the file; empty: the file itself
};

// The error with "[op] path: 'member': " before its message; OK stays OK.
absl::Status AtPlace(const FilePlace& place, const absl::Status& status);
// What errno says.
absl::Status SystemError(const FilePlace& place, absl::string_view what);

}  // namespace chx

#endif  // CHX_CLIENT_FILES_FILE_ERRORS_H_
