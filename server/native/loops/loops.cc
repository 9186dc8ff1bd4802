#include "server/native/loops.h"

namespace chx::server::native {
namespace {

const LoopSet& Choose() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return LoopsAvx512();
  }
  if (__builtin_cpu_supports("avx2")) return LoopsAvx2();
  return LoopsBaseline();
}

}  // namespace

const LoopSet& Loops() {
  static const LoopSet& loops = Choose();
  return loops;
}

}  // namespace chx::server::native
