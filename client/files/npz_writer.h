// One member of a .npz file that is being written.
#ifndef CHX_CLIENT_FILES_NPZ_WRITER_H_
#define CHX_CLIENT_FILES_NPZ_WRITER_H_

#include <zip.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/array.h"

namespace chx {

// Fetches its array when libzip asks for the bytes, and forgets it afterwards. Lives until the
// archive is closed. Used by one thread.
class NpzMember {
 public:
  explicit NpzMember(Array array) : array_(std::move(array)) { zip_error_init(&error_); }
  ~NpzMember() { zip_error_fini(&error_); }
  NpzMember(const NpzMember&) = delete;

  // Null: no memory. The archive owns it; it refers to this.
  zip_source_t* MakeSource(zip_t* archive) {
    return zip_source_function(archive, &NpzMember::Call, this);
  }
  // Why the array could not be fetched.
  const absl::Status& status() const { return status_; }

 private:
  static zip_int64_t Call(void* self, void* data, zip_uint64_t bytes, zip_source_cmd_t command);
  zip_int64_t Open();
  zip_int64_t Read(char* out, size_t bytes);
  zip_int64_t Describe(void* data) const;

  const Array array_;
  absl::Status status_;
  zip_error_t error_;
  std::string data_;
  size_t position_ = 0;
};

}  // namespace chx

#endif  // CHX_CLIENT_FILES_NPZ_WRITER_H_
