// Elementwise calls that a device computes as one kernel (KernelTable::SetFused).
#ifndef CHX_SERVER_ENGINE_FUSED_CALLS_H_
#define CHX_SERVER_ENGINE_FUSED_CALLS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ops/attr.h"
#include "ops/op_def.h"

namespace chx::server {

// One of them. The kernel's inputs are float32 scalars and arrays of the outputs' shape; arrays are
// dense, or repeat a dense array of their last dimensions (strides of 0 before them). Its outputs
// are dense, and an input may be one of them.
struct FusedCall {
  OpId op = 0;
  // Its inputs: one of the kernel's, or ~n for the result of call n. -1 is call 0's, so there is
  // another number for no second input.
  static constexpr int64_t kNone = INT64_MIN;
  int64_t a = 0;
  int64_t b = kNone;
  int64_t output = kNone;  // of the kernel's, where the result is stored
};

inline constexpr size_t kMaxFusedCalls = 12;
inline constexpr size_t kMaxFusedOperands = 12;  // inputs, and outputs

// As the kernel's only attribute, which is a list of numbers: four for each call.
inline void AppendFusedCall(const FusedCall& call, Ints* numbers) {
  for (const int64_t number : {static_cast<int64_t>(call.op), call.a, call.b, call.output}) {
    numbers->push_back(number);
  }
}
inline size_t NumFusedCalls(const Ints& numbers) { return numbers.size() / 4; }
inline FusedCall FusedCallAt(const Ints& numbers, size_t i) {
  return {static_cast<OpId>(numbers[4 * i]), numbers[4 * i + 1], numbers[4 * i + 2],
          numbers[4 * i + 3]};
}

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_FUSED_CALLS_H_
