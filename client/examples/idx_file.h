// The format of the MNIST files.
#ifndef CHX_CLIENT_EXAMPLES_IDX_FILE_H_
#define CHX_CLIENT_EXAMPLES_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace chx {

// An array of bytes, in C order.
struct IdxFile {
  std::vector<int64_t> dims;
  std::vector<uint8_t> data;
};

// Reads an IDX file of unsigned bytes, compressed by gzip or not.
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path);

}  // namespace chx

#endif  // CHX_CLIENT_EXAMPLES_IDX_FILE_H_
