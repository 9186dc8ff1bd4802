// The arrays of one file, whatever its format.
#ifndef CHX_SERVER_DATA_DATA_FORMATS_H_
#define CHX_SERVER_DATA_DATA_FORMATS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/reading.h"
#include "server/data/data_root.h"

namespace chx::server {

// By the ending of `path`. The arrays are within the `bytes` of the file; their path and stamp are
// not set. An error says what is wrong with the file, without its name.
absl::StatusOr<std::vector<DataArray>> ReadDataHeader(const std::string& path, uint64_t bytes,
                                                      ReadAtFn read);

}  // namespace chx::server

#endif  // CHX_SERVER_DATA_DATA_FORMATS_H_
