#include "client/copy_bulk.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace chx {
namespace {

constexpr size_t kBeyondCaches = 6 << 20;

#ifdef __SSE2__
// Whether a page is there. One that the system has yet to make is zeroed through the caches: then
// that is where it is written best.
bool IsResident(char* at) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  void* const start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) & ~(page - 1));
  return mincore(start, 1, &resident) == 0 && (resident & 1) != 0;
}

// `to` is a multiple of 16, `bytes` one of 64.
void CopyPastCaches(char* to, const char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + i);
    auto* const target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // before anybody is told
}
#endif

}  // namespace

void CopyBulk(char* to, const char* from, size_t bytes, size_t whole) {
#ifdef __SSE2__
  if (whole >= kBeyondCaches && bytes >= 4096 && IsResident(to + bytes / 2)) {
    const size_t head = -reinterpret_cast<uintptr_t>(to) & 63;
    std::memcpy(to, from, head);
    const size_t middle = (bytes - head) & ~size_t{63};
    CopyPastCaches(to + head, from + head, middle);
    std::memcpy(to + head + middle, from + head + middle, bytes - head - middle);
    return;
  }
#endif
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace chx
