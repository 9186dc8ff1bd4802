// Transposes small matrices in registers.
#ifndef CHX_SERVER_NATIVE_LOOPS_TRANSPOSE_H_
#define CHX_SERVER_NATIVE_LOOPS_TRANSPOSE_H_

#include <cstdint>

namespace chx::server::native {

// A matrix of `lines` lines of `length` dense elements of 1, 2, 4 or 8 bytes, whose lines are
// `stride` bytes apart, becomes one of `length` lines of `lines` dense elements, whose lines are
// `to_stride` bytes apart. They do not overlap.
void TransposeTile(int64_t item_size, const char* from, int64_t stride, int64_t lines,
                   int64_t length, char* to, int64_t to_stride);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_LOOPS_TRANSPOSE_H_
