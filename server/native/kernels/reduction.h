// The reductions, for other groups of operators that reduce.
#ifndef CHX_SERVER_NATIVE_KERNELS_REDUCTION_H_
#define CHX_SERVER_NATIVE_KERNELS_REDUCTION_H_

#include "server/engine/kernel.h"
#include "server/engine/rowwise.h"
#include "server/native/loops/loops.h"

namespace chx::server::native {

// The kernel of an operator whose first attribute is the axes (for kArgMax and kArgMin one axis).
// Instantiated in reduction.cc.
template <ReduceOp kOp>
absl::Status Reduce(const KernelArgs& args);

// Enters a kernel in the table, as one that is rowwise.
void SetRowwise(KernelTable& table, absl::string_view op, Kernel kernel, const Rowwise& promise);

// `axes`: bit d for a dimension of the input that is reduced. Those before them, if they are the
// last ones, dense, and not so long that the reductions may be cut.
int RowDimsBefore(uint32_t axes, const KernelTensor& in);

// Of Reduce. `kSingle`: the first attribute is one axis.
template <bool kSingle>
int ReducedRowDims(const OpDef& op, absl::Span<const KernelTensor> inputs,
                   absl::Span<const KernelTensor> outputs, absl::Span<const AttrValue> attrs);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_REDUCTION_H_
