// Text of clients, for logs, listings and events.
#ifndef CHX_SERVER_LOG_PRINTABLE_H_
#define CHX_SERVER_LOG_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace chx::server {

// The text as UTF-8 without control characters: those, and bytes that are no UTF-8, become \xNN,
// and a backslash two. So a terminal or a log shows a line as one, and protobuf takes it as a
// string. Directions and other invisible characters that could disguise text (U+202A to U+202E,
// U+2066 to U+2069, U+200B to U+200F, U+2028, U+2029, U+FEFF) count as control characters.
std::string Printable(absl::string_view text);

// The same, with backslashes and line feeds left as they are: for messages, which quote.
std::string PrintableLines(absl::string_view text);

}  // namespace chx::server

#endif  // CHX_SERVER_LOG_PRINTABLE_H_
