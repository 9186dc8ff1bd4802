// Kernels of operators of ops/defs/loss_classes.cc that are compositions too, for what is most
// common: class indices without weights. A small batch's parts take longer to start than to run.
#include <algorithm>
#include <type_traits>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

// Values of the attribute `reduction` (ops/defs/common/loss_reduction.h).
constexpr int64_t kMeanReduction = 0;
constexpr int64_t kNoReduction = 2;

// x, target, weight; ignore_index, reduction. Calls loss_of(i, class, T* loss) for each target that
// is not ignored, and reduces. `work`: how many elements of cheap work such a loss is.
template <typename LossOf>
absl::Status RunReduced(const KernelArgs& args, int64_t classes, int64_t work, LossOf&& loss_of) {
  const KernelTensor& out = args.out(0);
  CHX_ASSIGN_OR_RETURN(const KernelTensor target, Contiguous(args, args.in(1), Dtype::kInt64));
  const int64_t samples = target.size();
  const int64_t* const labels = reinterpret_cast<const int64_t*>(target.data);
  const int64_t ignored = args.attrs[0].AsInt();
  const int64_t reduction = args.attrs[1].AsInt();
  int64_t count = 0;
  int64_t wrong = -1;
  InPieces(samples, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (labels[i] == ignored) continue;
      ++count;
      if (labels[i] < 0 || labels[i] >= classes) wrong = i;
    }
  });
  if (wrong >= 0) {
    return IndexError("[", args.op.name, "] expects classes from 0 to ", classes - 1,
                      " or ignore_index ", ignored, ", got ", labels[wrong]);
  }
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));  // otherwise not all have been checked
  void* losses = out.data;
  if (reduction != kNoReduction) {
    CHX_ASSIGN_OR_RETURN(losses, args.scratch.Allocate(samples * ItemSize(out.dtype) + 1));
  }
  kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* const loss = static_cast<T*>(losses);
    const int64_t grain = std::max<int64_t>(1, kGrain / work);
    PoolOf(args).ParallelFor(samples, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        loss[i] = T(0.0F);
        if (labels[i] != ignored) loss_of(i, labels[i], loss + i);
      }
    });
    if (reduction == kNoReduction) return;
    double sum = 0;
    InPieces(samples, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(kernels::Load(loss[i]));
    });
    if (reduction == kMeanReduction) sum /= static_cast<double>(count);
    *reinterpret_cast<T*>(out.data) = kernels::Cast<T>(sum);
  });
  return absl::OkStatus();
}

bool HasWeight(const KernelArgs& args) { return args.inputs.size() > 2 && args.in(2).present; }

// x (C,), (N, C) or (N, C, M).
absl::Status RunNllLoss(const KernelArgs& args) {
  const KernelTensor& x = args.in(0);
  if (HasWeight(args) || x.ndim() > 3) return absl::UnimplementedError("");
  const int axis = x.ndim() > 1 ? 1 : 0;
  const int64_t columns = x.ndim() == 3 ? x.shape[2] : 1;
  const int64_t of_sample = axis == 1 ? x.strides[0] : 0;
  const int64_t of_class = x.strides[axis];
  const int64_t of_column = x.ndim() == 3 ? x.strides[2] : 0;
  constexpr int64_t kWork = 8;  // it is far from the one before
  return RunReduced(args, x.shape[axis], kWork, [&](int64_t i, int64_t label, auto* loss) {
    using T = std::decay_t<decltype(*loss)>;
    const char* const at =
        x.data + i / columns * of_sample + label * of_class + i % columns * of_column;
    *loss = kernels::Store<T>(-kernels::Load(*reinterpret_cast<const T*>(at)));
  });
}

// x (N, C). Floats narrower than float32 would be rounded before they are summed.
absl::Status RunCrossEntropy(const KernelArgs& args) {
  const Dtype dtype = args.out(0).dtype;
  const bool wide = dtype == Dtype::kFloat32 || dtype == Dtype::kFloat64;
  if (HasWeight(args) || args.in(0).ndim() != 2 || IsFloat(args.in(1).dtype) || !wide ||
      args.attrs[2].AsFloat() != 0) {
    return absl::UnimplementedError("");
  }
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), dtype));
  const int64_t classes = x.shape[1];
  const auto loss_of = Loops().cross_entropy[static_cast<int>(dtype)];
  // Because of exp, an element costs about as much as 4 cheap ones.
  return RunReduced(args, classes, 4 * classes, [&](int64_t i, int64_t label, auto* loss) {
    const int64_t row = i * classes * static_cast<int64_t>(sizeof(*loss));
    loss_of(x.data + row, classes, label, reinterpret_cast<char*>(loss));
  });
}

}  // namespace

void RegisterLossReduced(KernelTable& table) {
  table.Set("cross_entropy", RunCrossEntropy);
  table.Set("nll_loss", RunNllLoss);
}

}  // namespace chx::server::native
