// How serial loops stop when their command is stopped.
#ifndef CHX_SERVER_NATIVE_RUNTIME_STOPS_H_
#define CHX_SERVER_NATIVE_RUNTIME_STOPS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "server/engine/stop_requested.h"

namespace chx::server::native {

// Elements of work, at most 10 ns each, between two checks of the stop token.
inline constexpr int64_t kStopElements = 256 << 10;

// Counts the work of a loop whose steps differ in length. Used by one thread.
class StopWatch {
 public:
  // Whether to stop, after `elements` more elements of work. Stays true once it is.
  bool After(int64_t elements) {
    left_ -= elements;
    if (left_ > 0) return false;
    if (StopRequested()) return true;
    left_ = kStopElements;
    return false;
  }

 private:
  int64_t left_ = kStopElements;
};

// Calls fn(begin, end) for pieces of [0, n), in order. Returns false if it stopped early; fn was
// not called for the rest.
template <typename Fn>
bool InPieces(int64_t n, int64_t piece, Fn&& fn) {
  for (int64_t begin = 0; begin < n; begin += piece) {
    if (begin > 0 && StopRequested()) return false;
    fn(begin, n - begin < piece ? n : begin + piece);
  }
  return true;
}
template <typename Fn>
bool InPieces(int64_t n, Fn&& fn) {
  return InPieces(n, kStopElements, static_cast<Fn&&>(fn));
}

// memset and memcpy of any size, which can be stopped.
inline void FillZero(void* to, int64_t bytes) {
  InPieces(bytes, 4 * kStopElements, [to](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(to) + begin, 0, static_cast<size_t>(end - begin));
  });
}
inline void CopyBytes(void* to, const void* from, int64_t bytes) {
  InPieces(bytes, 4 * kStopElements, [to, from](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_RUNTIME_STOPS_H_
