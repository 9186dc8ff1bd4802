// Kernels of ops/defs/convolution.cc. cuDNN computes convolutions. If it is not installed or
// declines, they are products of matrices of windows (im2col): by cuBLAS or, for bools and
// integers, by a kernel of our own.
#include <algorithm>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/vendor/dnn.h"
#include "server/cuda/vendor/gemm.h"
#include "server/kernels/conv_plan.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/window_args.h"

namespace chx::server::cuda {
namespace {

using kernels::Compute;
using kernels::HasBias;
using kernels::Load;
using kernels::Store;
using kernels::Windows;

// The approximate size of a block of windows.
constexpr int64_t kBlockBytes = 32 << 20;

// col (samples, channels, kernel, count) from x (samples, channels, image).
template <typename T>
struct Im2Col {
  Windows windows;
  const T* x;
  T* col;

  CHX_HD void operator()(int64_t i) const {
    const int64_t row = i / windows.count;
    const int64_t plane = row / windows.kernel_size;
    const int64_t at =
        windows.PositionOf(i - row * windows.count, row - plane * windows.kernel_size);
    col[i] = at < 0 ? T(0) : x[plane * windows.image_size + at];
  }
};

// Adds to y (samples, channels, image) the elements of col that belong to each position.
template <typename T>
struct Col2Im {
  Windows windows;
  const T* col;
  T* y;

  CHX_HD void operator()(int64_t i) const {
    const int64_t plane = i / windows.image_size;
    const T* const planes = col + plane * windows.kernel_size * windows.count;
    const kernels::Add add;
    Compute<T> sum = Load(y[i]);
    windows.ForWindowsAt(i - plane * windows.image_size, [&](int64_t o, int64_t k) {
      sum = add(sum, Load(planes[k * windows.count + o]));
    });
    y[i] = Store<T>(sum);
  }
};

// Matrices in C order. Rows are `leading` elements apart, matrices `step` elements.
struct Operand {
  const char* data;
  int64_t rows;
  int64_t columns;
  int64_t leading;
  bool transposed;  // before the product
  int64_t step;
};

// Elements of products of bools or integers, which wrap around.
template <typename T>
struct PlainProduct {
  Operand a;
  Operand b;
  T* out;
  int64_t rows;
  int64_t columns;
  int64_t inner;
  int64_t leading;  // of out, as in Operand
  int64_t step;
  bool accumulate;

  CHX_HD static Compute<T> At(const Operand& matrix, int64_t i, int64_t row, int64_t column) {
    const int64_t at =
        matrix.transposed ? column * matrix.leading + row : row * matrix.leading + column;
    return Load(reinterpret_cast<const T*>(matrix.data)[i * matrix.step + at]);
  }
  CHX_HD void operator()(int64_t element) const {
    const int64_t column = element % columns;
    const int64_t row = element / columns % rows;
    const int64_t i = element / columns / rows;
    T& result = out[i * step + row * leading + column];
    const kernels::Add add;
    const kernels::Multiply multiply;
    Compute<T> sum = accumulate ? Load(result) : Compute<T>(0);
    for (int64_t p = 0; p < inner; ++p) {
      sum = add(sum, multiply(At(a, i, row, p), At(b, i, p, column)));
    }
    result = Store<T>(sum);
  }
};

// One of the three kernels with dense operands of any dtype but float16 (see ConvPlan).
class Convolution {
 public:
  Convolution(const KernelArgs& args, Dtype dtype, const kernels::ConvPlan& plan)
      : args_(args), dtype_(dtype), item_(ItemSize(dtype)), plan_(plan) {}

  // Scratch for the windows of one block.
  absl::Status Prepare() {
    if (plan_.scratch_bytes() == 0) return absl::OkStatus();
    CHX_ASSIGN_OR_RETURN(void* const col, args_.scratch.Allocate(plan_.scratch_bytes()));
    col_ = static_cast<char*>(col);
    return absl::OkStatus();
  }

  // y = the features of x, or y += with `accumulate`.
  absl::Status Forward(const char* x, const char* w, bool accumulate, char* y) {
    return plan_.ForBlocks([&](const Windows& part, int64_t row, int64_t first,
                               int64_t count) -> absl::Status {
      CHX_ASSIGN_OR_RETURN(const char* const col, ColumnsOf(part, x, first, count));
      return Multiply(count, Weight(w, false),
                      {col, plan_.rows(), part.count, part.count, false, plan_.rows() * part.count},
                      accumulate, y + FeaturesAt(first, row), plan_.windows().count,
                      plan_.features() * plan_.windows().count);
    });
  }

  // image += what the features come from.
  absl::Status Transposed(const char* y, const char* w, char* image) {
    return plan_.ForBlocks(
        [&](const Windows& part, int64_t row, int64_t first, int64_t count) -> absl::Status {
          char* const to = image + plan_.ImageAt(first) * item_;
          CHX_RETURN_IF_ERROR(Multiply(
              count, Weight(w, true), FeaturesOf(y + FeaturesAt(first, row), part), col_ == nullptr,
              col_ != nullptr ? col_ : to, part.count, plan_.rows() * part.count));
          if (col_ == nullptr) return absl::OkStatus();
          return InType([&](auto tag) {
            using T = typename decltype(tag)::Type;
            const Col2Im<T> body{part, reinterpret_cast<const T*>(col_), reinterpret_cast<T*>(to)};
            return ForEach(args_, count * plan_.channels() * plan_.windows().image_size, body,
                           plan_.windows().kernel_size);
          });
        });
  }

  // w = the sum over samples of the products of features and windows.
  absl::Status GradWeight(const char* x, const char* gy, char* w) {
    bool accumulate = false;
    return plan_.ForBlocks(
        [&](const Windows& part, int64_t row, int64_t first, int64_t count) -> absl::Status {
          CHX_ASSIGN_OR_RETURN(const char* const col, ColumnsOf(part, x, first, count));
          for (int64_t i = 0; i < count; ++i) {
            CHX_RETURN_IF_ERROR(Multiply(1, FeaturesOf(gy + FeaturesAt(first + i, row), part),
                                         {col + i * plan_.rows() * part.count * item_, plan_.rows(),
                                          part.count, part.count, true, 0},
                                         accumulate, w, plan_.rows(), 0));
            accumulate = true;
          }
          return absl::OkStatus();
        });
  }

 private:
  Operand Weight(const char* w, bool transposed) const {
    return {w, plan_.features(), plan_.rows(), plan_.rows(), transposed, 0};
  }
  // In bytes.
  int64_t FeaturesAt(int64_t sample, int64_t row) const {
    return plan_.FeaturesAt(sample, row) * item_;
  }
  // The features (features, windows) of some rows of windows of each sample.
  Operand FeaturesOf(const char* data, const Windows& part) const {
    return {data,       plan_.features(),
            part.count, plan_.windows().count,
            false,      plan_.features() * plan_.windows().count};
  }

  template <typename Fn>
  absl::Status InType(Fn&& fn) {
    return kernels::VisitDtype(dtype_, [&](auto tag) -> absl::Status {
      if constexpr (kernels::kIsNarrowFloat<typename decltype(tag)::Type>) {
        return absl::OkStatus();
      } else {
        return fn(tag);
      }
    });
  }

  absl::StatusOr<const char*> ColumnsOf(const Windows& part, const char* x, int64_t first,
                                        int64_t count) {
    const char* const from = x + plan_.ImageAt(first) * item_;
    if (col_ == nullptr) return from;
    CHX_RETURN_IF_ERROR(InType([&](auto tag) {
      using T = typename decltype(tag)::Type;
      const Im2Col<T> body{part, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(col_)};
      return ForEach(args_, count * plan_.rows() * part.count, body);
    }));
    return static_cast<const char*>(col_);
  }

  // out = a b for `count` matrices, or out += a b, with rows `leading` elements and matrices `step`
  // elements apart. BLAS is column-major: see linalg.cu.
  absl::Status Multiply(int64_t count, const Operand& a, const Operand& b, bool accumulate,
                        char* out, int64_t leading, int64_t step) {
    GemmCall call;
    call.dtype = dtype_;
    call.transpose_a = b.transposed;
    call.transpose_b = a.transposed;
    call.m = b.transposed ? b.rows : b.columns;
    call.n = a.transposed ? a.columns : a.rows;
    call.k = a.transposed ? a.rows : a.columns;
    if (call.m == 0 || call.n == 0) return absl::OkStatus();
    if (!IsFloat(dtype_)) {
      return InType([&](auto tag) -> absl::Status {
        using T = typename decltype(tag)::Type;
        if constexpr (kernels::kIsFloat<Compute<T>>) {
          return absl::OkStatus();
        } else {
          const PlainProduct<T> body{
              a, b, reinterpret_cast<T*>(out), call.n, call.m, call.k, leading, step, accumulate};
          return ForEach(args_, count * call.n * call.m, body, call.k);
        }
      });
    }
    if (call.k == 0) {
      // Without channels there is one block, so `out` is dense.
      return accumulate ? absl::OkStatus()
                        : args_.stream.Zero(out, count * call.m * call.n * item_);
    }
    call.a = b.data;
    call.lda = b.leading;
    call.a_stride = b.step;
    call.b = a.data;
    call.ldb = a.leading;
    call.b_stride = a.step;
    call.accumulate = accumulate;
    call.c = out;
    call.ldc = leading;
    call.c_stride = step;
    call.count = count;
    return StreamOf(args_).Gemm(args_, call);
  }

  const KernelArgs& args_;
  const Dtype dtype_;
  const int64_t item_;
  const kernels::ConvPlan& plan_;
  char* col_ = nullptr;  // null: the image is the matrix of windows
};

// Runs `compute(convolution, in0, in1, out)`. Narrow floats are computed in float32, so that sums
// over samples are not rounded in between.
template <typename Compute>
absl::Status Run(const KernelArgs& args, const Windows& windows, int64_t channels, int64_t features,
                 Compute&& compute) {
  const KernelTensor& out = args.out(0);
  const Dtype dtype = WorkDtype(out.dtype);
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, Contiguous(args, args.in(1), dtype));
  KernelTensor target = out;
  if (dtype != out.dtype) {
    CHX_ASSIGN_OR_RETURN(target, NewTensor(args, dtype, out.shape));
  }
  CHX_ASSIGN_OR_RETURN(const kernels::ConvPlan plan,
                       kernels::ConvPlan::Make(args, dtype, windows, a.shape[0], channels, features,
                                               kBlockBytes, INT64_MAX));
  Convolution convolution(args, dtype, plan);
  CHX_RETURN_IF_ERROR(convolution.Prepare());
  CHX_RETURN_IF_ERROR(compute(&convolution, a.data, b.data, target));
  return dtype != out.dtype ? Copy(args, target, out) : absl::OkStatus();
}

absl::Status FillZero(const KernelArgs& args, const KernelTensor& target) {
  return args.stream.Zero(target.data, target.size() * ItemSize(target.dtype));
}

// target = the bias along the channels.
absl::Status FillBias(const KernelArgs& args, const KernelTensor& target) {
  return Copy(args, kernels::BiasOfChannels(args, target.ndim()), target);
}

// By cuDNN. False if it declines; then `out` has unspecified values.
absl::StatusOr<bool> RunByDnn(const KernelArgs& args, ConvPart part, const Windows& windows,
                              int64_t samples, int64_t channels, int64_t features) {
  Dnn* const dnn = StreamOf(args).dnn();
  const KernelTensor& out = args.out(0);
  if (dnn == nullptr || !IsFloat(out.dtype)) return false;
  absl::optional<ConvCall> call = PlanConv(part, out.dtype, windows, samples, channels, features);
  if (!call.has_value()) return false;
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, Contiguous(args, args.in(1), out.dtype));
  call->a = a.data;
  call->b = b.data;
  call->out = out.data;
  call->accumulate = HasBias(args);
  if (call->accumulate) CHX_RETURN_IF_ERROR(FillBias(args, out));
  return dnn->Convolve(args, *call);
}

absl::Status RunConv(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Shape& w = args.in(1).shape;
  const Windows windows = kernels::ConvWindows(args, args.in(0).shape, out.shape);
  CHX_ASSIGN_OR_RETURN(const bool done, RunByDnn(args, ConvPart::kFeatures, windows,
                                                 args.in(0).shape[0], w[1], w[0]));
  if (done) return absl::OkStatus();
  return Run(args, windows, w[1], w[0],
             [&args](Convolution* convolution, const char* x, const char* weight,
                     const KernelTensor& y) -> absl::Status {
               if (HasBias(args)) CHX_RETURN_IF_ERROR(FillBias(args, y));
               return convolution->Forward(x, weight, HasBias(args), y.data);
             });
}

absl::Status RunConvTranspose(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Shape& w = args.in(1).shape;
  const Windows windows = kernels::ConvWindows(args, out.shape, args.in(0).shape);
  CHX_ASSIGN_OR_RETURN(const bool done,
                       RunByDnn(args, ConvPart::kImage, windows, args.in(0).shape[0], w[1], w[0]));
  if (done) return absl::OkStatus();
  return Run(args, windows, w[1], w[0],
             [&args](Convolution* convolution, const char* x, const char* weight,
                     const KernelTensor& y) -> absl::Status {
               CHX_RETURN_IF_ERROR(HasBias(args) ? FillBias(args, y) : FillZero(args, y));
               return convolution->Transposed(x, weight, y.data);
             });
}

absl::Status RunConvGradWeight(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Windows windows = kernels::ConvGradWeightWindows(args);
  CHX_ASSIGN_OR_RETURN(const bool done, RunByDnn(args, ConvPart::kWeight, windows,
                                                 args.in(0).shape[0], out.shape[1], out.shape[0]));
  if (done) return absl::OkStatus();
  return Run(args, windows, out.shape[1], out.shape[0],
             [&args](Convolution* convolution, const char* x, const char* gy,
                     const KernelTensor& w) -> absl::Status {
               if (args.in(0).shape[0] == 0) CHX_RETURN_IF_ERROR(FillZero(args, w));
               return convolution->GradWeight(x, gy, w.data);
             });
}

}  // namespace

void RegisterConvolution(KernelTable& table) {
  table.Set("conv", RunConv);
  table.Set("conv_transpose", RunConvTranspose);
  table.Set("conv_grad_weight", RunConvGradWeight);
}

}  // namespace chx::server::cuda
