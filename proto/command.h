// The commands that clients send in a session's stream: one struct per kind.
//
// Strings and data of decoded commands point into the batch they were read from. Handles, ids,
// shapes and devices are not checked here: that is the session's task. docs/protocol.md has the
// encoding, proto/command_codec.h the code.
#ifndef CHX_PROTO_COMMAND_H_
#define CHX_PROTO_COMMAND_H_

#include <cstdint>
#include <tuple>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"
#include "ops/attr.h"
#include "ops/operand.h"
#include "proto/ids.h"

namespace chx {

// An input of an operator as a command has it.
using HandleOperand = BasicOperand<Handle>;

// Whether operators are recorded in one graph.
struct ModeEntry {
  BackpropId backprop_id = 0;
  bool record = false;
};

using Handles = absl::InlinedVector<Handle, 4>;
using ModeEntries = absl::InlinedVector<ModeEntry, 2>;

namespace command {

// Names a command and lists its fields in the order of the wire; the codec, tests and generators
// of commands go through the list.
#define CHX_COMMAND(name, ...)                     \
  static constexpr absl::string_view kName = name; \
  auto Fields() { return std::tie(__VA_ARGS__); }  \
  auto Fields() const { return std::tie(__VA_ARGS__); }

// Conventions: `result` and `results` are new handles, which the command binds to arrays or to the
// error of its failure; 0 in `results`: not wanted. A command with a `request_id` is answered by a
// value or an error with that id. `location`: a number given by DefineLocation, 0: unknown.
// `mode`: a number given by DefineMode, 0: all graphs record.

// results = op(inputs; attrs).
struct ApplyOp {
  uint16_t op = 0;      // the operator's id of those agreed on when the session was opened
  uint16_t device = 0;  // for operators without array inputs
  uint16_t mode = 0;
  uint32_t location = 0;
  absl::InlinedVector<HandleOperand, 4> inputs;
  Handles results;
  Attrs attrs;
  CHX_COMMAND("apply_op", op, device, mode, location, inputs, results, attrs)
};

struct Release {
  Handles handles;
  CHX_COMMAND("release", handles)
};

struct Upload {
  Handle result = 0;
  Dtype dtype = Dtype::kFloat32;
  uint16_t device = 0;
  Ints shape;
  absl::string_view data;  // the elements in C order
  CHX_COMMAND("upload", result, dtype, device, shape, data)
};

// As Upload; the elements are in the array `stage` in shared memory, from byte `stage_offset` on.
struct UploadFrom {
  Handle result = 0;
  Dtype dtype = Dtype::kFloat32;
  uint16_t device = 0;
  Ints shape;
  Handle stage = 0;
  int64_t stage_offset = 0;
  CHX_COMMAND("upload_from", result, dtype, device, shape, stage, stage_offset)
};

// The answer holds the elements in C order.
struct Fetch {
  uint64_t request_id = 0;
  Handle handle = 0;
  CHX_COMMAND("fetch", request_id, handle)
};

// Copies bytes [begin, begin + bytes) of the elements in C order into the array `stage`, from byte
// `stage_offset` on. The answer is empty; or a SegmentOffset, where the elements lie in shared
// memory themselves and nothing was copied.
struct FetchInto {
  uint64_t request_id = 0;
  Handle handle = 0;
  Handle stage = 0;
  int64_t stage_offset = 0;
  int64_t begin = 0;
  int64_t bytes = 0;
  CHX_COMMAND("fetch_into", request_id, handle, stage, stage_offset, begin, bytes)
};

// Answered when all commands before it are done.
struct Barrier {
  uint64_t request_id = 0;
  CHX_COMMAND("barrier", request_id)
};

// Moves the array's memory to where both sides map it. The answer is a SharedBlock. What either
// side writes, the other sees.
struct ShareArray {
  uint64_t request_id = 0;
  Handle handle = 0;
  CHX_COMMAND("share_array", request_id, handle)
};

// The array's elements in C order in memory that both sides map: its own, or a copy that `result`
// is bound to. The answer is a SharedBlock.
struct ShareCopy {
  uint64_t request_id = 0;
  Handle handle = 0;
  Handle result = 0;
  CHX_COMMAND("share_copy", request_id, handle, result)
};

// A new C-contiguous array of unspecified values in memory that both sides map. The answer is a
// SharedBlock.
struct ShareNew {
  uint64_t request_id = 0;
  Dtype dtype = Dtype::kFloat32;
  uint16_t device = 0;
  Ints shape;
  Handle result = 0;
  CHX_COMMAND("share_new", request_id, dtype, device, shape, result)
};

// The memory of an array in shared memory as an array of another dtype, shape and strides. The
// answer is empty.
struct ShareAlias {
  uint64_t request_id = 0;
  Handle handle = 0;
  Dtype dtype = Dtype::kFloat32;
  Ints shape;
  Ints strides;        // bytes
  int64_t offset = 0;  // bytes from the block's start
  Handle result = 0;
  CHX_COMMAND("share_alias", request_id, handle, dtype, shape, strides, offset, result)
};

struct RequireGrad {
  Handle handle = 0;
  BackpropId backprop_id = 0;
  CHX_COMMAND("require_grad", handle, backprop_id)
};

// Adds the gradients of `outputs` to those of the leaves below. An output starts from the gradient
// that it has, else from ones.
struct Backward {
  // Not 0: the backward pass may call functions of the client. It is answered by a PassState, and
  // this is the pass's number.
  uint64_t request_id = 0;
  BackpropId backprop_id = 0;
  uint16_t mode = 0;
  uint32_t location = 0;
  bool enable_double_backprop = false;
  double loss_scale = 1.0;
  Handles outputs;
  CHX_COMMAND("backward", request_id, backprop_id, mode, location, enable_double_backprop,
              loss_scale, outputs)
};

// results = d(outputs)/d(inputs); where there is none, the result is an error value.
struct Grad {
  uint64_t request_id = 0;  // as Backward's
  BackpropId backprop_id = 0;
  uint16_t mode = 0;
  uint32_t location = 0;
  bool enable_double_backprop = false;
  bool retain_grad = false;  // arrays on the way keep their gradients, too
  double loss_scale = 1.0;
  Handles outputs;
  Handles inputs;
  Handles output_grads;  // 0: ones
  Handles results;
  CHX_COMMAND("grad", request_id, backprop_id, mode, location, enable_double_backprop, retain_grad,
              loss_scale, outputs, inputs, output_grads, results)
};

struct SetGrad {
  Handle handle = 0;
  Handle grad = 0;  // 0: clears the gradient
  BackpropId backprop_id = 0;
  CHX_COMMAND("set_grad", handle, grad, backprop_id)
};

struct GetGrad {
  Handle handle = 0;
  BackpropId backprop_id = 0;
  Handle result = 0;
  CHX_COMMAND("get_grad", handle, backprop_id, result)
};

// The client has computed `outputs`, which are in no graph yet, from `inputs` (0: none). Its
// function number `function` computes their gradients, from the inputs and outputs whose indexes
// are retained.
struct RecordFunction {
  static constexpr size_t kMaxArrays = 4096;  // of all four lists together
  uint64_t function = 0;
  uint16_t mode = 0;
  uint32_t location = 0;
  Handles inputs;
  Handles outputs;
  Ints retained_inputs;
  Ints retained_outputs;
  CHX_COMMAND("record_function", function, mode, location, inputs, outputs, retained_inputs,
              retained_outputs)
};

// Binds the arrays that a waiting pass has for the client's function, in the order of its
// PassState; 0 where there is none.
struct EnterFunction {
  uint64_t pass = 0;
  Handles results;
  CHX_COMMAND("enter_function", pass, results)
};

// Continues a pass with the gradients that the client's function has computed, in the order of
// PassState::targets; 0: none. Answered as Backward is.
struct ResumePass {
  uint64_t request_id = 0;
  uint64_t pass = 0;
  Handles grads;
  CHX_COMMAND("resume_pass", request_id, pass, grads)
};

// Ends a pass without effect.
struct AbandonPass {
  uint64_t pass = 0;
  CHX_COMMAND("abandon_pass", pass)
};

struct NewBackpropId {
  BackpropId backprop_id = 0;
  CHX_COMMAND("new_backprop_id", backprop_id)
};

struct ReleaseBackpropId {
  BackpropId backprop_id = 0;
  CHX_COMMAND("release_backprop_id", backprop_id)
};

// Forgets how the array was made.
struct Unchain {
  Handle handle = 0;
  BackpropId backprop_id = 0;
  CHX_COMMAND("unchain", handle, backprop_id)
};

// Answered by GraphStates, one for each pair of `handles`: an array, and what its gradient was
// bound to when the client last asked for it (or 0).
struct QueryGraphs {
  uint64_t request_id = 0;
  BackpropId backprop_id = 0;
  Handles handles;
  CHX_COMMAND("query_graphs", request_id, backprop_id, handles)
};

// Answered by a text about the graph below the array.
struct DumpGraph {
  uint64_t request_id = 0;
  Handle handle = 0;
  BackpropId backprop_id = 0;
  CHX_COMMAND("dump_graph", request_id, handle, backprop_id)
};

struct DefineMode {
  uint16_t mode = 0;
  bool record_by_default = false;
  ModeEntries entries;  // where it differs
  CHX_COMMAND("define_mode", mode, record_by_default, entries)
};

struct DefineLocation {
  uint32_t location = 0;
  absl::string_view text;
  CHX_COMMAND("define_location", location, text)
};

// Changes a setting (ops/settings.h).
struct Configure {
  absl::string_view name;
  Scalar value;
  CHX_COMMAND("configure", name, value)
};

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

#undef CHX_COMMAND

}  // namespace command

// A command of any kind. The kind's number on the wire is its position here, from 1: append only.
using Command = std::variant<
    command::ApplyOp, command::Release, command::Upload, command::UploadFrom, command::Fetch,
    command::FetchInto, command::Barrier, command::ShareArray, command::ShareCopy,
    command::ShareNew, command::ShareAlias, command::RequireGrad, command::Backward, command::Grad,
    command::SetGrad, command::GetGrad, command::RecordFunction, command::EnterFunction,
    command::ResumePass, command::AbandonPass, command::NewBackpropId, command::ReleaseBackpropId,
    command::Unchain, command::QueryGraphs, command::DumpGraph, command::DefineMode,
    command::DefineLocation, command::Configure, command::GrantAccess, command::OpenShared,
    command::Revoke, command::Publish, command::Lookup, command::Unpublish, command::ListNames,
    command::SaveArrays, command::QuerySaved, command::LoadSaved, command::ForgetSaved,
    command::NoteGenerator, command::BeginProgram, command::EndProgram, command::RunProgram,
    command::ReleaseProgram, command::HoldArray, command::ExplainProgram, command::PublishProgram,
    command::OpenPrograms>;
inline constexpr size_t kNumCommandKinds = std::variant_size_v<Command>;

}  // namespace chx

#endif  // CHX_PROTO_COMMAND_H_
