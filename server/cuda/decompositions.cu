// Kernels of ops/defs/decompositions.cc: copied to the host, decomposed by LAPACK, and back. What
// waits for the outcome anyway loses little by that; large matrices are the exception.
#include "server/lapack/decompositions.h"

#include <string>
#include <vector>

#include "ops/error.h"
#include "server/cuda/copy.h"
#include "server/cuda/groups.h"
#include "server/engine/backend.h"

namespace chx::cuda {
namespace {

// `tensor` with other, dense memory for its elements.
KernelTensor OnHost(const KernelTensor& tensor, std::vector<std::string>* memory) {
  KernelTensor host = tensor;
  memory->emplace_back(tensor.size() * ItemSize(tensor.dtype), '\0');
  host.data = &memory->back()[0];
  host.strides = ContiguousStrides(tensor.shape, ItemSize(tensor.dtype));
  return host;
}

// An input in C order; float16 is computed in float32.
absl::StatusOr<KernelTensor> Dense(const KernelArgs& args, const KernelTensor& input) {
  if (input.dtype != Dtype::kFloat16) return Contiguous(args, input);
  CHX_ASSIGN_OR_RETURN(const KernelTensor wide, NewTensor(args, Dtype::kFloat32, input.shape));
  CHX_RETURN_IF_ERROR(Copy(args, input, wide));
  return wide;
}

// Where an output is computed.
absl::StatusOr<KernelTensor> Target(const KernelArgs& args, const KernelTensor& output) {
  if (output.dtype != Dtype::kFloat16) return output;
  return NewTensor(args, Dtype::kFloat32, output.shape);
}

absl::Status RunDecomposition(const KernelArgs& args) {
  std::vector<std::string> memory;
  memory.reserve(args.inputs.size() + args.outputs.size());
  std::vector<KernelTensor> inputs;
  std::vector<KernelTensor> outputs;
  for (const KernelTensor& input : args.inputs) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Dense(args, input));
    inputs.push_back(OnHost(dense, &memory));
    CHX_RETURN_IF_ERROR(args.stream.CopyOut(inputs.back().data, dense.data, memory.back().size()));
  }
  std::vector<KernelTensor> targets;
  for (const KernelTensor& output : args.outputs) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor target, Target(args, output));
    targets.push_back(target);
    outputs.push_back(OnHost(target, &memory));
  }
  const auto one_by_one = [](int64_t count, int64_t, absl::FunctionRef<void(int64_t)> fn) {
    for (int64_t i = 0; i < count; ++i) fn(i);
  };
  CHX_RETURN_IF_ERROR(
      lapack::Run({args.op, args.stream, args.scratch, inputs, outputs, args.attrs}, one_by_one));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t bytes = outputs[i].size() * ItemSize(outputs[i].dtype);
    CHX_RETURN_IF_ERROR(args.stream.CopyIn(targets[i].data, outputs[i].data, bytes));
    if (targets[i].dtype != args.out(i).dtype) {
      CHX_RETURN_IF_ERROR(Copy(args, targets[i], args.out(i)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterDecompositions(KernelTable& table) {
  for (const absl::string_view op : lapack::Operators()) table.Set(op, RunDecomposition);
}

}  // namespace chx::cuda
