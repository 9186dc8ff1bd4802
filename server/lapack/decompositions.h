// Kernels of ops/defs/decompositions.cc over host memory, by LAPACK. Both backends use them: small
// and medium matrices, which is what these operators see, are decomposed faster by a CPU.
#ifndef CHX_SERVER_LAPACK_DECOMPOSITIONS_H_
#define CHX_SERVER_LAPACK_DECOMPOSITIONS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/engine/kernel.h"

namespace chx::lapack {

// Calls fn(i) for each i in [0, count), on any threads; `work` is about the operations of one call.
using ForEach =
    absl::FunctionRef<void(int64_t count, int64_t work, absl::FunctionRef<void(int64_t)> fn)>;

// Inputs and outputs are C-contiguous and in host memory. Uses neither the stream nor the scratch
// memory of `args`.
absl::Status Run(const KernelArgs& args, ForEach for_each);

// The operators that Run() knows.
absl::Span<const absl::string_view> Operators();

}  // namespace chx::lapack

#endif  // CHX_SERVER_LAPACK_DECOMPOSITIONS_H_
