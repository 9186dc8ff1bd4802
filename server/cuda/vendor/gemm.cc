#include "server/cuda/vendor/gemm.h"

#include <algorithm>

namespace chx::server::cuda {
namespace {

// Lines of `length` elements, dense and `stride` bytes apart, that BLAS can step over.
bool Steps(int64_t lines, int64_t stride, int64_t length, int64_t item_size) {
  return lines <= 1 || (stride % item_size == 0 && stride >= length * item_size);
}

}  // namespace

MatrixLayout LayoutOf(const KernelTensor& tensor) {
  const int last = tensor.ndim() - 1;
  const int64_t item_size = ItemSize(tensor.dtype);
  const int64_t rows = tensor.shape[last - 1];
  const int64_t columns = tensor.shape[last];
  const int64_t row_stride = tensor.strides[last - 1];
  const int64_t column_stride = tensor.strides[last];
  MatrixLayout layout;
  for (int d = 0; d < last - 1; ++d) {
    const int64_t stride = tensor.strides[d];
    if (tensor.shape[d] > 1 && (stride < 0 || stride % item_size != 0)) return layout;
  }
  if ((columns <= 1 || column_stride == item_size) && Steps(rows, row_stride, columns, item_size)) {
    layout.ready = true;
    layout.leading = rows <= 1 ? std::max<int64_t>(1, columns) : row_stride / item_size;
  } else if ((rows <= 1 || row_stride == item_size) &&
             Steps(columns, column_stride, rows, item_size)) {
    layout.ready = true;
    layout.by_columns = true;
    layout.leading = columns <= 1 ? std::max<int64_t>(1, rows) : column_stride / item_size;
  }
  return layout;
}

kernels::LoopNest<2> BatchNest(const KernelTensor& a, const KernelTensor& b, const Shape& batch) {
  const auto stride = [&batch](const KernelTensor& tensor, int d) -> int64_t {
    const int own = d - (batch.size() - (tensor.ndim() - 2));
    return own < 0 || tensor.shape[own] == 1 ? 0 : tensor.strides[own];
  };
  kernels::LoopNest<2> nest;
  for (int d = 0; d < batch.size(); ++d) nest.Append(batch[d], {stride(a, d), stride(b, d)});
  return nest;
}

}  // namespace chx::server::cuda
