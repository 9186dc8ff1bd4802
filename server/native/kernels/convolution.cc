// Kernels of ops/defs/convolution.cc: matrices of windows, multiplied (products.h).
#include <algorithm>

#include "ops/error.h"
#include "server/kernels/conv_plan.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/window_args.h"
#include "server/native/kernels/dnnl_operands.h"
#include "server/native/kernels/products.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/kernels/window_rows.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"
#include "server/native/vendor/dnnl_convolution.h"

namespace chx::server::native {
namespace {

using kernels::HasBias;
using kernels::Windows;

// The approximate size of a block of windows.
constexpr int64_t kBlockBytes = 8 << 20;

// col (planes, kernel, count) from x (planes, image).
template <typename T>
void Im2Col(ThreadPool& pool, const Windows& w, int64_t planes, const T* x, T* col) {
  const int64_t grain = std::max<int64_t>(1, kGrain / w.count);
  const int64_t stride = w.stride[w.ndim - 1];
  const int64_t length = w.counts[w.ndim - 1];
  constexpr int64_t kItem = sizeof(T);
  pool.ParallelFor(planes * w.kernel_size, grain, [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t task = begin; task < end; ++task) {
      const T* const image = x + task / w.kernel_size * w.image_size;
      T* const to = col + task * w.count;
      const int64_t k = task % w.kernel_size;
      ForRows(w, k, &watch, [&](int64_t o, int64_t at, int64_t first, int64_t last) {
        T* const row = to + o;
        native::FillZero(row, first * kItem);
        if (stride == 1) {
          if (first < last) CopyBytes(row + first, image + at, (last - first) * kItem);
        } else {
          InPieces(last - first, [&](int64_t from, int64_t until) {
            for (int64_t i = from; i < until; ++i) row[first + i] = image[at + i * stride];
          });
        }
        native::FillZero(row + last, (length - last) * kItem);
      });
    }
  });
}

// y (planes, image) += what lies at each position in col (planes, kernel, count).
template <typename T>
void Col2Im(ThreadPool& pool, const Windows& w, int64_t planes, const T* col, T* y) {
  const int64_t size = w.kernel_size * w.count;
  const int64_t stride = w.stride[w.ndim - 1];
  const kernels::Add add;
  pool.ParallelFor(planes, std::max<int64_t>(1, kGrain / size), [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t plane = begin; plane < end; ++plane) {
      T* const image = y + plane * w.image_size;
      for (int64_t k = 0; k < w.kernel_size; ++k) {
        const T* const from = col + plane * size + k * w.count;
        ForRows(w, k, &watch, [&](int64_t o, int64_t at, int64_t first, int64_t last) {
          const T* const row = from + o + first;
          InPieces(last - first, [&](int64_t piece, int64_t until) {
            for (int64_t i = piece; i < until; ++i) {
              T& sum = image[at + i * stride];
              sum = kernels::Store<T>(add(kernels::Load(sum), kernels::Load(row[i])));
            }
          });
        });
      }
    }
  });
}

// A C-ordered matrix, and its transpose.
template <typename T>
Matrix MatrixOf(const T* data, int64_t rows, int64_t columns) {
  constexpr int64_t kItem = sizeof(T);
  return {reinterpret_cast<const char*>(data), rows, columns, columns * kItem, kItem};
}
template <typename T>
Matrix TransposeOf(const T* data, int64_t rows, int64_t columns) {
  constexpr int64_t kItem = sizeof(T);
  return {reinterpret_cast<const char*>(data), columns, rows, kItem, columns * kItem};
}

// One of the three kernels with dense operands of type T (see ConvPlan).
template <typename T>
class Convolution {
 public:
  Convolution(const KernelArgs& args, const kernels::ConvPlan& plan)
      : args_(args), pool_(PoolOf(args)), plan_(plan) {}

  // Scratch for the windows of one block.
  absl::Status Prepare() {
    if (plan_.scratch_bytes() == 0) return absl::OkStatus();
    CHX_ASSIGN_OR_RETURN(void* const col, args_.scratch.Allocate(plan_.scratch_bytes()));
    col_ = static_cast<T*>(col);
    return absl::OkStatus();
  }

  // y = the features of x, or y += with `accumulate`.
  absl::Status Forward(const T* x, const T* w, bool accumulate, T* y) {
    return plan_.ForBlocks([&](const Windows& part, int64_t row, int64_t first, int64_t count) {
      const T* const col = ColumnsOf(part, x, first, count);
      Products(pool_, count, MatrixOf(w, plan_.features(), plan_.rows()), Offsets(count, 0),
               MatrixOf(col, plan_.rows(), part.count), Offsets(count, plan_.rows() * part.count),
               accumulate, y + plan_.FeaturesAt(first, row), plan_.windows().count,
               plan_.features() * plan_.windows().count);
      return absl::OkStatus();
    });
  }

  // image += what the features come from.
  absl::Status Transposed(const T* y, const T* w, T* image) {
    return plan_.ForBlocks([&](const Windows& part, int64_t row, int64_t first, int64_t count) {
      T* const to = image + plan_.ImageAt(first);
      T* const col = col_ != nullptr ? col_ : to;
      Products(pool_, count, TransposeOf(w, plan_.features(), plan_.rows()), Offsets(count, 0),
               FeaturesOf(y + plan_.FeaturesAt(first, row), part),
               Offsets(count, plan_.features() * plan_.windows().count), col_ == nullptr, col);
      if (col_ != nullptr) Col2Im(pool_, part, count * plan_.channels(), col_, to);
      return absl::OkStatus();
    });
  }

  // w = the sum over samples of products of features and windows.
  absl::Status GradWeight(const T* x, const T* gy, T* w) {
    constexpr int64_t kNone = 0;
    bool accumulate = false;
    return plan_.ForBlocks([&](const Windows& part, int64_t row, int64_t first, int64_t count) {
      const T* const col = ColumnsOf(part, x, first, count);
      for (int64_t i = 0; i < count; ++i) {
        Products(pool_, 1, FeaturesOf(gy + plan_.FeaturesAt(first + i, row), part), &kNone,
                 TransposeOf(col + i * plan_.rows() * part.count, plan_.rows(), part.count), &kNone,
                 accumulate, w);
        accumulate = true;
      }
      return absl::OkStatus();
    });
  }

 private:
  // The features (features, windows) of some rows of windows of one sample.
  Matrix FeaturesOf(const T* data, const Windows& part) const {
    Matrix matrix = MatrixOf(data, plan_.features(), plan_.windows().count);
    matrix.columns = part.count;
    return matrix;
  }

  const T* ColumnsOf(const Windows& part, const T* x, int64_t first, int64_t count) {
    const T* const from = x + plan_.ImageAt(first);
    if (col_ == nullptr) return from;
    Im2Col(pool_, part, count * plan_.channels(), from, col_);
    return col_;
  }

  // Where matrices begin that are `step` elements apart.
  const int64_t* Offsets(int64_t count, int64_t step) {
    std::vector<int64_t>& offsets = step == 0 ? same_ : apart_;
    offsets.resize(count);
    for (int64_t i = 0; i < count; ++i) offsets[i] = i * step * static_cast<int64_t>(sizeof(T));
    return offsets.data();
  }

  const KernelArgs& args_;
  ThreadPool& pool_;
  const kernels::ConvPlan& plan_;
  T* col_ = nullptr;  // null: the image is the matrix of windows
  std::vector<int64_t> same_;
  std::vector<int64_t> apart_;
};

void Cast(const KernelArgs& args, const KernelTensor& in, const KernelTensor& out) {
  RunUnary(PoolOf(args), in, out,
           Loops().cast[static_cast<int>(in.dtype)][static_cast<int>(out.dtype)]);
}

// As bfloat16, on processors that have instructions for it.
absl::StatusOr<bool> RunBfloat16(const KernelArgs& args, ConvShape shape) {
  shape.bfloat16 = true;
  const KernelTensor& out = args.out(0);
  if (out.dtype != Dtype::kBfloat16 || shape.samples == 0 || !DnnlIsFaster(shape)) return false;
  if (shape.kind == ConvKind::kImage && HasBias(args)) return false;  // added after rounding
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, Contiguous(args, args.in(1), out.dtype));
  return RunDnnlConvolution(args, shape, a, b, out);
}

// Runs `compute(convolution, in0, in1, out)`, if oneDNN does not; narrow floats are computed in
// float32 then, also by oneDNN.
template <typename Compute>
absl::Status Run(const KernelArgs& args, ConvKind kind, const Windows& windows, int64_t channels,
                 int64_t features, Compute&& compute) {
  const KernelTensor& out = args.out(0);
  const ConvShape shape = {kind, args.in(0).shape[0], channels, features, windows};
  CHX_ASSIGN_OR_RETURN(bool done, RunBfloat16(args, shape));
  if (done) return absl::OkStatus();
  const Dtype dtype = WorkDtype(out.dtype);
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, Contiguous(args, args.in(1), dtype));
  KernelTensor target = out;
  if (dtype != out.dtype) {
    CHX_ASSIGN_OR_RETURN(target, NewTensor(args, dtype, out.shape));
  }
  if (dtype == Dtype::kFloat32 && shape.samples > 0 && DnnlIsFaster(shape)) {
    CHX_ASSIGN_OR_RETURN(done, RunDnnlConvolution(args, shape, a, b, target));
  }
  if (done) {
    if (dtype != out.dtype) Cast(args, target, out);
    return absl::OkStatus();
  }
  CHX_RETURN_IF_ERROR(kernels::VisitDtype(dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    if constexpr (!kernels::kIsNarrowFloat<T>) {
      CHX_ASSIGN_OR_RETURN(const kernels::ConvPlan plan,
                           kernels::ConvPlan::Make(args, dtype, windows, a.shape[0], channels,
                                                   features, kBlockBytes, INT32_MAX));
      Convolution<T> convolution(args, plan);
      CHX_RETURN_IF_ERROR(convolution.Prepare());
      return compute(&convolution, reinterpret_cast<const T*>(a.data),
                     reinterpret_cast<const T*>(b.data), target);
    }
    return absl::OkStatus();
  }));
  if (dtype != out.dtype) Cast(args, target, out);
  return absl::OkStatus();
}

// target = the bias along the channels, if there is one.
bool FillBias(const KernelArgs& args, const KernelTensor& target) {
  if (!HasBias(args)) return false;
  Cast(args, kernels::BiasOfChannels(args, target.ndim()), target);
  return true;
}

void FillTensorZero(const KernelTensor& target) {
  native::FillZero(target.data, target.size() * ItemSize(target.dtype));
}

absl::Status RunConv(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Shape& w = args.in(1).shape;
  const Windows windows = kernels::ConvWindows(args, args.in(0).shape, out.shape);
  return Run(args, ConvKind::kForward, windows, w[1], w[0],
             [&](auto* convolution, const auto* x, const auto* weight, const KernelTensor& y) {
               using T = std::decay_t<decltype(*x)>;
               const bool biased = FillBias(args, y);
               return convolution->Forward(x, weight, biased, reinterpret_cast<T*>(y.data));
             });
}

absl::Status RunConvTranspose(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Shape& w = args.in(1).shape;
  const Windows windows = kernels::ConvWindows(args, out.shape, args.in(0).shape);
  return Run(args, ConvKind::kImage, windows, w[1], w[0],
             [&](auto* convolution, const auto* x, const auto* weight, const KernelTensor& y) {
               using T = std::decay_t<decltype(*x)>;
               if (!FillBias(args, y)) FillTensorZero(y);
               return convolution->Transposed(x, weight, reinterpret_cast<T*>(y.data));
             });
}

absl::Status RunConvGradWeight(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Windows windows = kernels::ConvGradWeightWindows(args);
  return Run(args, ConvKind::kWeight, windows, out.shape[1], out.shape[0],
             [&](auto* convolution, const auto* x, const auto* gy, const KernelTensor& w) {
               using T = std::decay_t<decltype(*x)>;
               if (args.in(0).shape[0] == 0) FillTensorZero(w);
               return convolution->GradWeight(x, gy, reinterpret_cast<T*>(w.data));
             });
}

}  // namespace

void RegisterConvolution(KernelTable& table) {
  table.Set("conv", RunConv);
  table.Set("conv_transpose", RunConvTranspose);
  table.Set("conv_grad_weight", RunConvGradWeight);
}

}  // namespace chx::server::native
