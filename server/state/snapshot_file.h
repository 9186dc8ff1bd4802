// Files of checksummed parts, written so that a crash leaves the old file or the new one.
//
// A file is a line that names the format, and parts: {u32 kind, u32 number, u64 bytes}, so many
// bytes, and the XXH3 of both. The last part is of kind 0 and says how many there are.
#ifndef CHX_SERVER_STATE_SNAPSHOT_FILE_H_
#define CHX_SERVER_STATE_SNAPSHOT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/owned_fd.h"

namespace chx::server {

enum class PartKind : uint32_t { kEnd = 0, kHead = 1, kBuffer = 2, kRecords = 3 };

// Parts to a descriptor, in order. Used by one thread.
class PartWriter {
 public:
  explicit PartWriter(int fd);
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;

  // A part of `bytes`, which Append calls then bring.
  absl::Status Begin(PartKind kind, uint64_t bytes);
  absl::Status Append(absl::string_view data);
  absl::Status Finish();
  absl::Status Write(PartKind kind, absl::string_view data);
  // The last part; what was written is on the disk when it returns.
  absl::Status End();
  uint64_t bytes() const { return total_; }

 private:
  absl::Status Put(absl::string_view data);

  struct Hash;
  const int fd_;
  const std::unique_ptr<Hash> hash_;
  uint32_t number_ = 0;
  uint64_t left_ = 0;
  uint64_t total_ = 0;
};

// What PartWriter has written. Everything is an error that is not as it was written: callers get
// data before its checksum is known, and must not use it before Finish.
class PartReader {
 public:
  explicit PartReader(int fd);
  ~PartReader();
  PartReader(const PartReader&) = delete;

  // The next part, of any kind. At the end, kind is kEnd, and nothing follows.
  absl::Status Next(PartKind* kind, uint64_t* bytes);
  absl::Status Read(char* out, size_t bytes);
  // After all of the part was read.
  absl::Status Finish();
  // A whole part, whose size is checked before memory is taken.
  absl::StatusOr<std::string> Take(PartKind kind, uint64_t max_bytes);

 private:
  absl::Status Get(char* out, size_t bytes);

  struct Hash;
  const int fd_;
  const std::unique_ptr<Hash> hash_;
  bool begun_ = false;
  uint32_t number_ = 0;
  uint64_t left_ = 0;
};

// A folder of files that only the daemon's user may write to. Thread-safe.
class StateFolder {
 public:
  // Makes the folder (not those above it). An error if others may write there, or another daemon
  // uses it.
  static absl::StatusOr<std::unique_ptr<StateFolder>> Open(const std::string& path);

  // Writes a file by `write`, which gets a descriptor. Either all of it is there afterwards, and
  // stays there after a crash, or what was there before. `name`: letters, digits and dots.
  absl::Status Replace(const std::string& name, absl::FunctionRef<absl::Status(int fd)> write);
  // Gives a file another name, by which it stays when another one replaces it. kNotFound: there is
  // none.
  absl::Status Link(const std::string& name, const std::string& other);
  // Replaces a file by another one that is there, for good.
  absl::Status Rename(const std::string& name, const std::string& to);
  // Whether the names are both of one file.
  bool AreSame(const std::string& a, const std::string& b) const;
  absl::StatusOr<OwnedFd> OpenFile(const std::string& name) const;
  // Names of files with that ending, in order.
  absl::StatusOr<std::vector<std::string>> List(absl::string_view ending) const;
  void Remove(const std::string& name);
  const std::string& path() const { return path_; }

 private:
  StateFolder(std::string path, OwnedFd folder, OwnedFd lock)
      : path_(std::move(path)), folder_(std::move(folder)), lock_(std::move(lock)) {}

  const std::string path_;
  const OwnedFd folder_;
  const OwnedFd lock_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_SNAPSHOT_FILE_H_
