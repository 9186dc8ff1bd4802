// How a reduction's operand is seen: the axes it reduces and the two loop nests that they make.
#ifndef CHX_SERVER_KERNELS_REDUCE_NESTS_H_
#define CHX_SERVER_KERNELS_REDUCE_NESTS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/engine/kernel.h"
#include "server/kernels/indexer.h"

namespace chx::server::kernels {

// The reduced axes as a bit mask. `single`: attribute 0 is one axis (argmax); otherwise it is a
// list. An absent attribute means all axes.
inline absl::StatusOr<uint32_t> ReducedAxes(const OpDef& op, int ndim, const AttrValue& axes,
                                            bool single) {
  if (ndim == 0) return 0;
  if (!single) return rules::NormalizeAxes(op.name, axes, ndim);
  if (!axes.has_value()) return (uint32_t{1} << ndim) - 1;
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(op.name, axes.AsInt(), ndim));
  return uint32_t{1} << axis;
}
inline absl::StatusOr<uint32_t> ReducedAxes(const KernelArgs& args, bool single) {
  return ReducedAxes(args.op, args.in(0).ndim(), args.attrs[0], single);
}

struct ReduceNests {
  LoopNest<1> kept;     // over results
  LoopNest<1> reduced;  // over the elements of one result
};

// `axes`: bit d for a reduced dimension. `ordered`: an element's position in the reduced nest is
// its position in C order. Otherwise dimensions are sorted by stride, because they merge better
// then.
inline ReduceNests MakeReduceNests(const KernelTensor& in, uint32_t axes, bool ordered) {
  ReduceNests nests;
  int dims[kMaxNdim];
  int count = 0;
  for (int d = 0; d < in.ndim(); ++d) {
    if (((axes >> d) & 1) != 0) {
      dims[count++] = d;
    } else {
      nests.kept.Append(in.shape[d], {in.strides[d]});
    }
  }
  if (!ordered) {
    std::stable_sort(dims, dims + count, [&](int a, int b) {
      return std::abs(in.strides[a]) > std::abs(in.strides[b]);
    });
  }
  for (int i = 0; i < count; ++i) nests.reduced.Append(in.shape[dims[i]], {in.strides[dims[i]]});
  return nests;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_REDUCE_NESTS_H_
