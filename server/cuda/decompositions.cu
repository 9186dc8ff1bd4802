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

absl::Status RunDecomposition(const KernelArgs& args) {
  std::vector<std::string> memory;
  memory.reserve(args.inputs.size() + args.outputs.size());
  std::vector<KernelTensor> inputs;
  std::vector<KernelTensor> outputs;
  for (const KernelTensor& input : args.inputs) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, input));
    inputs.push_back(OnHost(dense, &memory));
    CHX_RETURN_IF_ERROR(args.stream.CopyOut(inputs.back().data, dense.data, memory.back().size()));
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

}  // namespace

void RegisterDecompositions(KernelTable& table) {
  for (const absl::string_view op : lapack::Operators()) table.Set(op, RunDecomposition);
}

}  // namespace chx::cuda
