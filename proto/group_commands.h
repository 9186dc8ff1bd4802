// Commands on process groups, in which operators exchange arrays between sessions.
#ifndef CHX_PROTO_GROUP_COMMANDS_H_
#define CHX_PROTO_GROUP_COMMANDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/command_fields.h"
#include "proto/ids.h"

namespace chx::command {

// Makes the session a rank of a group, which collectives call by the number `group`, a new one.
// Waits until all ranks have come: sessions of one tenant, with one name and secret. The answer is
// empty.
struct JoinGroup {
  uint64_t request_id = 0;
  int64_t group = 0;
  int64_t rank = 0;
  int64_t size = 0;
  absl::string_view name;
  absl::string_view secret;
  absl::string_view address;  // of the daemon where ranks of several daemons meet; "": of one
  CHX_COMMAND("join_group", request_id, group, rank, size, name, secret, address)
};

// The session is no rank of the group any more, and the other ranks' collectives fail.
struct LeaveGroup {
  int64_t group = 0;
  CHX_COMMAND("leave_group", group)
};

}  // namespace chx::command

#endif  // CHX_PROTO_GROUP_COMMANDS_H_
