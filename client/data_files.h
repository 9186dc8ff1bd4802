// Arrays in files of the daemon's operator (chxd --data-root).
#ifndef CHX_CLIENT_DATA_FILES_H_
#define CHX_CLIENT_DATA_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/array.h"

namespace chx {

class Session;

struct DataFileArray {
  std::string name;
  Dtype dtype = Dtype::kFloat32;
  Shape shape;
};

// Both wait for the daemon.
absl::StatusOr<std::vector<DataFileArray>> DescribeDataFile(Session* session,
                                                            const std::string& path);
// These rows of an array of the file as one of the session's. Empty: all of it.
absl::StatusOr<ArrayPtr> ReadDataFile(Session* session, const std::string& path,
                                      const DataFileArray& array, DeviceId device,
                                      absl::Span<const int64_t> rows);

}  // namespace chx

#endif  // CHX_CLIENT_DATA_FILES_H_
