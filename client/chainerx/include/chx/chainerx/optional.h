// Optional arguments and results.
#ifndef CHX_CHAINERX_OPTIONAL_H_
#define CHX_CHAINERX_OPTIONAL_H_

#include <optional>
#include <type_traits>

// Programs for ChainerX write absl::optional and absl::nullopt, which need not be those of std. If
// Abseil is not there, no program can.
#if __has_include(<absl/types/optional.h>)
#include <absl/types/optional.h>
#define CHX_CHAINERX_ABSEIL 1
#endif

namespace chainerx {

// A std::optional that absl::optional and absl::nullopt convert to, and that converts to the
// former. It is the same with and without Abseil, but for these conversions.
template <typename T>
class Optional : public std::optional<T> {
 public:
  using std::optional<T>::optional;
  Optional() = default;
  Optional(const std::optional<T>& other) : std::optional<T>(other) {}  // NOLINT
#ifdef CHX_CHAINERX_ABSEIL
  template <typename None, std::enable_if_t<std::is_same_v<None, absl::nullopt_t> &&
                                                !std::is_same_v<None, std::nullopt_t>,
                                            int> = 0>
  Optional(None) {}  // NOLINT
  template <typename U, std::enable_if_t<!std::is_same_v<absl::optional<U>, std::optional<U>> &&
                                             std::is_convertible_v<const U&, T>,
                                         int> = 0>
  Optional(const absl::optional<U>& other) {  // NOLINT
    if (other.has_value()) this->emplace(*other);
  }
  template <typename U, std::enable_if_t<std::is_same_v<U, T> &&
                                             !std::is_same_v<absl::optional<U>, std::optional<U>>,
                                         int> = 0>
  operator absl::optional<U>() const {  // NOLINT
    if (!this->has_value()) return absl::nullopt;
    return **this;
  }
#endif
};

}  // namespace chainerx

#endif  // CHX_CHAINERX_OPTIONAL_H_
