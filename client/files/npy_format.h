// NumPy's .npy format, with the elements.
#ifndef CHX_CLIENT_FILES_NPY_FORMAT_H_
#define CHX_CLIENT_FILES_NPY_FORMAT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/files/host_array.h"
#include "formats/npy_header.h"

namespace chx {

// Reads an array of which the file has `bytes` bytes in all, neither more nor less.
absl::StatusOr<HostArray> ReadNpy(ReadFn read, uint64_t bytes);

}  // namespace chx

#endif  // CHX_CLIENT_FILES_NPY_FORMAT_H_
