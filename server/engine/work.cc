#include "server/engine/work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "ops/registry.h"

namespace chx::server {
namespace {

struct Call {
  absl::Span<const SpecOperand> inputs;
  absl::Span<const AttrValue> attrs;
  const InferResult& inferred;

  const ArraySpec& in(int i) const { return *inputs[i].array(); }
  const ArraySpec& out(int i) const { return inferred.outputs[i]; }
};

struct Estimate {
  double (*work)(const Call& call);
  double limit;
};

double SizeOf(const ArraySpec& spec) { return static_cast<double>(spec.size()); }

// All but the first dimension of weights: what one element of the windows' features takes.
double PerFeature(const ArraySpec& weight) {
  return SizeOf(weight) / std::max<double>(1, static_cast<double>(weight.shape[0]));
}

double Matmul(const Call& call) {
  return SizeOf(call.out(0)) * static_cast<double>(call.in(0).shape.back());
}
double Linear(const Call& call) { return SizeOf(call.out(0)) * PerFeature(call.in(1)); }
double ConvTranspose(const Call& call) { return SizeOf(call.in(0)) * PerFeature(call.in(1)); }
double ConvGradWeight(const Call& call) { return SizeOf(call.in(1)) * PerFeature(call.out(0)); }

// An attribute of one number for each spatial dimension, or one for all.
double KernelSize(const Ints& kernel, const ArraySpec& image) {
  double size = 1;
  for (int d = 0; d < image.ndim() - 2; ++d) {
    size *= static_cast<double>(kernel[kernel.size() == 1 ? 0 : d]);
  }
  return size;
}
double Pooling(const Call& call) {
  return SizeOf(call.out(0)) * KernelSize(call.attrs[0].ints(), call.in(0));
}
double AveragePoolGrad(const Call& call) {
  return SizeOf(call.in(0)) * KernelSize(call.attrs[1].ints(), call.in(0));
}

// With windows that overlap.
double AdaptivePooling(const Call& call) {
  const Shape& x = call.in(0).shape;
  const Shape& y = call.out(0).shape;
  double work = static_cast<double>(x[0]) * static_cast<double>(x[1]);
  for (int d = 2; d < x.size(); ++d) work *= static_cast<double>(x[d]) + 2.0 * y[d];
  return work;
}

double Sort(const Call& call) { return 40 * SizeOf(call.in(0)); }

// Of one matrix.
template <int kFactor>
double Decomposition(const Call& call) {
  const Shape& shape = call.in(0).shape;
  const double rows = static_cast<double>(shape[shape.size() - 2]);
  const double columns = static_cast<double>(shape.back());
  return kFactor * rows * columns * std::min(rows, columns);
}
double Solve(const Call& call) {
  const double n = static_cast<double>(call.in(0).shape.back());
  return Decomposition<1>(call) + n * n * static_cast<double>(call.out(0).shape.back());
}

// For the operators that take more than a few steps for each element; null: the others.
const std::vector<const Estimate*>& Estimates() {
  static const auto* const estimates = [] {
    static constexpr struct {
      const char* op;
      Estimate estimate;
    } kRows[] = {
        {"matmul", {Matmul, kMaxWork}},
        {"linear", {Linear, kMaxWork}},
        {"conv", {Linear, kMaxWork}},
        {"conv_transpose", {ConvTranspose, kMaxWork}},
        {"conv_grad_weight", {ConvGradWeight, kMaxWork}},
        {"grouped_conv", {Linear, kMaxWork}},
        {"grouped_conv_grad_image", {ConvTranspose, kMaxWork}},
        {"grouped_conv_grad_weight", {ConvGradWeight, kMaxWork}},
        {"adaptive_max_index", {AdaptivePooling, kMaxWork}},
        {"max_pool", {Pooling, kMaxWork}},
        {"max_pool_index", {Pooling, kMaxWork}},
        {"average_pool", {Pooling, kMaxWork}},
        {"average_pool_grad", {AveragePoolGrad, kMaxWork}},
        {"sort", {Sort, kMaxWork}},
        {"argsort", {Sort, kMaxWork}},
        {"topk", {Sort, kMaxWork}},
        {"solve", {Solve, kMaxWork}},
        {"cholesky", {Decomposition<1>, kMaxWork}},
        {"cofactors", {Decomposition<20>, kMaxDecompositionWork}},
        {"qr", {Decomposition<4>, kMaxDecompositionWork}},
        {"svd", {Decomposition<20>, kMaxDecompositionWork}},
        {"eigh", {Decomposition<9>, kMaxDecompositionWork}},
        {"eigvalsh", {Decomposition<4>, kMaxDecompositionWork}},
        {"eig", {Decomposition<25>, kMaxDecompositionWork}},
        {"eigvals", {Decomposition<10>, kMaxDecompositionWork}},
    };
    const OpRegistry& registry = OpRegistry::Global();
    auto* by_id = new std::vector<const Estimate*>(registry.size(), nullptr);
    for (const auto& row : kRows) (*by_id)[registry.Find(row.op)->id] = &row.estimate;
    return by_id;
  }();
  return *estimates;
}

}  // namespace

absl::Status CheckWork(const OpCall<SpecOperand>& call, const InferResult& inferred) {
  const OpDef& op = call.op;
  if (op.kind == OpKind::kView || op.kind == OpKind::kTransfer) return absl::OkStatus();
  double work = 0;
  double limit = kMaxWork;
  if (const Estimate* const estimate = Estimates()[op.id]) {
    work = estimate->work({call.inputs, call.attrs, inferred});
    limit = estimate->limit;
  }
  if (work <= limit) {
    limit = kMaxWork;
    for (const SpecOperand& input : call.inputs) {
      if (input.is_array()) work = std::max(work, SizeOf(*input.array()));
    }
  }
  if (work <= limit) return absl::OkStatus();
  return ValueError("[", op.name, "] expects at most ", absl::StrFormat("%.3g", limit),
                    " elements or multiplications, got ", absl::StrFormat("%.3g", work));
}

}  // namespace chx::server
