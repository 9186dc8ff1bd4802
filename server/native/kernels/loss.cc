// Kernels of ops/defs/loss.cc and of those of loss_classes.cc that have kernels.
#include <algorithm>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "ops/error.h"
#include "server/engine/stop_token.h"
#include "server/kernels/dispatch.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

constexpr int64_t kIgnored = -1;

// Dense int64 labels, each a class or kIgnored.
absl::StatusOr<const int64_t*> CheckedLabels(const KernelArgs& args, const KernelTensor& labels,
                                             int64_t classes) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, labels, Dtype::kInt64));
  const int64_t* const data = reinterpret_cast<const int64_t*>(dense.data);
  StopWatch watch;
  for (int64_t i = 0; i < labels.size(); ++i) {
    if (watch.After(1)) break;
    if (data[i] != kIgnored && (data[i] < 0 || data[i] >= classes)) {
      return IndexError("[", args.op.name, "] expects labels below ", classes,
                        " or -1 to ignore a sample, got ", data[i]);
    }
  }
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));  // otherwise not all labels have been checked
  return data;
}

// Of rows of so many classes.
int64_t RowGrain(int64_t classes) {
  // Because of exp, an element costs about as much as 4 cheap ones.
  return std::max<int64_t>(1, kGrain / 4 / std::max<int64_t>(1, classes));
}

// x, labels: loss_of(row of x, classes, label, loss) for each row that is not ignored.
template <typename LossOf>
absl::Status RunLoss(const KernelArgs& args, LossOf loss_of) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const int64_t classes = args.in(0).shape[1];
  CHX_ASSIGN_OR_RETURN(const int64_t* const labels, CheckedLabels(args, args.in(1), classes));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
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

// x, labels, gy: grad_of(row of x, classes, label, element of gy, row of gx), likewise.
template <typename GradOf>
absl::Status RunLossGrad(const KernelArgs& args, GradOf grad_of) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const int64_t classes = out.shape[1];
  CHX_ASSIGN_OR_RETURN(const int64_t* const labels, CheckedLabels(args, args.in(1), classes));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(2), out.dtype));
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

absl::Status RunSoftmaxCrossEntropy(const KernelArgs& args) {
  return RunLoss(args, Loops().cross_entropy[static_cast<int>(args.out(0).dtype)]);
}

absl::Status RunSoftmaxCrossEntropyGrad(const KernelArgs& args) {
  return RunLossGrad(args, Loops().cross_entropy_grad[static_cast<int>(args.out(0).dtype)]);
}

// smoothing.
absl::Status RunSmooth(const KernelArgs& args) {
  const SmoothLossLoops& loops = Loops().layers->smooth_loss[static_cast<int>(args.out(0).dtype)];
  const double smoothing = args.attrs[0].AsFloat();
  return RunLoss(args, [&](const char* x, int64_t n, int64_t label, char* loss) {
    loops.row(x, n, label, smoothing, loss);
  });
}

absl::Status RunSmoothGrad(const KernelArgs& args) {
  const SmoothLossLoops& loops = Loops().layers->smooth_loss[static_cast<int>(args.out(0).dtype)];
  const double smoothing = args.attrs[0].AsFloat();
  return RunLossGrad(args, [&](const char* x, int64_t n, int64_t label, const char* gy, char* gx) {
    loops.grad(x, n, label, smoothing, gy, gx);
  });
}

// target; ignore_index, classes, dtype.
absl::Status RunClassLabels(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor target, Contiguous(args, args.in(0), Dtype::kInt64));
  const int64_t* const in = reinterpret_cast<const int64_t*>(target.data);
  int64_t* const labels = reinterpret_cast<int64_t*>(args.out(0).data);
  const int64_t ignored = args.attrs[0].AsInt();
  const int64_t beyond = args.attrs[1].AsInt();
  int64_t count = 0;
  InPieces(target.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t label = in[i] < 0 ? beyond : in[i];
      labels[i] = in[i] == ignored ? kIgnored : label;
      count += static_cast<int64_t>(in[i] != ignored);
    }
  });
  const KernelTensor& total = args.out(1);
  kernels::VisitFloat(total.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    *reinterpret_cast<T*>(total.data) = kernels::Cast<T>(count);
  });
  return absl::OkStatus();
}

// x (N, C, M), labels (N, M).
absl::Status RunNllElements(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const KernelTensor& x = args.in(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const int64_t* const labels, CheckedLabels(args, args.in(1), x.shape[1]));
  const int64_t columns = out.shape[1];
  kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* const y = reinterpret_cast<T*>(out.data);
    PoolOf(args).ParallelFor(out.size(), kGrain / 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const char* const at = x.data + i / columns * x.strides[0] +
                               std::max<int64_t>(0, labels[i]) * x.strides[1] +
                               i % columns * x.strides[2];
        const auto own = kernels::Load(*reinterpret_cast<const T*>(at));
        y[i] = labels[i] == kIgnored ? T(0.0F) : kernels::Store<T>(-own);
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterLoss(KernelTable& table) {
  table.Set("class_labels", RunClassLabels);
  table.Set("nll_loss_elements", RunNllElements);
  table.Set("smooth_cross_entropy", RunSmooth);
  table.Set("smooth_cross_entropy_grad", RunSmoothGrad);
  table.Set("softmax_cross_entropy", RunSoftmaxCrossEntropy);
  table.Set("softmax_cross_entropy_grad", RunSoftmaxCrossEntropyGrad);
}

}  // namespace chx::server::native
