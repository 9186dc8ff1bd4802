// Files on disk.
#ifndef CHX_CLIENT_FILES_FILE_IO_H_
#define CHX_CLIENT_FILES_FILE_IO_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/files/file_errors.h"

namespace chx {

// A file that appears whole or not at all: it is written under another name beside its own, and
// renamed by Commit. Used by one thread.
class OutputFile {
 public:
  explicit OutputFile(FilePlace place) : place_(std::move(place)) {}
  ~OutputFile();  // what is not committed is gone
  OutputFile(const OutputFile&) = delete;

  absl::Status Open();
  absl::Status Write(absl::string_view data);
  absl::Status Commit();

 private:
  const FilePlace place_;
  std::string temporary_;
  int fd_ = -1;
};

// A regular file. Used by one thread.
class InputFile {
 public:
  explicit InputFile(FilePlace place) : place_(std::move(place)) {}
  ~InputFile();
  InputFile(const InputFile&) = delete;

  absl::Status Open();
  uint64_t bytes() const { return bytes_; }
  // The next ones, of which there must be so many.
  absl::Status Read(char* out, size_t bytes);

 private:
  const FilePlace place_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace chx

#endif  // CHX_CLIENT_FILES_FILE_IO_H_
