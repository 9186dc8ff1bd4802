#include "server/native/loops/transpose.h"

#include <cstring>
#include <utility>

#include "server/kernels/dispatch.h"

namespace chx::server::native {
namespace {

constexpr int kVectorBytes = 16;  // every x86-64 processor interleaves so many in one instruction

template <typename T>
struct Square {
  static constexpr int kSide = kVectorBytes / sizeof(T);
  typedef T Vector __attribute__((vector_size(kVectorBytes)));

  // From the lower or upper halves, elements of a and b in turn.
  template <int first, size_t... i>
  static Vector Interleave(Vector a, Vector b, std::index_sequence<i...> /*places*/) {
    return __builtin_shufflevector(a, b, (first + static_cast<int>(i) / 2 + (i % 2) * kSide)...);
  }

  // Each round doubles how many elements of a column lie side by side.
  static void Transpose(const char* from, int64_t stride, char* to, int64_t to_stride) {
    constexpr auto kPlaces = std::make_index_sequence<kSide>();
    Vector lines[kSide];
    for (int i = 0; i < kSide; ++i) std::memcpy(&lines[i], from + i * stride, kVectorBytes);
    for (int side = kSide; side > 1; side /= 2) {
      Vector mixed[kSide];
      for (int i = 0; i < kSide / 2; ++i) {
        mixed[2 * i] = Interleave<0>(lines[i], lines[i + kSide / 2], kPlaces);
        mixed[2 * i + 1] = Interleave<kSide / 2>(lines[i], lines[i + kSide / 2], kPlaces);
      }
      std::memcpy(lines, mixed, sizeof(lines));
    }
    for (int i = 0; i < kSide; ++i) std::memcpy(to + i * to_stride, &lines[i], kVectorBytes);
  }
};

template <typename T>
void Tile(const char* from, int64_t stride, int64_t lines, int64_t length, char* to,
          int64_t to_stride) {
  constexpr int64_t kSide = Square<T>::kSide;
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  // A few lines at once, to their ends: many lines may share a set of the cache.
  for (int64_t line = 0; line < lines; line += kSide) {
    for (int64_t i = 0; i < length; i += kSide) {
      const char* const source = from + line * stride + i * kItem;
      char* const target = to + i * to_stride + line * kItem;
      if (line + kSide <= lines && i + kSide <= length) {
        Square<T>::Transpose(source, stride, target, to_stride);
        continue;
      }
      for (int64_t j = 0; j < kSide && line + j < lines; ++j) {
        for (int64_t k = 0; k < kSide && i + k < length; ++k) {
          std::memcpy(target + k * to_stride + j * kItem, source + j * stride + k * kItem, kItem);
        }
      }
    }
  }
}

}  // namespace

void TransposeTile(int64_t item_size, const char* from, int64_t stride, int64_t lines,
                   int64_t length, char* to, int64_t to_stride) {
  kernels::VisitItemSize(item_size, [&](auto tag) {
    Tile<typename decltype(tag)::Type>(from, stride, lines, length, to, to_stride);
  });
}

}  // namespace chx::server::native
