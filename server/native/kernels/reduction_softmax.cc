// Kernels of softmax, log_softmax (ops/defs/reduction.cc) and their gradients. The operators are
// compositions; these kernels compute each row while it is in the cache.
#include <algorithm>

#include "ops/inference_rules.h"
#include "server/kernels/axis.h"
#include "server/kernels/indexer.h"
#include "server/native/kernels/reduction.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"

namespace chx::server::native {
namespace {

using kernels::AxisSlices;

// Because of exp, an element costs about as much as 4 cheap ones.
int64_t RowsGrainOf(int64_t elements) { return std::max<int64_t>(1, kGrain / 4 / elements); }

absl::StatusOr<uint32_t> AxesOf(const OpDef& op, int ndim, const AttrValue& axes) {
  return rules::NormalizeAxes(op.name, axes.has_value() ? axes : AttrValue::FromInts({1}), ndim);
}

// The array as (before, axes, after). UnimplementedError if the axes are not adjacent.
absl::StatusOr<AxisSlices> SlicesOf(const KernelArgs& args, const Shape& shape) {
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, AxesOf(args.op, shape.size(), args.attrs[0]));
  AxisSlices slices;
  bool inside = false;
  for (int d = 0; d < shape.size(); ++d) {
    if (((axes >> d) & 1) != 0) {
      if (inside && slices.after > 1) return absl::UnimplementedError("axes apart");
      slices.size *= shape[d];
      inside = true;
    } else {
      (inside ? slices.after : slices.before) *= shape[d];
    }
  }
  return slices;
}

template <bool kLog>
absl::Status RunSoftmax(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const AxisSlices slices, SlicesOf(args, out.shape));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  const SoftmaxLoops& loops = Loops().softmax[static_cast<int>(out.dtype)];
  const int64_t item = ItemSize(out.dtype);
  if (slices.after == 1) {
    const int64_t bytes = slices.size * item;
    PoolOf(args).ParallelFor(
        slices.before, RowsGrainOf(slices.size), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            loops.row(kLog, x.data + row * bytes, slices.size, out.data + row * bytes);
          }
        });
    return absl::OkStatus();
  }
  const int64_t width = std::min(slices.after, loops.max_columns);
  const int64_t chunks = (slices.after + width - 1) / width;
  PoolOf(args).ParallelFor(
      slices.before * chunks, RowsGrainOf(slices.size * width), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t column = task % chunks * width;
          const int64_t at = (task / chunks * slices.size * slices.after + column) * item;
          loops.columns(kLog, x.data + at, slices.size, slices.after,
                        std::min(width, slices.after - column), out.data + at);
        }
      });
  return absl::OkStatus();
}

template <bool kLog>
absl::Status RunSoftmaxGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const AxisSlices slices, SlicesOf(args, out.shape));
  if (slices.after > 1) return absl::UnimplementedError("not of rows");
  CHX_ASSIGN_OR_RETURN(const KernelTensor y, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(1), out.dtype));
  const SoftmaxLoops& loops = Loops().softmax[static_cast<int>(out.dtype)];
  const int64_t bytes = slices.size * ItemSize(out.dtype);
  PoolOf(args).ParallelFor(slices.before, RowsGrainOf(slices.size),
                           [&](int64_t begin, int64_t end) {
                             for (int64_t row = begin; row < end; ++row) {
                               loops.grad_row(kLog, y.data + row * bytes, gy.data + row * bytes,
                                              slices.size, out.data + row * bytes);
                             }
                           });
  return absl::OkStatus();
}

// Other inputs are copied first.
int SoftmaxRowDims(const OpDef& op, absl::Span<const KernelTensor> inputs,
                   absl::Span<const KernelTensor> outputs, absl::Span<const AttrValue> attrs) {
  const Dtype dtype = outputs[0].dtype;
  for (const KernelTensor& in : inputs) {
    if (in.dtype != dtype || !kernels::IsContiguous(in.shape, in.strides, ItemSize(dtype)))
      return 0;
  }
  const auto axes = AxesOf(op, inputs[0].ndim(), attrs[0]);
  return axes.ok() ? RowDimsBefore(*axes, inputs[0]) : 0;
}

}  // namespace

void RegisterReductionSoftmax(KernelTable& table) {
  SetRowwise(table, "softmax", RunSoftmax<false>, {SoftmaxRowDims});
  SetRowwise(table, "log_softmax", RunSoftmax<true>, {SoftmaxRowDims});
  SetRowwise(table, "softmax_grad", RunSoftmaxGrad<false>, {SoftmaxRowDims});
  SetRowwise(table, "log_softmax_grad", RunSoftmaxGrad<true>, {SoftmaxRowDims});
}

}  // namespace chx::server::native
