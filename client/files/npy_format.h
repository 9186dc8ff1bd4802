// NumPy's .npy format (numpy.lib.format): magic and version, the length of a header, the header,
// which is a dict in Python's syntax, then the elements.
#ifndef CHX_CLIENT_FILES_NPY_FORMAT_H_
#define CHX_CLIENT_FILES_NPY_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/files/host_array.h"

namespace chx {

struct NpyHeader {
  Dtype dtype = Dtype::kFloat32;
  ElementOrder order;
  std::vector<int64_t> shape;
};
// The dict.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);

// Reads an array of which the file has `bytes` bytes in all, neither more nor less.
absl::StatusOr<HostArray> ReadNpy(ReadFn read, uint64_t bytes);
// All before the elements.
std::string NpyPrefix(Dtype dtype, const Shape& shape);

}  // namespace chx

#endif  // CHX_CLIENT_FILES_NPY_FORMAT_H_
