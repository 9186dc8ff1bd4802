// Which of a key's numbers each element of uniform_by_key's result is.
#ifndef CHX_SERVER_KERNELS_KEYED_ROWS_H_
#define CHX_SERVER_KERNELS_KEYED_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "server/engine/kernel.h"
#include "server/kernels/host_device.h"

namespace chx::server::kernels {

struct KeyedRows {
  int64_t drawn;  // elements of each matrix
  int64_t kept;   // of them in the result
  int64_t first;  // the first of those

  CHX_HD int64_t Position(int64_t i) const { return i / kept * drawn + first + i % kept; }
  // How many elements from i on have positions one after the other.
  CHX_HD int64_t Left(int64_t i) const { return kept - i % kept; }
};

// The attributes are the shape of all, and the first row and the end of those of the result.
inline KeyedRows KeyedRowsOf(const KernelArgs& args) {
  const auto shape = args.attrs[0].ints();
  const int64_t columns = shape[shape.size() - 1];
  const int64_t rows = args.attrs[2].AsInt() - args.attrs[1].AsInt();
  return {shape[shape.size() - 2] * columns, std::max<int64_t>(rows * columns, 1),
          args.attrs[1].AsInt() * columns};
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_KEYED_ROWS_H_
