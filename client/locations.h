// Lines of the user's program, for error messages.
//
// A line ("train.py:12") is interned once and has a number that is the same for all sessions of the
// process. The thread that calls an operator says which line it is at. Thread-safe.
#ifndef CHX_CLIENT_LOCATIONS_H_
#define CHX_CLIENT_LOCATIONS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace chx {

// The number of a line, which is never 0.
uint32_t InternLocation(absl::string_view text);
// The line of a number that InternLocation returned.
std::string LocationText(uint32_t location);

namespace internal {
inline thread_local uint32_t current_location = 0;
}  // namespace internal

// The line that the calling thread's next calls are attributed to; 0: none.
inline void SetLocation(uint32_t location) { internal::current_location = location; }
inline uint32_t CurrentLocation() { return internal::current_location; }

}  // namespace chx

#endif  // CHX_CLIENT_LOCATIONS_H_
