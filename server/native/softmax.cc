// softmax, log_softmax (ops/defs/reduction.cc) and their gradients: compositions, for which these
// are one pass over rows that stay in the cache.
#include <algorithm>

#include "ops/inference_rules.h"
#include "server/kernels/axis.h"
#include "server/native/device.h"
#include "server/native/groups.h"
#include "server/native/loops.h"
#include "server/native/nest.h"
#include "server/native/scratch.h"

namespace chx::server::native {
namespace {

using kernels::Lanes;

// exp makes an element cost about 4 cheap ones.
int64_t GrainOf(int64_t elements) { return std::max<int64_t>(1, kGrain / 4 / elements); }

// The array as (before, axes, after); an UnimplementedError if the axes are not neighbours.
absl::StatusOr<Lanes> LanesOf(const KernelArgs& args, const Shape& shape) {
  const AttrValue axis = args.attrs[0].has_value() ? args.attrs[0] : AttrValue::FromInts({1});
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, rules::NormalizeAxes(args.op.name, axis, shape.size()));
  Lanes lanes;
  bool inside = false;
  for (int d = 0; d < shape.size(); ++d) {
    if (((axes >> d) & 1) != 0) {
      if (inside && lanes.after > 1) return absl::UnimplementedError("axes apart");
      lanes.size *= shape[d];
      inside = true;
    } else {
      (inside ? lanes.after : lanes.before) *= shape[d];
    }
  }
  return lanes;
}

template <bool kLog>
absl::Status RunSoftmax(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const Lanes lanes, LanesOf(args, out.shape));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  const SoftmaxLoops& loops = Loops().softmax[static_cast<int>(out.dtype)];
  const int64_t item = ItemSize(out.dtype);
  if (lanes.after == 1) {
    const int64_t bytes = lanes.size * item;
    PoolOf(args).ParallelFor(lanes.before, GrainOf(lanes.size), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        loops.row(kLog, x.data + row * bytes, lanes.size, out.data + row * bytes);
      }
    });
    return absl::OkStatus();
  }
  const int64_t width = std::min(lanes.after, loops.max_columns);
  const int64_t chunks = (lanes.after + width - 1) / width;
  PoolOf(args).ParallelFor(
      lanes.before * chunks, GrainOf(lanes.size * width), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t column = task % chunks * width;
          const int64_t at = (task / chunks * lanes.size * lanes.after + column) * item;
          loops.columns(kLog, x.data + at, lanes.size, lanes.after,
                        std::min(width, lanes.after - column), out.data + at);
        }
      });
  return absl::OkStatus();
}

template <bool kLog>
absl::Status RunSoftmaxGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const Lanes lanes, LanesOf(args, out.shape));
  if (lanes.after > 1) return absl::UnimplementedError("not of rows");
  CHX_ASSIGN_OR_RETURN(const KernelTensor y, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(1), out.dtype));
  const SoftmaxLoops& loops = Loops().softmax[static_cast<int>(out.dtype)];
  const int64_t bytes = lanes.size * ItemSize(out.dtype);
  PoolOf(args).ParallelFor(lanes.before, GrainOf(lanes.size), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      loops.grad_row(kLog, y.data + row * bytes, gy.data + row * bytes, lanes.size,
                     out.data + row * bytes);
    }
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterSoftmax(KernelTable& table) {
  table.Set("softmax", RunSoftmax<false>);
  table.Set("log_softmax", RunSoftmax<true>);
  table.Set("softmax_grad", RunSoftmaxGrad<false>);
  table.Set("log_softmax_grad", RunSoftmaxGrad<true>);
}

}  // namespace chx::server::native
