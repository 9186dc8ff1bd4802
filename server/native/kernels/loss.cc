// Kernels of ops/defs/loss.cc.
#include <cstring>

#include "ops/error.h"
#include "server/native/kernels/class_labels.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/runtime/device.h"

namespace chx::server::native {
namespace {

absl::Status RunSoftmaxCrossEntropy(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const int64_t classes = args.in(0).shape[1];
  CHX_ASSIGN_OR_RETURN(const int64_t* const labels, CheckedLabels(args, args.in(1), classes));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  const CrossEntropyRow loss_of = Loops().cross_entropy[static_cast<int>(out.dtype)];
  const int64_t item_size = ItemSize(out.dtype);
  PoolOf(args).ParallelFor(out.size(), RowGrain(classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      char* const loss = out.data + row * item_size;
      if (labels[row] == kIgnored) {
        std::memset(loss, 0, item_size);
      } else {
        loss_of(x.data + row * classes * item_size, classes, labels[row], loss);
      }
    }
  });
  return absl::OkStatus();
}

absl::Status RunSoftmaxCrossEntropyGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const int64_t classes = out.shape[1];
  CHX_ASSIGN_OR_RETURN(const int64_t* const labels, CheckedLabels(args, args.in(1), classes));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(2), out.dtype));
  const CrossEntropyGradRow grad_of = Loops().cross_entropy_grad[static_cast<int>(out.dtype)];
  const int64_t item_size = ItemSize(out.dtype);
  PoolOf(args).ParallelFor(out.shape[0], RowGrain(classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      char* const gx = out.data + row * classes * item_size;
      if (labels[row] == kIgnored) {
        std::memset(gx, 0, classes * item_size);
      } else {
        grad_of(x.data + row * classes * item_size, classes, labels[row], gy.data + row * item_size,
                gx);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterLoss(KernelTable& table) {
  table.Set("softmax_cross_entropy", RunSoftmaxCrossEntropy);
  table.Set("softmax_cross_entropy_grad", RunSoftmaxCrossEntropyGrad);
}

}  // namespace chx::server::native
