// What a session asks about commands of any kind. Each function is derived from the names of the
// fields (proto/command.h has the conventions), so that a new kind needs nothing here.
#ifndef CHX_SERVER_SESSION_COMMAND_TRAITS_H_
#define CHX_SERVER_SESSION_COMMAND_TRAITS_H_

#include <cstdint>
#include <type_traits>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/command.h"

namespace chx::server {

#define CHX_HAS_FIELD(field)               \
  template <typename C, typename = void>   \
  struct Has_##field : std::false_type {}; \
  template <typename C>                    \
  struct Has_##field<C, std::void_t<decltype(std::declval<const C&>().field)>> : std::true_type {}

CHX_HAS_FIELD(result);
CHX_HAS_FIELD(results);
CHX_HAS_FIELD(location);
CHX_HAS_FIELD(request_id);

#undef CHX_HAS_FIELD

// The new handles that the command binds.
template <typename C>
absl::Span<const Handle> ResultsOf(const C& command) {
  if constexpr (Has_results<C>::value) {
    return command.results;
  } else if constexpr (Has_result<C>::value) {
    return {&command.result, 1};
  } else {
    return {};
  }
}

// 0 if it has none.
template <typename C>
uint32_t LocationOf(const C& command) {
  if constexpr (Has_location<C>::value) {
    return command.location;
  } else {
    return 0;
  }
}

// Under what its answer is sent; nothing if there is none.
template <typename C>
absl::optional<uint64_t> RequestOf(const C& command) {
  if constexpr (std::is_same_v<C, command::Backward> || std::is_same_v<C, command::Grad> ||
                std::is_same_v<C, command::ReduceBackward>) {
    if (command.request_id == 0) return absl::nullopt;
    return command.request_id;
  } else if constexpr (Has_request_id<C>::value) {
    return command.request_id;
  } else {
    return absl::nullopt;
  }
}

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_COMMAND_TRAITS_H_
