// The admin process: gRPC for operators (AdminService, health, reflection), outside of the process
// that holds everybody's arrays.
#ifndef CHX_SERVER_ADMIN_ADMIN_H_
#define CHX_SERVER_ADMIN_ADMIN_H_

namespace chx::server {

// By which a program is told to be one.
inline constexpr char kAdminArgument[] = "--admin-process";

// Serves the connections that the daemon hands over, until the daemon closes the socket to it;
// returns the process's exit status. Has no state: what its memory does not suffice for ends it,
// and the next connection starts another.
int RunAdmin();

}  // namespace chx::server

#endif  // CHX_SERVER_ADMIN_ADMIN_H_
