// Kernels of ops/defs/linalg.cc: cuBLAS for floats, a plain loop for bools and integers.
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/vendor/gemm.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/matmul_operands.h"

namespace chx::server::cuda {
namespace {

// One element of the product. Integers wrap around.
template <typename T>
struct PlainProduct {
  DeviceNest<3> nest;  // over (batch..., rows, columns): a's row, b's column, the start value
  const char* a;
  const char* b;
  const char* bias;  // null: zero
  T* out;
  int64_t inner;
  int64_t a_stride;
  int64_t b_stride;

  CHX_HD void operator()(int64_t i) const {
    int64_t at[3];
    nest.Offsets(i, at);
    const kernels::Add add;
    const kernels::Multiply multiply;
    kernels::Compute<T> sum = kernels::Compute<T>(0);
    if (bias != nullptr) sum = kernels::Load(*reinterpret_cast<const T*>(bias + at[2]));
    for (int64_t p = 0; p < inner; ++p) {
      const T& x = *reinterpret_cast<const T*>(a + at[0] + p * a_stride);
      const T& y = *reinterpret_cast<const T*>(b + at[1] + p * b_stride);
      sum = add(sum, multiply(kernels::Load(x), kernels::Load(y)));
    }
    out[i] = kernels::Store<T>(sum);
  }
};

// `out` is dense.
struct Product : kernels::MatmulOperands {
  KernelTensor out;
  const KernelTensor* bias = nullptr;  // (columns,), added to each row of one matrix

  int64_t rows() const { return a.shape[a.ndim() - 2]; }
  int64_t inner() const { return a.shape.back(); }
  int64_t columns() const { return b.shape.back(); }
};

absl::Status RunPlain(const KernelArgs& args, const Product& product) {
  const KernelTensor& a = product.a;
  const KernelTensor& b = product.b;
  const kernels::LoopNest<2> batch = BatchNest(a, b, product.batch);
  kernels::LoopNest<3> nest;
  for (int d = 0; d < batch.ndim; ++d) {
    nest.Append(batch.shape[d], {batch.strides[0][d], batch.strides[1][d], 0});
  }
  nest.Append(product.rows(), {a.strides[a.ndim() - 2], 0, 0});
  nest.Append(product.columns(),
              {0, b.strides[b.ndim() - 1], product.bias != nullptr ? product.bias->strides[0] : 0});
  return kernels::VisitDtype(product.out.dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    if constexpr (kernels::kIsFloat<kernels::Compute<T>>) {
      return absl::OkStatus();
    } else {
      return ForEach(args, nest.size,
                     PlainProduct<T>{DeviceNest<3>(nest), a.data, b.data,
                                     product.bias != nullptr ? product.bias->data : nullptr,
                                     reinterpret_cast<T*>(product.out.data), product.inner(),
                                     a.strides[a.ndim() - 1], b.strides[b.ndim() - 2]},
                     product.inner());
    }
  });
}

// BLAS is column-major: it computes out^T = b^T a^T.
absl::Status RunBlas(const KernelArgs& args, Product product) {
  const KernelTensor& out = product.out;
  if (product.inner() == 0) {
    return product.bias != nullptr ? Copy(args, *product.bias, out)
                                   : args.stream.Zero(out.data, out.size() * ItemSize(out.dtype));
  }
  for (KernelTensor* const operand : {&product.a, &product.b}) {
    if (!LayoutOf(*operand).ready) {
      CHX_ASSIGN_OR_RETURN(*operand, Contiguous(args, *operand));
    }
  }
  const int64_t item_size = ItemSize(out.dtype);
  const MatrixLayout a = LayoutOf(product.a);
  const MatrixLayout b = LayoutOf(product.b);
  GemmCall call;
  call.dtype = out.dtype;
  call.transpose_a = b.by_columns;
  call.transpose_b = a.by_columns;
  call.m = product.columns();
  call.n = product.rows();
  call.k = product.inner();
  call.lda = b.leading;
  call.ldb = a.leading;
  call.ldc = product.columns();
  call.c_stride = product.rows() * product.columns();
  // One call for each run of the innermost batch dimension.
  const kernels::LoopNest<2> batch = BatchNest(product.a, product.b, product.batch);
  const int last = batch.ndim - 1;
  call.count = last >= 0 ? batch.shape[last] : 1;
  call.a_stride = last >= 0 ? batch.strides[1][last] / item_size : 0;
  call.b_stride = last >= 0 ? batch.strides[0][last] / item_size : 0;
  const auto at = [&](int64_t first) {
    int64_t offsets[2];
    batch.Offsets(first, offsets);
    call.a = product.b.data + offsets[1];
    call.b = product.a.data + offsets[0];
    call.c = out.data + first * call.c_stride * item_size;
  };
  if (product.bias != nullptr) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor bias, Contiguous(args, *product.bias));
    call.bias = bias.data;
    at(0);
    CHX_ASSIGN_OR_RETURN(const bool done, StreamOf(args).GemmWithBias(args, call));
    if (done) return absl::OkStatus();
    call.bias = nullptr;
    call.accumulate = true;
    CHX_RETURN_IF_ERROR(Copy(args, *product.bias, out));
  }
  for (int64_t first = 0; first < batch.size; first += call.count) {
    at(first);
    CHX_RETURN_IF_ERROR(StreamOf(args).Gemm(args, call));
  }
  return absl::OkStatus();
}

absl::Status RunProduct(const KernelArgs& args, const Product& product) {
  return IsFloat(product.out.dtype) ? RunBlas(args, product) : RunPlain(args, product);
}

absl::Status RunMatmul(const KernelArgs& args) {
  if (args.out(0).size() == 0) return absl::OkStatus();
  return RunProduct(args, {kernels::MakeMatmulOperands(args), args.out(0)});
}

absl::Status RunLinear(const KernelArgs& args) {
  if (args.out(0).size() == 0) return absl::OkStatus();
  Product product;
  product.out = args.out(0);
  CHX_ASSIGN_OR_RETURN(
      product.a, kernels::AsMatrix(args.in(0), static_cast<int>(args.attrs[0].AsInt()),
                                   [&args](const KernelTensor& x) { return Contiguous(args, x); }));
  product.b = kernels::Transposed(args.in(1));
  if (args.inputs.size() > 2 && args.in(2).present) product.bias = &args.in(2);
  return RunProduct(args, product);
}

}  // namespace

void RegisterLinalg(KernelTable& table) {
  table.Set("matmul", RunMatmul);
  table.Set("linear", RunLinear);
}

}  // namespace chx::server::cuda
