// Kernels of ops/defs/connection.cc: by cuDNN or, where it is not installed or declines, by
// matrices of windows, which cuBLAS multiplies, or for bools and integers a kernel of our own.
#include <algorithm>

#include "ops/error.h"
#include "server/cuda/dense.h"
#include "server/cuda/dnn.h"
#include "server/cuda/groups.h"
#include "server/cuda/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/windows.h"

namespace chx::server::cuda {
namespace {

using kernels::Compute;
using kernels::Load;
using kernels::Store;
using kernels::Windows;

// So much of windows is laid out at a time, about.
constexpr int64_t kChunkBytes = 32 << 20;

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

// Adds to y (samples, channels, image) what lies at each position in col.
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

// Matrices in C order, with rows `leading` elements and themselves `step` elements apart.
struct Operand {
  const char* data;
  int64_t rows;
  int64_t columns;
  int64_t leading;
  bool transposed;  // before it is multiplied
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

// One of the three kernels with dense operands of any dtype but float16: each relates an
// image (samples, channels, spatial...), a weight (features, channels, kernel...) and the windows'
// features (samples, features, counts...).
class Convolution {
 public:
  Convolution(const KernelArgs& args, Dtype dtype, const Windows& windows, int64_t samples,
              int64_t channels, int64_t features)
      : args_(args),
        dtype_(dtype),
        item_(ItemSize(dtype)),
        windows_(windows),
        samples_(samples),
        channels_(channels),
        features_(features) {}

  // Scratch for the windows of some samples, or for some rows of those of one.
  absl::Status Prepare() {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(channels_, windows_.kernel_size, &rows_) ||
        __builtin_mul_overflow(rows_, windows_.count, &bytes) ||
        __builtin_mul_overflow(bytes, item_, &bytes)) {
      return MemoryError("[", args_.op.name, "] out of memory: expects smaller images or kernels");
    }
    chunk_ = samples_;
    block_ = windows_.counts[0];
    if (windows_.IsIdentity() || rows_ == 0) return absl::OkStatus();
    bytes = std::max<int64_t>(1, bytes);
    chunk_ = std::min(samples_, std::max<int64_t>(1, kChunkBytes / bytes));
    const int64_t row_bytes = std::max<int64_t>(1, bytes / block_);
    block_ = std::min(block_, std::max<int64_t>(1, kChunkBytes / row_bytes));
    const int64_t needed = chunk_ * block_ * row_bytes;
    CHX_ASSIGN_OR_RETURN(void* const col, args_.scratch.Allocate(std::max<int64_t>(1, needed)));
    col_ = static_cast<char*>(col);
    return absl::OkStatus();
  }

  // y = the features of x, or y += with `accumulate`.
  absl::Status Forward(const char* x, const char* w, bool accumulate, char* y) {
    return ForBlocks([&](const Windows& part, int64_t row, int64_t first,
                         int64_t count) -> absl::Status {
      CHX_ASSIGN_OR_RETURN(const char* const col, ColumnsOf(part, x, first, count));
      return Multiply(count, Weight(w, false),
                      {col, rows_, part.count, part.count, false, rows_ * part.count}, accumulate,
                      y + FeaturesAt(first, row), windows_.count, features_ * windows_.count);
    });
  }

  // image += what the features come from.
  absl::Status Transposed(const char* y, const char* w, char* image) {
    return ForBlocks([&](const Windows& part, int64_t row, int64_t first,
                         int64_t count) -> absl::Status {
      char* const to = image + first * channels_ * windows_.image_size * item_;
      CHX_RETURN_IF_ERROR(Multiply(count, Weight(w, true),
                                   FeaturesOf(y + FeaturesAt(first, row), part), col_ == nullptr,
                                   col_ != nullptr ? col_ : to, part.count, rows_ * part.count));
      if (col_ == nullptr) return absl::OkStatus();
      return InType([&](auto tag) {
        using T = typename decltype(tag)::Type;
        const Col2Im<T> body{part, reinterpret_cast<const T*>(col_), reinterpret_cast<T*>(to)};
        return ForEach(args_, count * channels_ * windows_.image_size, body);
      });
    });
  }

  // w = the sum over samples of products of features and windows.
  absl::Status GradWeight(const char* x, const char* gy, char* w) {
    bool accumulate = false;
    return ForBlocks(
        [&](const Windows& part, int64_t row, int64_t first, int64_t count) -> absl::Status {
          CHX_ASSIGN_OR_RETURN(const char* const col, ColumnsOf(part, x, first, count));
          for (int64_t i = 0; i < count; ++i) {
            CHX_RETURN_IF_ERROR(Multiply(
                1, FeaturesOf(gy + FeaturesAt(first + i, row), part),
                {col + i * rows_ * part.count * item_, rows_, part.count, part.count, true, 0},
                accumulate, w, rows_, 0));
            accumulate = true;
          }
          return absl::OkStatus();
        });
  }

 private:
  // fn(windows, row, first, count) for rows of windows, from `row` on, of `count` samples from
  // `first` on.
  template <typename Fn>
  absl::Status ForBlocks(Fn&& fn) {
    for (int64_t first = 0; first < samples_; first += chunk_) {
      for (int64_t row = 0; row < windows_.counts[0]; row += block_) {
        CHX_RETURN_IF_ERROR(fn(windows_.Rows(row, std::min(block_, windows_.counts[0] - row)), row,
                               first, std::min(chunk_, samples_ - first)));
      }
    }
    return absl::OkStatus();
  }

  Operand Weight(const char* w, bool transposed) const {
    return {w, features_, rows_, rows_, transposed, 0};
  }
  // In bytes.
  int64_t FeaturesAt(int64_t sample, int64_t row) const {
    const int64_t at = sample * features_ * windows_.count;
    return (at + row * (windows_.count / windows_.counts[0])) * item_;
  }
  // The features (features, windows) of some rows of windows of each sample.
  Operand FeaturesOf(const char* data, const Windows& part) const {
    return {data, features_, part.count, windows_.count, false, features_ * windows_.count};
  }

  template <typename Fn>
  absl::Status InType(Fn&& fn) {
    return kernels::VisitDtype(dtype_, [&](auto tag) -> absl::Status {
      if constexpr (std::is_same<typename decltype(tag)::Type, kernels::Half>::value) {
        return absl::OkStatus();
      } else {
        return fn(tag);
      }
    });
  }

  absl::StatusOr<const char*> ColumnsOf(const Windows& part, const char* x, int64_t first,
                                        int64_t count) {
    const char* const from = x + first * channels_ * windows_.image_size * item_;
    if (col_ == nullptr) return from;
    CHX_RETURN_IF_ERROR(InType([&](auto tag) {
      using T = typename decltype(tag)::Type;
      const Im2Col<T> body{part, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(col_)};
      return ForEach(args_, count * rows_ * part.count, body);
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
          return ForEach(args_, count * call.n * call.m, body);
        }
      });
    }
    if (call.k == 0) {
      // No channels: one block, and so dense.
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
    return StreamOf(args_).Gemm(call);
  }

  const KernelArgs& args_;
  const Dtype dtype_;
  const int64_t item_;
  const Windows& windows_;
  const int64_t samples_;
  const int64_t channels_;
  const int64_t features_;
  int64_t rows_ = 0;     // of a sample's matrix of windows
  int64_t chunk_ = 0;    // samples
  int64_t block_ = 0;    // rows of windows
  char* col_ = nullptr;  // null: the image is that matrix
};

// Runs `compute(convolution, in0, in1, out)`; float16 is computed in float32, in which sums over
// samples lose nothing.
template <typename Compute>
absl::Status Run(const KernelArgs& args, const Windows& windows, int64_t channels, int64_t features,
                 Compute&& compute) {
  const KernelTensor& out = args.out(0);
  const Dtype dtype = out.dtype == Dtype::kFloat16 ? Dtype::kFloat32 : out.dtype;
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Dense(args, args.in(0), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, Dense(args, args.in(1), dtype));
  KernelTensor target = out;
  if (dtype != out.dtype) {
    CHX_ASSIGN_OR_RETURN(target, NewTensor(args, dtype, out.shape));
  }
  Convolution convolution(args, dtype, windows, a.shape[0], channels, features);
  CHX_RETURN_IF_ERROR(convolution.Prepare());
  CHX_RETURN_IF_ERROR(compute(&convolution, a.data, b.data, target));
  return dtype != out.dtype ? Copy(args, target, out) : absl::OkStatus();
}

absl::Status FillZero(const KernelArgs& args, const KernelTensor& target) {
  return args.stream.Zero(target.data, target.size() * ItemSize(target.dtype));
}

bool HasBias(const KernelArgs& args) { return args.inputs.size() > 2 && args.in(2).present; }

// target = the bias along the channels.
absl::Status FillBias(const KernelArgs& args, const KernelTensor& target) {
  KernelTensor bias = args.in(2);
  for (int d = 2; d < target.ndim(); ++d) {
    bias.shape.push_back(1);
    bias.strides.push_back(0);
  }
  return Copy(args, bias, target);
}

// By cuDNN. False if it declines; then `out` has unspecified values.
absl::StatusOr<bool> RunByDnn(const KernelArgs& args, ConvPart part, const Windows& windows,
                              int64_t samples, int64_t channels, int64_t features) {
  Dnn* const dnn = StreamOf(args).dnn();
  const KernelTensor& out = args.out(0);
  if (dnn == nullptr || !IsFloat(out.dtype)) return false;
  absl::optional<ConvCall> call = PlanConv(part, out.dtype, windows, samples, channels, features);
  if (!call.has_value()) return false;
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Dense(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, Dense(args, args.in(1), out.dtype));
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
  const Dims kernel(w.span().subspan(2));
  const Windows windows =
      kernels::MakeWindows(args.in(0).shape, out.shape, Ints(kernel.begin(), kernel.end()),
                           args.attrs[0].ints(), args.attrs[1].ints());
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
  const Dims kernel(w.span().subspan(2));
  const Windows windows =
      kernels::MakeWindows(out.shape, args.in(0).shape, Ints(kernel.begin(), kernel.end()),
                           args.attrs[0].ints(), args.attrs[1].ints());
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
  const Windows windows =
      kernels::MakeWindows(args.in(0).shape, args.in(1).shape, args.attrs[0].ints(),
                           args.attrs[1].ints(), args.attrs[2].ints());
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

void RegisterConnection(KernelTable& table) {
  table.Set("conv", RunConv);
  table.Set("conv_transpose", RunConvTranspose);
  table.Set("conv_grad_weight", RunConvGradWeight);
}

}  // namespace chx::server::cuda
