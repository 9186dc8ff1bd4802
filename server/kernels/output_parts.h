// Parts of an output that a kernel copies to, as strided views of it.
#ifndef CHX_SERVER_KERNELS_OUTPUT_PARTS_H_
#define CHX_SERVER_KERNELS_OUTPUT_PARTS_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ops/basic_index.h"
#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/engine/kernel.h"

namespace chx::server::kernels {

// concatenate: calls copy(input, part), which returns a Status, for each input with elements.
template <typename Copy>
absl::Status ForConcatenatedParts(const KernelArgs& args, Copy&& copy) {
  const KernelTensor& out = args.out(0);
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
      CHX_RETURN_IF_ERROR(copy(in, part));
    }
    position += flat ? in.size() : in.shape[axis];
  }
  return absl::OkStatus();
}

// getitem_grad: the part of the output that the basic index `index` selects.
inline absl::StatusOr<KernelTensor> IndexedPart(const KernelArgs& args, const Ints& index) {
  const KernelTensor& out = args.out(0);
  ArraySpec view;
  CHX_RETURN_IF_ERROR(ApplyBasicIndex(args.op.name, index, ArraySpec(out.dtype, out.shape), &view));
  KernelTensor part = out;
  part.data = out.data + view.offset;
  part.shape = view.shape;
  part.strides = view.strides;
  return part;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_OUTPUT_PARTS_H_
