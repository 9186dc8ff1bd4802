#include "server/native/vendor/dnnl_gemm.h"

#include <algorithm>

#include "server/native/vendor/dnnl_library.h"

namespace chx::server::native {
namespace {

// Measured with one thread of a Zen 4 (AVX-512), oneDNN 2.6 against OpenBLAS 0.3.21, 50 shapes in
// each layout. Above: 2 to 60 % less time; elsewhere up to 2.5 times as long.
constexpr int64_t kMinWork = 512 << 10;  // multiplications
constexpr int64_t kMinColumns = 64;      // of b
constexpr int64_t kMinColumnsTransposed = 128;
// Without AVX-512 (one thread of a Zen 3, 43 shapes): 0.95 to 2 times OpenBLAS's time where rows
// are a multiple of so many floats apart, 1.2 in the median; elsewhere 0.7 to 1.06 times.
constexpr int64_t kAliasedTransposed = 256;  // those of a transposed a
constexpr int64_t kAliased = 512;            // those of b
// Its machine code has 32 bits for offsets.
constexpr int64_t kMaxStride = 1 << 20;

}  // namespace

bool DnnlGemmIsFaster(const DnnlGemmCall& call) {
  if (call.transpose_a && call.transpose_b) return false;
  if (call.n < (call.transpose_b ? kMinColumnsTransposed : kMinColumns)) return false;
  if (std::max({call.m, call.n, call.k, call.lda, call.ldb, call.ldc}) > kMaxStride) return false;
  static const bool avx512 = __builtin_cpu_supports("avx512f") != 0;
  if (!avx512 && call.transpose_a && call.lda % kAliasedTransposed == 0) return false;
  if (!avx512 && !call.transpose_b && call.ldb % kAliased == 0) return false;
  // A product of three numbers up to 2^20 fits.
  return call.m * call.n * call.k >= kMinWork;
}

bool DnnlGemm(const DnnlGemmCall& call) {
  const DnnlLibrary* const library = Dnnl();
  return library != nullptr &&
         library->dnnl_sgemm(call.transpose_a ? 'T' : 'N', call.transpose_b ? 'T' : 'N', call.m,
                             call.n, call.k, 1.0f, call.a, call.lda, call.b, call.ldb, call.beta,
                             call.c, call.ldc) == dnnl_success;
}

}  // namespace chx::server::native
