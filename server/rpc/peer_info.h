// Who is at the other end of a connection.
#ifndef CHX_SERVER_RPC_PEER_INFO_H_
#define CHX_SERVER_RPC_PEER_INFO_H_

#include <sys/types.h>

#include <string>

namespace chx::server {

// What the kernel and the front process vouch for; nothing of it is the peer's own word.
struct PeerInfo {
  enum Kind { kUnix, kTcp };
  Kind kind = kUnix;
  uid_t uid = 0;                // of a Unix socket's peer
  std::string address;          // of TCP's, as text, without the port
  std::string tls_subject;      // of TCP's verified certificate; empty: none
  std::string service_account;  // of the verified token that it has shown; empty: none
  std::string token_label;      // which token it has shown; empty if none was asked for
  // The daemon's own admin process: it may make administrators' calls (AdminCalls), and ask for
  // health, no more.
  bool admin = false;
  // Its web process: it may ask for metrics, status and health, no more.
  bool viewer = false;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_PEER_INFO_H_
