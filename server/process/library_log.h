// What libraries write to standard error by themselves.
#ifndef CHX_SERVER_PROCESS_LIBRARY_LOG_H_
#define CHX_SERVER_PROCESS_LIBRARY_LOG_H_

#include "absl/strings/string_view.h"

namespace chx::server {

// Makes protobuf, and what logs by Abseil as newer gRPC does, write to our log. protobuf of Debian
// 12 is silenced: each bad string that a client sends would be a line.
void RouteLibraryLogs();

// One of their lines, which a client may have caused: limited, and an error of theirs is none of
// the daemon's.
void LogOfLibrary(bool error, absl::string_view text);

}  // namespace chx::server

#endif  // CHX_SERVER_PROCESS_LIBRARY_LOG_H_
