// Kernels of ops/defs/decompositions.cc over host memory, by LAPACK. Both backends use them: small
// matrices are decomposed faster by a CPU.
#ifndef CHX_SERVER_LAPACK_DECOMPOSITIONS_H_
#define CHX_SERVER_LAPACK_DECOMPOSITIONS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/engine/kernel.h"

namespace chx::server::lapack {

// Calls fn(i) for each i in [0, count), on any threads; `work` is about the operations of one call.
using ForEach =
    absl::FunctionRef<void(int64_t count, int64_t work, absl::FunctionRef<void(int64_t)> fn)>;

// Inputs and outputs are C-contiguous and in host memory. Uses neither the stream nor the scratch
// memory of `args`.
absl::Status Run(const KernelArgs& args, ForEach for_each);

// The operators that Run() knows.
absl::Span<const absl::string_view> Operators();

// The error for LAPACK's code for matrix i of `count`: "expects `meaning`".
absl::Status Failure(const KernelArgs& args, const char* meaning, int code, int64_t i,
                     int64_t count);
// Which elements of each matrix must be finite, as LAPACK's iterations otherwise may not end or may
// write where they must not. The other operators' results are NaN then, or errors of their own.
enum class Finite { kNone, kAll, kLower, kUpper };
Finite MustBeFinite(const KernelArgs& args);
// The error for `value` in matrix i of `count`.
absl::Status NotFinite(const KernelArgs& args, double value, int64_t i, int64_t count);
// Which of the matrices whose leading axes are `own` belongs to the i-th of `count`, whose leading
// axes `batch` they broadcast to.
std::vector<int64_t> Sources(absl::Span<const int64_t> batch, absl::Span<const int64_t> own,
                             int64_t count);
// What its codes mean, by operator.
inline constexpr char kNotSingular[] = "matrices that are not singular";
inline constexpr char kPositiveDefinite[] = "positive definite matrices";
inline constexpr char kConverge[] = "matrices that converge";

}  // namespace chx::server::lapack

#endif  // CHX_SERVER_LAPACK_DECOMPOSITIONS_H_
