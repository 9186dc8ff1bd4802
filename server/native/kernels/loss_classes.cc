// Kernels of ops/defs/loss_classes.cc.
#include <cstring>

#include "ops/error.h"
#include "server/native/kernels/class_labels.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/runtime/device.h"

namespace chx::server::native {
namespace {

// x, labels; smoothing.
absl::Status RunSmooth(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const int64_t classes = args.in(0).shape[1];
  CHX_ASSIGN_OR_RETURN(const int64_t* const labels, CheckedLabels(args, args.in(1), classes));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  const SmoothLossLoops& loops = LayersLoops().smooth_loss[static_cast<int>(out.dtype)];
  const double smoothing = args.attrs[0].AsFloat();
  const int64_t item_size = ItemSize(out.dtype);
  PoolOf(args).ParallelFor(out.size(), RowGrain(classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      char* const loss = out.data + row * item_size;
      if (labels[row] == kIgnored) {
        std::memset(loss, 0, item_size);
      } else {
        loops.row(x.data + row * classes * item_size, classes, labels[row], smoothing, loss);
      }
    }
  });
  return absl::OkStatus();
}

// x, labels, gy; smoothing.
absl::Status RunSmoothGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const int64_t classes = out.shape[1];
  CHX_ASSIGN_OR_RETURN(const int64_t* const labels, CheckedLabels(args, args.in(1), classes));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(2), out.dtype));
  const SmoothLossLoops& loops = LayersLoops().smooth_loss[static_cast<int>(out.dtype)];
  const double smoothing = args.attrs[0].AsFloat();
  const int64_t item_size = ItemSize(out.dtype);
  PoolOf(args).ParallelFor(out.shape[0], RowGrain(classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      char* const gx = out.data + row * classes * item_size;
      if (labels[row] == kIgnored) {
        std::memset(gx, 0, classes * item_size);
      } else {
        loops.grad(x.data + row * classes * item_size, classes, labels[row], smoothing,
                   gy.data + row * item_size, gx);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterLossClasses(KernelTable& table) {
  table.Set("smooth_cross_entropy", RunSmooth);
  table.Set("smooth_cross_entropy_grad", RunSmoothGrad);
}

}  // namespace chx::server::native
