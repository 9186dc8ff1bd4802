// Kernels of ops/defs/sequences_lstm.cc. Each step is one product and its cells; the gradient of
// the weights is one product for all steps.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/error.h"
#include "ops/rnn.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"
#include "server/native/vendor/gemm.h"

namespace chx::server::native {
namespace {

constexpr int64_t kMinRowsForLstmCopy = 256;  // of weights
constexpr int64_t kCellCost = 32;             // of five exponentials, in elements of cheap work

// Rows of `width` dense elements, at `data`.
template <typename T>
struct LstmRows {
  T* data;
  int64_t width;

  T* At(int64_t row) const { return data + row * width; }
  Matrix Part(int64_t begin, int64_t rows) const {
    const auto item = static_cast<int64_t>(sizeof(T));
    return {reinterpret_cast<const char*>(At(begin)), rows, width, width * item, item};
  }
};

template <typename T>
class LstmKernel {
 public:
  static absl::Status Forward(const KernelArgs& args) {
    LstmKernel kernel(args);
    CHX_RETURN_IF_ERROR(kernel.Prepare());
    return kernel.RunForward();
  }
  static absl::Status Grad(const KernelArgs& args) {
    LstmKernel kernel(args);
    CHX_RETURN_IF_ERROR(kernel.Prepare());
    return kernel.RunGrad();
  }

 private:
  explicit LstmKernel(const KernelArgs& args)
      : args_(args),
        pool_(PoolOf(args)),
        dtype_(args.out(0).dtype),
        loops_(Loops().lstm[static_cast<int>(dtype_)]) {}

  // All inputs dense, and a row of zeros.
  absl::Status Prepare() {
    CHX_ASSIGN_OR_RETURN(network_, MakeLstmLayer(args_.op.name, args_.in(0).shape,
                                                 args_.in(1).shape, args_.attrs[0]));
    hidden_ = network_.hidden;
    if (std::max(network_.total_rows(), 4 * hidden_) > INT32_MAX)
      return absl::UnimplementedError("");
    for (const KernelTensor& in : args_.inputs) {
      CHX_ASSIGN_OR_RETURN(KernelTensor dense, Contiguous(args_, in, dtype_));
      inputs_.push_back(std::move(dense));
    }
    CHX_ASSIGN_OR_RETURN(const KernelTensor zeros, NewTensor(args_, dtype_, {4 * hidden_}));
    zeros_ = reinterpret_cast<const T*>(zeros.data);
    FillZero(zeros.data, 4 * hidden_ * static_cast<int64_t>(sizeof(T)));
    return absl::OkStatus();
  }

  LstmRows<T> In(int i, int64_t width) const {
    return {reinterpret_cast<T*>(inputs_[i].data), width};
  }
  LstmRows<T> Out(int i, int64_t width) const {
    return {reinterpret_cast<T*>(args_.out(i).data), width};
  }
  static void CopyRows(const LstmRows<T>& to, int64_t row, const T* from, int64_t rows) {
    CopyBytes(to.At(row), from, rows * to.width * static_cast<int64_t>(sizeof(T)));
  }

  // Calls run(row of the state, row of all steps) for the rows of a step, each of so much cheap
  // work for an element of a state.
  template <typename Fn>
  void ForRows(int step, int64_t cost, Fn&& run) {
    const int64_t offset = network_.offsets[step];
    const int64_t grain = std::max<int64_t>(1, kGrain / cost / std::max<int64_t>(1, hidden_));
    pool_.ParallelFor(network_.rows[step], grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) run(row, offset + row);
    });
  }

  // Weights as the right operand of a product in each step. Copied if they are used for many rows,
  // as linear does.
  absl::StatusOr<Matrix> StepWeights(const Matrix& weights) {
    if (network_.total_rows() < kMinRowsForLstmCopy) return weights;
    KernelTensor matrix;
    matrix.dtype = dtype_;
    matrix.shape = {weights.rows, weights.columns};
    matrix.strides = {weights.row_stride, weights.column_stride};
    matrix.data = const_cast<char*>(weights.data);
    CHX_ASSIGN_OR_RETURN(const KernelTensor copy, RowsApart(args_, matrix, dtype_));
    return Matrix{copy.data, weights.rows, weights.columns, copy.strides[0], copy.strides[1]};
  }

  void Product(const Matrix& a, const Matrix& b, bool accumulate, T* c) {
    const int64_t at_start = 0;
    if (a.rows == 0 || b.columns == 0) return;
    if (a.columns == 0) {
      if (!accumulate) FillZero(c, a.rows * b.columns * static_cast<int64_t>(sizeof(T)));
      return;
    }
    Gemm(pool_, 1, a, &at_start, b, &at_start, accumulate, c);
  }

  int StepAt(int i) const { return args_.attrs[1].AsBool() ? network_.num_steps() - 1 - i : i; }

  absl::Status RunForward() {
    const LstmRows<T> y = Out(0, hidden_), h = Out(1, hidden_), c = Out(2, hidden_);
    const LstmRows<T> gates = Out(3, 4 * hidden_), hs = Out(4, hidden_), cs = Out(5, hidden_);
    const LstmRows<T> from_x = In(0, 4 * hidden_);
    CHX_ASSIGN_OR_RETURN(const Matrix weights,
                         StepWeights(Transposed(In(3, hidden_).Part(0, 4 * hidden_))));
    const T* const biases = In(4, 1).data;
    // These are the states, step by step.
    CopyRows(h, 0, In(1, hidden_).data, network_.batch);
    CopyRows(c, 0, In(2, hidden_).data, network_.batch);
    const size_t row_bytes = static_cast<size_t>(hidden_) * sizeof(T);
    for (int i = 0; i < network_.num_steps() && !StopRequested(); ++i) {
      const int step = StepAt(i);
      const int64_t rows = network_.rows[step];
      const int64_t offset = network_.offsets[step];
      ForRows(step, 8, [&](int64_t /*row*/, int64_t at) {
        const T* const from = from_x.At(at);
        T* const to = gates.At(at);
        for (int64_t k = 0; k < 4 * hidden_; ++k) to[k] = from[k] + biases[k];
      });
      Product(h.Part(0, rows), weights, /*accumulate=*/true, gates.At(offset));
      ForRows(step, kCellCost, [&](int64_t row, int64_t at) {
        std::memcpy(hs.At(at), h.At(row), row_bytes);
        std::memcpy(cs.At(at), c.At(row), row_bytes);
        loops_.cell(gates.At(at), zeros_, cs.At(at), hidden_, c.At(row), h.At(row));
        std::memcpy(y.At(at), h.At(row), row_bytes);
      });
    }
    return absl::OkStatus();
  }

  absl::Status RunGrad() {
    const LstmRows<T> gfrom_x = Out(0, 4 * hidden_), gh = Out(1, hidden_), gc = Out(2, hidden_);
    const LstmRows<T> gates = In(5, 4 * hidden_), hs = In(6, hidden_), cs = In(7, hidden_);
    const LstmRows<T> gy = In(8, hidden_);
    CHX_ASSIGN_OR_RETURN(const Matrix weights, StepWeights(In(3, hidden_).Part(0, 4 * hidden_)));
    CopyRows(gh, 0, In(9, hidden_).data, network_.batch);
    CopyRows(gc, 0, In(10, hidden_).data, network_.batch);
    for (int i = network_.num_steps() - 1; i >= 0 && !StopRequested(); --i) {
      const int step = StepAt(i);
      const int64_t rows = network_.rows[step];
      ForRows(step, kCellCost, [&](int64_t row, int64_t at) {
        T* const total = gh.At(row);
        const T* const more = gy.At(at);
        for (int64_t k = 0; k < hidden_; ++k) total[k] += more[k];
        loops_.grad(gates.At(at), zeros_, cs.At(at), gc.At(row), total, hidden_, gfrom_x.At(at),
                    gc.At(row));
      });
      Product(gfrom_x.Part(network_.offsets[step], rows), weights, /*accumulate=*/false, gh.At(0));
    }
    const Matrix all = gfrom_x.Part(0, network_.total_rows());
    Product(Transposed(all), hs.Part(0, network_.total_rows()), /*accumulate=*/false,
            Out(3, hidden_).data);
    SumRows(gfrom_x, Out(4, 1).data);
    return absl::OkStatus();
  }

  // sums = of all rows.
  void SumRows(const LstmRows<T>& x, T* sums) {
    FillZero(sums, x.width * static_cast<int64_t>(sizeof(T)));
    StopWatch watch;
    for (int64_t row = 0; row < network_.total_rows() && !watch.After(x.width); ++row) {
      const T* const in = x.At(row);
      for (int64_t k = 0; k < x.width; ++k) sums[k] += in[k];
    }
  }

  const KernelArgs& args_;
  ThreadPool& pool_;
  const Dtype dtype_;
  const LstmLoops& loops_;
  RnnNetwork network_;
  int64_t hidden_ = 0;
  std::vector<KernelTensor> inputs_;
  const T* zeros_ = nullptr;
};

// Compositions have the other floats: products of 16 bits are another library's.
absl::Status RunLstmLayer(const KernelArgs& args) {
  if (args.out(0).dtype == Dtype::kFloat32) return LstmKernel<float>::Forward(args);
  if (args.out(0).dtype == Dtype::kFloat64) return LstmKernel<double>::Forward(args);
  return absl::UnimplementedError("");
}
absl::Status RunLstmLayerGrad(const KernelArgs& args) {
  if (args.out(0).dtype == Dtype::kFloat32) return LstmKernel<float>::Grad(args);
  if (args.out(0).dtype == Dtype::kFloat64) return LstmKernel<double>::Grad(args);
  return absl::UnimplementedError("");
}

}  // namespace

void RegisterSequencesLstm(KernelTable& table) {
  table.Set("lstm_layer_forward", RunLstmLayer);
  table.Set("lstm_layer_grad", RunLstmLayerGrad);
}

}  // namespace chx::server::native
