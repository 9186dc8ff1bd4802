// NumPy's .npy format (numpy.lib.format): magic and version, the length of a header, the header,
// which is a dict in Python's syntax, then the elements.
#ifndef CHX_FORMATS_NPY_HEADER_H_
#define CHX_FORMATS_NPY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "formats/reading.h"
#include "ops/array_spec.h"

namespace chx {

// How the elements lie in a file.
struct ElementOrder {
  bool swapped = false;  // the bytes of each element
  bool fortran = false;  // the first index moves fastest
};

struct NpyHeader {
  Dtype dtype = Dtype::kFloat32;
  ElementOrder order;
  std::vector<int64_t> shape;
};
// The dict.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);
// Of an array of which the file has `bytes` bytes in all. *prefix is how many come before the
// elements.
absl::StatusOr<NpyHeader> ReadNpyHeader(ReadFn read, uint64_t bytes, uint64_t* prefix);

// An error for bfloat16, which NumPy's files have no name for.
absl::Status CheckNpyDtype(Dtype dtype);

// All before the elements, of a dtype that passes the check.
std::string NpyPrefix(Dtype dtype, const Shape& shape);

}  // namespace chx

#endif  // CHX_FORMATS_NPY_HEADER_H_
