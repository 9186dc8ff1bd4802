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

// Backward, for which the ranks of a group reduce the gradients of `parameters` while they compute
// them. Each of these gets the ranks' gradients, and zeros where there is none; where `delayed`,
// those of the pass before of the group, if that was of the same reducer, else zeros.
struct ReduceBackward {
  uint64_t request_id = 0;  // as Backward's
  BackpropId backprop_id = 0;
  uint16_t mode = 0;
  uint32_t location = 0;
  double loss_scale = 1.0;
  bool delayed = false;
  uint64_t reducer = 0;      // a number that the client has given to whoever reduces
  int64_t bucket_bytes = 0;  // of the arrays that one collective reduces, about
  int64_t dtype = -1;        // the Dtype that gradients are exchanged in; -1: their own
  int64_t group = 0;
  int64_t rank = 0;
  int64_t size = 0;
  int64_t reduction = 0;  // as all_reduce's
  Handles outputs;
  Handles parameters;
  CHX_COMMAND("reduce_backward", request_id, backprop_id, mode, location, loss_scale, delayed,
              reducer, bucket_bytes, dtype, group, rank, size, reduction, outputs, parameters)
};

}  // namespace chx::command

#endif  // CHX_PROTO_GROUP_COMMANDS_H_
