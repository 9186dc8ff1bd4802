// Products of bfloat16 matrices by oneDNN, on processors that have instructions for them
// (AVX512-BF16, AMX). Decision 0041.
#ifndef CHX_SERVER_NATIVE_VENDOR_DNNL_BFLOAT16_H_
#define CHX_SERVER_NATIVE_VENDOR_DNNL_BFLOAT16_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/engine/kernel.h"
#include "server/native/vendor/gemm.h"

namespace chx::server::native {

// `count` products c = a b, plus `bias` (null, or an element for each column), of matrices of
// bfloat16 of one shape, summed in float32 and rounded once. `a_offsets` and `b_offsets`, in bytes,
// say where the i-th ones start; the results, dense, follow one another at `c`.
//
// False, with nothing done, if this processor, this shape or oneDNN does not do: too little work to
// be worth it, matrices that are not BLAS-ready (gemm.h). Which one it is, and the results, depend
// on shapes and strides only, not on threads. Subnormal numbers count as zero.
absl::StatusOr<bool> DnnlBfloat16Products(const KernelArgs& args, int64_t count, const Matrix& a,
                                          const int64_t* a_offsets, const Matrix& b,
                                          const int64_t* b_offsets, const char* bias, char* c);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_DNNL_BFLOAT16_H_
