// Kernels of ops/defs/linalg.cc.
#include <algorithm>
#include <cstring>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/matmul_operands.h"
#include "server/native/kernels/products.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"
#include "server/native/vendor/dnnl_bfloat16.h"

namespace chx::server::native {
namespace {

// The last two dimensions of a tensor.
Matrix MatrixOf(const KernelTensor& tensor) {
  const int last = tensor.ndim() - 1;
  return {tensor.data, tensor.shape[last - 1], tensor.shape[last], tensor.strides[last - 1],
          tensor.strides[last]};
}

// A tensor of matrices in BLAS's dtype and layout, copied only if it is not.
absl::StatusOr<KernelTensor> BlasReady(const KernelArgs& args, const KernelTensor& tensor) {
  if (tensor.dtype == WorkDtype(tensor.dtype) &&
      IsBlasReady(MatrixOf(tensor), ItemSize(tensor.dtype))) {
    return tensor;
  }
  return Contiguous(args, tensor, WorkDtype(tensor.dtype));
}

// The leading dimensions of `tensor`, which broadcast to `batch`.
kernels::LoopNest<1> BatchNest(const KernelTensor& tensor, const Shape& batch) {
  kernels::LoopNest<1> nest;
  const int missing = batch.size() - (tensor.ndim() - 2);
  for (int d = 0; d < batch.size(); ++d) {
    const int own = d - missing;
    const bool repeated = own < 0 || tensor.shape[own] == 1;
    nest.Append(batch[d], {repeated ? 0 : tensor.strides[own]});
  }
  return nest;
}

// Calls fn(a's offsets in bytes, b's, first, count) for some matrices of the batch at a time.
template <typename Fn>
void ForBatches(const KernelTensor& a, const KernelTensor& b, const Shape& batch, Fn&& fn) {
  constexpr int64_t kAtATime = 64 << 10;
  using Offsets = absl::InlinedVector<int64_t, 4>;
  const kernels::LoopNest<1> a_nest = BatchNest(a, batch);
  const kernels::LoopNest<1> b_nest = BatchNest(b, batch);
  InPieces(a_nest.size, kAtATime, [&](int64_t begin, int64_t end) {
    Offsets a_offsets(end - begin);
    Offsets b_offsets(end - begin);
    for (int64_t i = begin; i < end; ++i) {
      a_offsets[i - begin] = a_nest.Offset(0, i);
      b_offsets[i - begin] = b_nest.Offset(0, i);
    }
    fn(a_offsets.data(), b_offsets.data(), begin, end - begin);
  });
}

// out = a b, or out += a b, for tensors of matrices; `out` is dense.
absl::Status MatrixProducts(const KernelArgs& args, const KernelTensor& a_in,
                            const KernelTensor& b_in, const Shape& batch, bool accumulate,
                            const KernelTensor& out) {
  ThreadPool& pool = PoolOf(args);
  if (!IsFloat(out.dtype)) {
    if (out.size() == 0) return absl::OkStatus();
    const int64_t step = a_in.shape[a_in.ndim() - 2] * b_in.shape.back();
    kernels::VisitDtype(out.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kernels::kIsFloat<kernels::Compute<T>>) {
        ForBatches(a_in, b_in, batch,
                   [&](const int64_t* a_at, const int64_t* b_at, int64_t first, int64_t count) {
                     PlainProducts(pool, count, MatrixOf(a_in), a_at, MatrixOf(b_in), b_at,
                                   accumulate, reinterpret_cast<T*>(out.data) + first * step);
                   });
      }
    });
    return absl::OkStatus();
  }
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, BlasReady(args, a_in));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, BlasReady(args, b_in));
  const Matrix matrix_a = MatrixOf(a);
  const Matrix matrix_b = MatrixOf(b);
  for (const int64_t dim : {matrix_a.rows, matrix_a.columns, matrix_b.columns}) {
    if (dim > INT32_MAX) {
      return ValueError("[", args.op.name, "] expects matrices of dimensions below 2^31, got ",
                        dim);
    }
  }
  const int64_t step = matrix_a.rows * matrix_b.columns;
  ForBatches(a, b, batch,
             [&](const int64_t* a_at, const int64_t* b_at, int64_t first, int64_t count) {
               if (out.dtype == Dtype::kFloat64) {
                 Gemm(pool, count, matrix_a, a_at, matrix_b, b_at, accumulate,
                      reinterpret_cast<double*>(out.data) + first * step);
               } else {
                 Gemm(pool, count, matrix_a, a_at, matrix_b, b_at, accumulate,
                      reinterpret_cast<float*>(out.data) + first * step);
               }
             });
  return absl::OkStatus();
}

// out = a b, plus `bias` if it is not null, by oneDNN, if all are of bfloat16. False, with nothing
// done: these are computed as float32.
absl::StatusOr<bool> Bfloat16Products(const KernelArgs& args, const KernelTensor& a,
                                      const KernelTensor& b, const Shape& batch,
                                      const KernelTensor* bias, const KernelTensor& out) {
  for (const KernelTensor* tensor : {&a, &b, bias, &out}) {
    if (tensor != nullptr && tensor->dtype != Dtype::kBfloat16) return false;
  }
  const char* dense_bias = nullptr;
  if (bias != nullptr) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, *bias, Dtype::kBfloat16));
    dense_bias = dense.data;
  }
  const Matrix matrix_a = MatrixOf(a);
  const Matrix matrix_b = MatrixOf(b);
  const int64_t bytes = matrix_a.rows * matrix_b.columns * ItemSize(out.dtype);
  absl::StatusOr<bool> done = true;
  ForBatches(a, b, batch,
             [&](const int64_t* a_at, const int64_t* b_at, int64_t first, int64_t count) {
               if (!done.ok() || !*done) return;
               done = DnnlBfloat16Products(args, count, matrix_a, a_at, matrix_b, b_at, dense_bias,
                                           out.data + first * bytes);
             });
  return done;
}

// Runs `product(target)` with a target of BLAS's dtype, and casts it back.
template <typename Product>
absl::Status InWorkDtype(const KernelArgs& args, const KernelTensor& out, Product&& product) {
  const Dtype dtype = WorkDtype(out.dtype);
  if (dtype == out.dtype) return product(out);
  CHX_ASSIGN_OR_RETURN(const KernelTensor wide, NewTensor(args, dtype, out.shape));
  CHX_RETURN_IF_ERROR(product(wide));
  RunUnary(PoolOf(args), wide, out,
           Loops().cast[static_cast<int>(dtype)][static_cast<int>(out.dtype)]);
  return absl::OkStatus();
}

// Products of columns and rows, whose elements are sums of one product: the gradients of weights
// for one sample. BLAS takes several times as long.
void OuterProducts(const KernelArgs& args, const kernels::MatmulOperands& operands,
                   const KernelTensor& out) {
  const KernelTensor& a = operands.a;
  const KernelTensor& b = operands.b;
  const int batch_dims = operands.batch.size();
  // Along dimension d of the batch and the matrices.
  const auto stride = [batch_dims](const KernelTensor& tensor, int d) -> int64_t {
    const int own = d - (batch_dims + 2 - tensor.ndim());
    return own < 0 || tensor.shape[own] == 1 ? 0 : tensor.strides[own];
  };
  Shape shape = operands.batch;
  shape.push_back(a.shape[a.ndim() - 2]);
  shape.push_back(b.shape.back());
  const Strides dense = ContiguousStrides(shape, ItemSize(out.dtype));
  kernels::LoopNest<3> nest;
  for (int d = 0; d < shape.size(); ++d) {
    nest.Append(shape[d], {dense[d], stride(a, d), stride(b, d)});
  }
  const int64_t items[] = {ItemSize(out.dtype), ItemSize(a.dtype), ItemSize(b.dtype)};
  RunNest(PoolOf(args), nest, {out.data, a.data, b.data}, items,
          Loops().arithmetic[kernels::kFnIndex<kernels::Multiply, kernels::BinaryArithmeticFns>]
                            [static_cast<int>(out.dtype)]);
}

absl::Status RunMatmul(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const kernels::MatmulOperands operands = kernels::MakeMatmulOperands(args);
  if (operands.a.shape.back() == 1) {
    OuterProducts(args, operands, out);
    return absl::OkStatus();
  }
  CHX_ASSIGN_OR_RETURN(const bool done, Bfloat16Products(args, operands.a, operands.b,
                                                         operands.batch, nullptr, out));
  if (done) return absl::OkStatus();
  return InWorkDtype(args, out, [&](const KernelTensor& target) {
    return MatrixProducts(args, operands.a, operands.b, operands.batch, false, target);
  });
}

// Rows of linear's x. From here on it costs little to copy w transposed, and oneDNN's product with
// the copy takes three quarters of the time.
constexpr int64_t kMinRowsForCopy = 256;

absl::Status RunLinear(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const bool has_bias = args.inputs.size() > 2 && args.in(2).present;
  CHX_ASSIGN_OR_RETURN(const KernelTensor x,
                       kernels::AsMatrix(args.in(0), static_cast<int>(args.attrs[0].AsInt()),
                                         [&args](const KernelTensor& in) {
                                           return Contiguous(args, in, in.dtype);
                                         }));
  KernelTensor w = kernels::Transposed(args.in(1));
  CHX_ASSIGN_OR_RETURN(const bool done, Bfloat16Products(args, x, w, Shape(),
                                                         has_bias ? &args.in(2) : nullptr, out));
  if (done) return absl::OkStatus();
  if (WorkDtype(out.dtype) == Dtype::kFloat32 && x.shape[0] >= kMinRowsForCopy) {
    CHX_ASSIGN_OR_RETURN(w, RowsApart(args, w, Dtype::kFloat32));
  }
  return InWorkDtype(args, out, [&](const KernelTensor& target) {
    if (has_bias) {
      const KernelTensor& bias = args.in(2);
      RunUnary(PoolOf(args), bias, target,
               Loops().cast[static_cast<int>(bias.dtype)][static_cast<int>(target.dtype)]);
    }
    return MatrixProducts(args, x, w, Shape(), has_bias, target);
  });
}

}  // namespace

void RegisterLinalg(KernelTable& table) {
  table.Set("matmul", RunMatmul);
  table.Set("linear", RunLinear);
}

}  // namespace chx::server::native
