// Commands on recorded programs.
#ifndef CHX_PROTO_PROGRAM_COMMANDS_H_
#define CHX_PROTO_PROGRAM_COMMANDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "ops/array_spec.h"
#include "proto/command_fields.h"
#include "proto/ids.h"

namespace chx::command {

// The commands from here to EndProgram run as ever, and are kept as a program of that number.
// `arguments`: the arrays that are others in each run of it. Commands that give the client values,
// or wait for it, cannot be kept.
struct BeginProgram {
  uint64_t program = 0;
  Handles arguments;
  CHX_COMMAND("begin_program", program, arguments)
};

// `outputs`: the arrays that a run gives. `slots`: pairs of numbers, the operator among those of
// the program, from 0, and the attribute of it that has another value in each run. The answer is
// empty, or a text that says why runs are not planned; or an error, and there is no such program.
struct EndProgram {
  uint64_t request_id = 0;
  uint64_t program = 0;
  Handles outputs;
  Ints slots;
  CHX_COMMAND("end_program", request_id, program, outputs, slots)
};

// Does what the program's commands do, `times` times: arrays that they write are written, and
// gradients are left where they leave them. `results` (0: not wanted) are the outputs of the last
// time, and in no graph. `values`: of the slots, one time after the other; a float's bits.
// `times` 0: once, and the results are in the graphs in which the commands make them.
struct RunProgram {
  uint64_t program = 0;
  uint32_t location = 0;
  int64_t times = 1;
  Ints values;
  Handles arguments;
  Handles results;
  CHX_COMMAND("run_program", program, location, times, values, arguments, results)
};

// An array that commands since BeginProgram have made is the program's from here on: each run finds
// it as the one before has left it.
struct HoldArray {
  Handle handle = 0;
  CHX_COMMAND("hold_array", handle)
};

// Forgets a program; of one that is being recorded, what was kept.
struct ReleaseProgram {
  uint64_t program = 0;
  CHX_COMMAND("release_program", program)
};

// Asks for a text that says what runs of a program do. `measure`: the time of each part of runs
// from now on is measured, for later texts.
struct ExplainProgram {
  uint64_t request_id = 0;
  uint64_t program = 0;
  bool measure = false;
  CHX_COMMAND("explain_program", request_id, program, measure)
};

// Programs of this session under a name of its tenant: others run them in their own sessions. The
// answer is the version's number, a word; or an error: one of them writes to what it captures, or
// has numbers that vary.
struct PublishProgram {
  uint64_t request_id = 0;
  absl::string_view name;
  absl::string_view structure;  // the client's
  absl::string_view readers;    // as Publish's
  bool keep = false;
  Ints programs;
  CHX_COMMAND("publish_program", request_id, name, structure, readers, keep, programs)
};

// Has the programs under a name, and shared arrays that they capture, as programs of these new
// numbers. Lookup says how many there are. The answer is a SharedTree.
struct OpenPrograms {
  uint64_t request_id = 0;
  absl::string_view tenant;  // as Lookup's
  absl::string_view name;
  uint64_t version = 0;
  Ints programs;
  CHX_COMMAND("open_programs", request_id, tenant, name, version, programs)
};

}  // namespace chx::command

#endif  // CHX_PROTO_PROGRAM_COMMANDS_H_
