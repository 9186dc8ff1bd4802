#include "server/native/loops/loops.h"

#include <cpuid.h>

#include "absl/container/inlined_vector.h"

namespace chx::server::native {

// Each is in loop_set.cc, compiled for the instruction set.
namespace baseline {
const LoopSet& GetLoopSet();
}  // namespace baseline
namespace avx2 {
const LoopSet& GetLoopSet();
}  // namespace avx2
namespace avx512 {
const LoopSet& GetLoopSet();
}  // namespace avx512

namespace {

using LoopSetFunction = const LoopSet& (*)();

#ifndef CHX_BASELINE_ONLY
// clang 14's __builtin_cpu_supports does not know this name.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// From the slowest to the fastest.
absl::InlinedVector<LoopSetFunction, 3> Supported() {
  absl::InlinedVector<LoopSetFunction, 3> functions = {baseline::GetLoopSet};
#ifndef CHX_BASELINE_ONLY
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !HasF16c()) {
    return functions;
  }
  functions.push_back(avx2::GetLoopSet);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    functions.push_back(avx512::GetLoopSet);
  }
#endif
  return functions;
}

}  // namespace

std::vector<const LoopSet*> SupportedLoops() {
  std::vector<const LoopSet*> sets;
  for (const LoopSetFunction function : Supported()) sets.push_back(&function());
  return sets;
}

const LoopSet& Loops() {
  static const LoopSet& loops = Supported().back()();
  return loops;
}

}  // namespace chx::server::native
