// Kernels of ops/defs/decompositions.cc. cuSOLVER decomposes matrices that are large, or many, if
// it is installed. All others are copied to the host, decomposed by LAPACK, and copied back. Both
// ways wait for the outcome.
#include "server/lapack/decompositions.h"

#include <string>
#include <vector>

#include "ops/error.h"
#include "server/cuda/kernels/decompositions_solver.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/vendor/solver.h"
#include "server/engine/backend.h"

namespace chx::server::cuda {
namespace {

// `tensor` with dense memory on the host, for its elements.
KernelTensor OnHost(const KernelTensor& tensor, std::vector<std::string>* memory) {
  KernelTensor host = tensor;
  memory->emplace_back(tensor.size() * ItemSize(tensor.dtype), '\0');
  host.data = &memory->back()[0];
  host.strides = ContiguousStrides(tensor.shape, ItemSize(tensor.dtype));
  return host;
}

// The inputs of `args` are dense.
absl::Status RunOnHost(const KernelArgs& args) {
  std::vector<std::string> memory;
  memory.reserve(args.inputs.size() + args.outputs.size());
  std::vector<KernelTensor> inputs;
  std::vector<KernelTensor> outputs;
  for (const KernelTensor& input : args.inputs) {
    inputs.push_back(OnHost(input, &memory));
    CHX_RETURN_IF_ERROR(args.stream.CopyOut(inputs.back().data, input.data, memory.back().size()));
  }
  for (const KernelTensor& output : args.outputs) outputs.push_back(OnHost(output, &memory));
  const auto one_by_one = [](int64_t count, int64_t, absl::FunctionRef<void(int64_t)> fn) {
    for (int64_t i = 0; i < count; ++i) fn(i);
  };
  CHX_RETURN_IF_ERROR(
      lapack::Run({args.op, args.stream, args.scratch, inputs, outputs, args.attrs}, one_by_one));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t bytes = outputs[i].size() * ItemSize(outputs[i].dtype);
    CHX_RETURN_IF_ERROR(args.stream.CopyIn(args.out(i).data, outputs[i].data, bytes));
  }
  return absl::OkStatus();
}

absl::Status RunDecomposition(const KernelArgs& args) {
  std::vector<KernelTensor> inputs;
  std::vector<KernelTensor> outputs;
  for (const KernelTensor& input : args.inputs) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, input, WorkDtype(input.dtype)));
    inputs.push_back(dense);
  }
  for (const KernelTensor& output : args.outputs) {
    outputs.push_back(output);
    if (!IsNarrowFloat(output.dtype)) continue;
    CHX_ASSIGN_OR_RETURN(outputs.back(), NewTensor(args, Dtype::kFloat32, output.shape));
  }
  const KernelArgs wide = {args.op, args.stream, args.scratch, inputs, outputs, args.attrs};
  Solver* const solver = Factorizes(args.op.name) ? StreamOf(args).solver() : nullptr;
  if (solver != nullptr && IsWorthIt(args.op.name, args.in(0), *solver)) {
    CHX_RETURN_IF_ERROR(Factorize(wide, solver));
  } else {
    CHX_RETURN_IF_ERROR(RunOnHost(wide));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].dtype == args.out(i).dtype) continue;
    CHX_RETURN_IF_ERROR(Copy(args, outputs[i], args.out(i)));
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterDecompositions(KernelTable& table) {
  for (const absl::string_view op : lapack::Operators()) table.Set(op, RunDecomposition);
}

}  // namespace chx::server::cuda
