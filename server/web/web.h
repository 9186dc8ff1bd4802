// The web process: HTTP for Prometheus and browsers, outside of the process that holds everybody's
// arrays.
#ifndef CHX_SERVER_WEB_WEB_H_
#define CHX_SERVER_WEB_WEB_H_

namespace chx::server {

// By which a program is told to be one.
inline constexpr char kWebArgument[] = "--web-process";

// Serves the listeners that the daemon hands over until the daemon is gone; returns the process's
// exit status. It can ask the daemon for what it shows, and change nothing.
int RunWeb();

}  // namespace chx::server

#endif  // CHX_SERVER_WEB_WEB_H_
