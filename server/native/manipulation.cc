// Kernels of ops/defs/manipulation.cc: whatever is not a view.
#include "ops/inference_rules.h"
#include "server/native/device.h"
#include "server/native/groups.h"
#include "server/native/loops.h"
#include "server/native/nest.h"

namespace chx::server::native {
namespace {

// Each input is copied to its part of the output, as a strided view of it.
absl::Status RunConcatenate(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const int dtype = static_cast<int>(out.dtype);
  const Loop copy = Loops().cast[dtype][dtype];
  const bool flat = !args.attrs[0].has_value();
  int axis = 0;
  if (!flat) {
    CHX_ASSIGN_OR_RETURN(axis,
                         rules::NormalizeAxis(args.op.name, args.attrs[0].AsInt(), out.ndim()));
  }
  int64_t position = 0;
  for (const KernelTensor& in : args.inputs) {
    if (in.size() > 0) {
      KernelTensor part = out;
      part.data = out.data + position * out.strides[axis];
      part.shape = in.shape;
      if (flat) part.strides = ContiguousStrides(in.shape, ItemSize(out.dtype));
      RunUnary(PoolOf(args), in, part, copy);
    }
    position += flat ? in.size() : in.shape[axis];
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterManipulation(KernelTable& table) { table.Set("concatenate", RunConcatenate); }

}  // namespace chx::server::native
