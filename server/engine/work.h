// How much an operator has to do, known from shapes before it starts.
#ifndef CHX_SERVER_ENGINE_WORK_H_
#define CHX_SERVER_ENGINE_WORK_H_

#include "absl/status/status.h"
#include "ops/infer.h"

namespace chx::server {

// Elements that are looked at, or multiplications with an addition each, of one operator: days of a
// CPU. Views of memory that is not there (strides of 0) make it possible to ask for 2^62.
inline constexpr double kMaxWork = int64_t{1} << 50;
// Multiplications of the decomposition of one matrix by LAPACK, whose steps are longer the larger
// the matrix is, and which can be stopped between them only.
inline constexpr double kMaxDecompositionWork = int64_t{1} << 43;

// A kValue error if the operator is more work than that.
absl::Status CheckWork(const OpCall<SpecOperand>& call, const InferResult& inferred);

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_WORK_H_
