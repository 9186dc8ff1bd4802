// Reading and writing the elements of arrays in loops.
// Included only by files that are compiled once per instruction set (parts.h).
#ifndef CHX_SERVER_NATIVE_LOOPS_ELEMENTS_H_
#define CHX_SERVER_NATIVE_LOOPS_ELEMENTS_H_

#include <cstdint>

#include "server/kernels/types.h"

namespace chx::server::native::CHX_ISA {

// Promises that iterations are independent: an output is exactly an input or apart from it. Without
// the promise the compiler's own overlap check would send in-place calls to scalar code.
#if defined(__clang__)
#define CHX_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CHX_INDEPENDENT _Pragma("GCC ivdep")
#endif
// Of a loop over some lanes: GCC would first write all of its steps out, and find no vectors then.
#if defined(__clang__)
#define CHX_LANES
#else
#define CHX_LANES _Pragma("GCC unroll 1")
#endif

using kernels::Compute;
using kernels::Load;
using kernels::Store;

template <typename T>
CHX_HD const T& At(const char* data, int64_t offset) {
  return *reinterpret_cast<const T*>(data + offset);
}
template <typename T>
CHX_HD T& At(char* data, int64_t offset) {
  return *reinterpret_cast<T*>(data + offset);
}

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_ELEMENTS_H_
