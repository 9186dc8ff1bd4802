// Commands on arrays that other sessions, or later clients, find: by capability or by name.
#ifndef CHX_PROTO_NAME_COMMANDS_H_
#define CHX_PROTO_NAME_COMMANDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/command_fields.h"
#include "proto/ids.h"

namespace chx::command {

// Lets whoever has the answer, a capability, open the array. Its memory moves to where sessions
// share it.
struct GrantAccess {
  uint64_t request_id = 0;
  Handle handle = 0;
  bool write = false;
  bool keep = false;         // it outlives this session
  int64_t expires_ms = 0;    // from now; 0: never
  absl::string_view tenant;  // who may open it; "*": whoever has it; "": this session's tenant
  CHX_COMMAND("grant_access", request_id, handle, write, keep, expires_ms, tenant)
};

// The array behind a capability. The answer is a spec (proto/shared_names.h).
struct OpenShared {
  uint64_t request_id = 0;
  absl::string_view capability;
  bool copy = false;  // the first write to it makes a copy
  Handle result = 0;
  CHX_COMMAND("open_shared", request_id, capability, copy, result)
};

// Nobody can use what was opened by the capability any more. The answer is empty.
struct Revoke {
  uint64_t request_id = 0;
  absl::string_view capability;
  CHX_COMMAND("revoke", request_id, capability)
};

// Arrays under a name of this session's tenant, for reading. The answer is the version's number, a
// word.
struct Publish {
  uint64_t request_id = 0;
  absl::string_view name;
  absl::string_view paths;      // one line for each handle
  absl::string_view structure;  // the client's
  absl::string_view readers;    // other tenants that may open it, in lines; "*": all
  bool keep = false;            // it outlives this session
  Handles handles;
  CHX_COMMAND("publish", request_id, name, paths, structure, readers, keep, handles)
};

// What is published under a name. The answer is a SharedTree. With `results`, one for each array,
// they are bound to the arrays.
struct Lookup {
  uint64_t request_id = 0;
  absl::string_view tenant;  // "": this session's
  absl::string_view name;
  uint64_t version = 0;  // 0: the newest
  bool copy = false;     // as OpenShared's
  Handles results;
  CHX_COMMAND("lookup", request_id, tenant, name, version, copy, results)
};

// Takes back what is published; version 0: all of the name. The answer is empty.
struct Unpublish {
  uint64_t request_id = 0;
  absl::string_view name;
  uint64_t version = 0;
  CHX_COMMAND("unpublish", request_id, name, version)
};

// The names that begin so and that this session may look up. The answer is a list of SharedNames.
struct ListNames {
  uint64_t request_id = 0;
  absl::string_view prefix;
  CHX_COMMAND("list_names", request_id, prefix)
};

// Keeps arrays under a name for as long as the session lives, whatever becomes of their handles. In
// a named session another process finds them there. `tree` says to clients how they belong
// together. The answer is a count of the arrays that were computed: they are kept as values,
// without their graph (proto/saved_arrays.h).
struct SaveArrays {
  uint64_t request_id = 0;
  absl::string_view name;
  absl::string_view tree;
  Handles handles;
  CHX_COMMAND("save_arrays", request_id, name, tree, handles)
};

// Answered by what is under the name; without a name, by all names.
struct QuerySaved {
  uint64_t request_id = 0;
  absl::string_view name;
  CHX_COMMAND("query_saved", request_id, name)
};

// Binds the arrays under a name. Expects the version that QuerySaved has given.
struct LoadSaved {
  uint64_t request_id = 0;
  absl::string_view name;
  uint64_t version = 0;
  Handles results;
  CHX_COMMAND("load_saved", request_id, name, version, results)
};

struct ForgetSaved {
  uint64_t request_id = 0;
  absl::string_view name;
  CHX_COMMAND("forget_saved", request_id, name)
};

// Where the client's random numbers are: for the client that takes the session up.
struct NoteGenerator {
  absl::string_view state;
  CHX_COMMAND("note_generator", state)
};

}  // namespace chx::command

#endif  // CHX_PROTO_NAME_COMMANDS_H_
