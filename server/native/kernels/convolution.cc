// Kernels of ops/defs/convolution.cc: matrices of windows, multiplied (products.h).
#include <algorithm>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/windows.h"
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

using kernels::Windows;

// So much of windows is laid out at a time, about.
constexpr int64_t kChunkBytes = 8 << 20;

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

// One of the three kernels with dense operands of type T. Each relates an image (samples,
// channels, spatial...), a weight (features, channels, kernel...) and the windows' features
// (samples, features, counts...).
template <typename T>
class Convolution {
 public:
  Convolution(const KernelArgs& args, const Windows& windows, int64_t samples, int64_t channels,
              int64_t features)
      : args_(args),
        pool_(PoolOf(args)),
        windows_(windows),
        samples_(samples),
        channels_(channels),
        features_(features) {}

  // Scratch for the windows of some samples, or for some rows of those of one.
  absl::Status Prepare() {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(channels_, windows_.kernel_size, &rows_) ||
        __builtin_mul_overflow(rows_, windows_.count, &bytes) ||
        __builtin_mul_overflow(bytes, static_cast<int64_t>(sizeof(T)), &bytes) ||
        std::max({rows_, features_, windows_.count}) > INT32_MAX) {
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
    col_ = static_cast<T*>(col);
    return absl::OkStatus();
  }

  // y = the features of x, or y += with `accumulate`.
  void Forward(const T* x, const T* w, bool accumulate, T* y) {
    ForBlocks([&](const Windows& part, int64_t row, int64_t first, int64_t count) {
      const T* const col = ColumnsOf(part, x, first, count);
      Products(pool_, count, MatrixOf(w, features_, rows_), Offsets(count, 0),
               MatrixOf(col, rows_, part.count), Offsets(count, rows_ * part.count), accumulate,
               y + FeaturesAt(first, row), windows_.count, features_ * windows_.count);
    });
  }

  // image += what the features come from.
  void Transposed(const T* y, const T* w, T* image) {
    ForBlocks([&](const Windows& part, int64_t row, int64_t first, int64_t count) {
      T* const to = image + first * channels_ * windows_.image_size;
      T* const col = col_ != nullptr ? col_ : to;
      Products(pool_, count, TransposeOf(w, features_, rows_), Offsets(count, 0),
               FeaturesOf(y + FeaturesAt(first, row), part),
               Offsets(count, features_ * windows_.count), col_ == nullptr, col);
      if (col_ != nullptr) Col2Im(pool_, part, count * channels_, col_, to);
    });
  }

  // w = the sum over samples of products of features and windows.
  void GradWeight(const T* x, const T* gy, T* w) {
    constexpr int64_t kNone = 0;
    bool accumulate = false;
    ForBlocks([&](const Windows& part, int64_t row, int64_t first, int64_t count) {
      const T* const col = ColumnsOf(part, x, first, count);
      for (int64_t i = 0; i < count; ++i) {
        Products(pool_, 1, FeaturesOf(gy + FeaturesAt(first + i, row), part), &kNone,
                 TransposeOf(col + i * rows_ * part.count, rows_, part.count), &kNone, accumulate,
                 w);
        accumulate = true;
      }
    });
  }

 private:
  // fn(windows, row, first, count) for rows of windows, from `row` on, of `count` samples from
  // `first` on.
  template <typename Fn>
  void ForBlocks(Fn&& fn) {
    for (int64_t first = 0; first < samples_; first += chunk_) {
      for (int64_t row = 0; row < windows_.counts[0]; row += block_) {
        fn(windows_.Rows(row, std::min(block_, windows_.counts[0] - row)), row, first,
           std::min(chunk_, samples_ - first));
      }
    }
  }

  int64_t FeaturesAt(int64_t sample, int64_t row) const {
    return sample * features_ * windows_.count + row * (windows_.count / windows_.counts[0]);
  }
  // The features (features, windows) of some rows of windows of one sample.
  Matrix FeaturesOf(const T* data, const Windows& part) const {
    Matrix matrix = MatrixOf(data, features_, windows_.count);
    matrix.columns = part.count;
    return matrix;
  }

  const T* ColumnsOf(const Windows& part, const T* x, int64_t first, int64_t count) {
    const T* const from = x + first * channels_ * windows_.image_size;
    if (col_ == nullptr) return from;
    Im2Col(pool_, part, count * channels_, from, col_);
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
  const Windows& windows_;
  const int64_t samples_;
  const int64_t channels_;
  const int64_t features_;
  int64_t rows_ = 0;   // of a sample's matrix of windows
  int64_t chunk_ = 0;  // samples
  int64_t block_ = 0;  // rows of windows
  T* col_ = nullptr;   // null: the image is that matrix
  std::vector<int64_t> same_;
  std::vector<int64_t> apart_;
};

// In which it is computed.
Dtype WorkDtype(Dtype dtype) { return dtype == Dtype::kFloat16 ? Dtype::kFloat32 : dtype; }

void Cast(const KernelArgs& args, const KernelTensor& in, const KernelTensor& out) {
  RunUnary(PoolOf(args), in, out,
           Loops().cast[static_cast<int>(in.dtype)][static_cast<int>(out.dtype)]);
}

bool HasBias(const KernelArgs& args) { return args.inputs.size() > 2 && args.in(2).present; }

// By oneDNN, where that is faster: false if it was not. The operands are dense.
absl::StatusOr<bool> RunDnnl(const KernelArgs& args, const ConvShape& shape, const KernelTensor& a,
                             const KernelTensor& b, const KernelTensor& out) {
  if (out.dtype != Dtype::kFloat32 || shape.samples == 0 || !DnnlIsFaster(shape)) return false;
  const float* bias = nullptr;
  if (HasBias(args)) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, args.in(2), out.dtype));
    bias = reinterpret_cast<const float*>(dense.data);
  }
  const auto data = [](const KernelTensor& tensor) {
    return reinterpret_cast<float*>(tensor.data);
  };
  switch (shape.kind) {
    case ConvKind::kForward:
      return DnnlConvolution(args, shape, data(a), data(b), bias, data(out));
    case ConvKind::kImage:
      return DnnlConvolution(args, shape, data(out), data(b), bias, data(a));
    case ConvKind::kWeight:
      return DnnlConvolution(args, shape, data(a), data(out), nullptr, data(b));
  }
  return false;
}

// Runs `compute(convolution, in0, in1, out)`, if oneDNN does not; float16 is computed in float32.
template <typename Compute>
absl::Status Run(const KernelArgs& args, ConvKind kind, const Windows& windows, int64_t channels,
                 int64_t features, Compute&& compute) {
  const KernelTensor& out = args.out(0);
  const Dtype dtype = WorkDtype(out.dtype);
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, Contiguous(args, args.in(1), dtype));
  KernelTensor target = out;
  if (dtype != out.dtype) {
    CHX_ASSIGN_OR_RETURN(target, NewTensor(args, dtype, out.shape));
  }
  const ConvShape shape = {kind, a.shape[0], channels, features, windows};
  CHX_ASSIGN_OR_RETURN(const bool done, RunDnnl(args, shape, a, b, target));
  if (done) {
    if (dtype != out.dtype) Cast(args, target, out);
    return absl::OkStatus();
  }
  CHX_RETURN_IF_ERROR(kernels::VisitDtype(dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same<T, kernels::Half>::value) {
      Convolution<T> convolution(args, windows, a.shape[0], channels, features);
      CHX_RETURN_IF_ERROR(convolution.Prepare());
      compute(&convolution, reinterpret_cast<const T*>(a.data), reinterpret_cast<const T*>(b.data),
              target);
    }
    return absl::OkStatus();
  }));
  if (dtype != out.dtype) Cast(args, target, out);
  return absl::OkStatus();
}

// target = the bias along the channels, if there is one.
bool FillBias(const KernelArgs& args, const KernelTensor& target) {
  if (!HasBias(args)) return false;
  KernelTensor bias = args.in(2);
  for (int d = 2; d < target.ndim(); ++d) {
    bias.shape.push_back(1);
    bias.strides.push_back(0);
  }
  Cast(args, bias, target);
  return true;
}

void FillZero(const KernelTensor& target) {
  native::FillZero(target.data, target.size() * ItemSize(target.dtype));
}

absl::Status RunConv(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Shape& w = args.in(1).shape;
  const Dims kernel(w.span().subspan(2));
  const Windows windows =
      kernels::MakeWindows(args.in(0).shape, out.shape, Ints(kernel.begin(), kernel.end()),
                           args.attrs[0].ints(), args.attrs[1].ints());
  return Run(args, ConvKind::kForward, windows, w[1], w[0],
             [&](auto* convolution, const auto* x, const auto* weight, const KernelTensor& y) {
               using T = std::decay_t<decltype(*x)>;
               const bool biased = FillBias(args, y);
               convolution->Forward(x, weight, biased, reinterpret_cast<T*>(y.data));
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
  return Run(args, ConvKind::kImage, windows, w[1], w[0],
             [&](auto* convolution, const auto* x, const auto* weight, const KernelTensor& y) {
               using T = std::decay_t<decltype(*x)>;
               if (!FillBias(args, y)) FillZero(y);
               convolution->Transposed(x, weight, reinterpret_cast<T*>(y.data));
             });
}

absl::Status RunConvGradWeight(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Windows windows =
      kernels::MakeWindows(args.in(0).shape, args.in(1).shape, args.attrs[0].ints(),
                           args.attrs[1].ints(), args.attrs[2].ints());
  return Run(args, ConvKind::kWeight, windows, out.shape[1], out.shape[0],
             [&](auto* convolution, const auto* x, const auto* gy, const KernelTensor& w) {
               using T = std::decay_t<decltype(*x)>;
               if (args.in(0).shape[0] == 0) FillZero(w);
               convolution->GradWeight(x, gy, reinterpret_cast<T*>(w.data));
             });
}

}  // namespace

void RegisterConvolution(KernelTable& table) {
  table.Set("conv", RunConv);
  table.Set("conv_transpose", RunConvTranspose);
  table.Set("conv_grad_weight", RunConvGradWeight);
}

}  // namespace chx::server::native
