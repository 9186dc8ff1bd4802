#include "client/files/npy_format.h"

#include "ops/error.h"

namespace chx {

absl::StatusOr<HostArray> ReadNpy(ReadFn read, uint64_t bytes) {
  uint64_t prefix = 0;
  CHX_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(read, bytes, &prefix));
  CHX_RETURN_IF_ERROR(CheckShape("npy", header.shape, header.dtype));
  HostArray array;
  array.dtype = header.dtype;
  array.shape = Shape(header.shape);
  const auto want = static_cast<uint64_t>(NumElements(array.shape) * ItemSize(header.dtype));
  if (bytes - prefix != want) {
    return ValueError("expects ", want, " bytes of elements for shape ", array.shape.ToString(),
                      ", got ", bytes - prefix);
  }
  CHX_RETURN_IF_ERROR(ReadString(read, want, &array.data));
  NormalizeElements(header.order, &array);
  return array;
}

}  // namespace chx
