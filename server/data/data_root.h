// Arrays in files below a folder that the operator names (--data-root): .npy, .npz without
// compression, .safetensors. See docs/decisions/0033-files-are-read-by-rows.md.
#ifndef CHX_SERVER_DATA_DATA_ROOT_H_
#define CHX_SERVER_DATA_DATA_ROOT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"

namespace chx::server {

// What the parsers may take at a time, whatever the file has.
inline constexpr int64_t kDataParseBytes = int64_t{16} << 20;

// What is another once a file has been changed.
struct DataStamp {
  uint64_t size = 0;
  uint64_t mtime_ns = 0;
  uint64_t inode = 0;  // 0: not known

  bool operator==(const DataStamp& o) const {
    return size == o.size && mtime_ns == o.mtime_ns &&
           (inode == o.inode || inode == 0 || o.inode == 0);
  }
};

// An array in a file, in C order and this machine's byte order.
struct DataArray {
  std::string path;  // relative to the root
  std::string name;  // within the file; of a .npy file, the file's without its ending
  Dtype dtype = Dtype::kFloat32;
  Shape shape;
  uint64_t begin = 0;  // in the file
  DataStamp stamp;

  // Of the first axis; one without dimensions has one.
  int64_t rows() const { return shape.size() == 0 ? 1 : shape[0]; }
  int64_t row_bytes() const;
};

// Keeps no file open: each reading finds it again, and fails if it has changed. Errors are of
// kValue. Thread-safe.
class DataRoot {
 public:
  static absl::StatusOr<std::unique_ptr<DataRoot>> Open(const std::string& folder);
  ~DataRoot();
  DataRoot(const DataRoot&) = delete;

  absl::StatusOr<std::vector<DataArray>> Describe(const std::string& path) const;
  absl::StatusOr<DataArray> Find(const std::string& path, const std::string& name) const;
  // These rows, one after the other. `out` has room for them.
  absl::Status Read(const DataArray& array, absl::Span<const int64_t> rows, char* out) const;

 private:
  class File;
  explicit DataRoot(int folder) : folder_(folder) {}

  const int folder_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_DATA_DATA_ROOT_H_
