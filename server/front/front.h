// The front process: what strangers on the network reach, instead of the daemon.
#ifndef CHX_SERVER_FRONT_FRONT_H_
#define CHX_SERVER_FRONT_FRONT_H_

namespace chx::server {

// By which a program is told to be one.
inline constexpr char kFrontArgument[] = "--front-process";

// Serves the listeners that the daemon hands over until the daemon is gone; returns the process's
// exit status. Holds no arrays and no sessions: its death is one more cut to its clients.
int RunFront();

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_FRONT_H_
