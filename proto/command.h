// The compact encoding of commands: records packed back to back, each a multiple of 8 bytes.
//
// A record is a header {u32 size, u8 kind, u8 flags, u16 op} followed by 8-byte words; size counts
// the header. Little-endian, as every machine that chxd runs on. The same records travel over gRPC
// and, later, over a shared-memory ring. One encoder (CommandWriter) and one decoder
// (CommandReader), which trusts nothing and is fuzzed.
#ifndef CHX_PROTO_COMMAND_H_
#define CHX_PROTO_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/attr.h"

namespace chx {

// Client-chosen, never 0, never used twice in a session.
using Handle = uint64_t;
// 0 is the default graph; others are made by kNewBackpropId.
using BackpropId = uint32_t;

// Append only.
enum class CommandKind : uint8_t {
  kApplyOp = 1,         // outputs = op(inputs; attrs)
  kRelease = 2,         // handles
  kUpload = 3,          // handle, dtype, shape, data
  kFetch = 4,           // request_id, handle
  kBarrier = 5,         // request_id: answered when all before it is done
  kRequireGrad = 6,     // handle, backprop_id
  kBackward = 7,        // handles: outputs to start from; their grads are ones unless set
  kGrad = 8,            // outputs = d(inputs)/d(operands), see Command
  kSetGrad = 9,         // handle, operand (0: clear), backprop_id
  kGetGrad = 10,        // outputs[0] = grad of handle; an error value if there is none
  kNewBackpropId = 11,  // backprop_id
  kReleaseBackpropId = 12,
  kDefineMode = 13,      // mode, flags: default on/off; per backprop id on/off
  kDefineLocation = 14,  // location, text
  kUnchain = 15,         // handle, backprop_id: forgets how the array was made
  kGraphState = 16,      // request_id, handles in pairs: see GraphState
  kDumpGraph = 17,       // request_id, handle, backprop_id: a text about the graph below
  kRecordFunction = 18,  // the client made `handles` of `operands`, see Command
  kEnterFunction = 19,   // handle: a walk; outputs = what its WalkState lists as present
  kResumeWalk = 20,      // request_id, handle: a walk, operands: the gradients that it waits for
  kAbandonWalk = 21,     // handle: a walk, which ends without effect
  kConfigure = 22,       // data: the name of a setting (ops/settings.h); operands[0]: its value
  // Through a contiguous array in memory that both sides map: operands[0], from byte operands[1]
  // on.
  kUploadFrom = 23,  // handle, dtype, shape: the elements are there
  kFetchInto = 24,   // request_id, handle: bytes [operands[2], + operands[3]) of the elements in C
                     // order are to be there, unless the answer is a SharedPlace
  kShare = 25,       // request_id, flags: a ShareAction. The answer is a SharedBlock
};
constexpr CommandKind kLastCommandKind = CommandKind::kShare;

// Arrays in memory that both sides map.
enum class ShareAction : uint8_t {
  kExport = 0,    // handle: the array's memory itself: what either side writes, the other sees
  kRead = 1,      // handle: the elements in C order, perhaps of a copy under outputs[0]
  kAllocate = 2,  // dtype, device, shape: a C-contiguous array of unspecified values
  kAlias = 3,     // handle: its memory as an array of dtype; shape: its dims, then as many strides,
                  // then the offset from the block's start, in bytes. The answer is empty
                  // The last two bind outputs[0].
};

enum class OperandKind : uint8_t { kAbsent = 0, kArray = 1, kBool = 2, kInt = 3, kFloat = 4 };

struct CommandOperand {
  OperandKind kind = OperandKind::kAbsent;
  Handle handle = 0;  // kArray
  Scalar scalar;      // the others

  CommandOperand() = default;
  explicit CommandOperand(Handle h) : kind(OperandKind::kArray), handle(h) {}
  explicit CommandOperand(Scalar s)
      : kind(static_cast<OperandKind>(static_cast<int>(s.kind()) + 2)), scalar(s) {}
};

// One command, decoded. Which fields count is said at each kind; strings and data point into the
// batch. Reused from record to record, so that decoding does not allocate.
struct Command {
  static constexpr uint8_t kEnableDoubleBackprop = 1;  // flags of kBackward and kGrad
  static constexpr uint8_t kHasLossScale = 2;
  static constexpr uint8_t kRetainGrad = 4;  // kGrad: arrays on the way keep their gradients too
  // kBackward, kGrad: answered by a WalkState, as the graph may have functions of the client in it.
  // The request's id is then the walk's number.
  static constexpr uint8_t kMayCall = 8;
  static constexpr uint8_t kRecordByDefault = 1;  // flag of kDefineMode

  CommandKind kind = CommandKind::kRelease;
  uint8_t flags = 0;
  uint16_t op = 0;        // wire id
  uint16_t device = 0;    // kApplyOp without array inputs, kUpload, kUploadFrom, kShare
  uint16_t mode = 0;      // kApplyOp: which graphs record; 0 = all
  uint32_t location = 0;  // kApplyOp, kBackward, kGrad; 0 = unknown
  Handle handle = 0;
  uint64_t request_id = 0;
  BackpropId backprop_id = 0;
  double loss_scale = 1.0;  // kBackward, kGrad with kHasLossScale
  // kApplyOp: the inputs. kGrad: outputs' grads (absent = ones). kSetGrad: one. kRecordFunction:
  // the inputs, arrays or absent. kResumeWalk: arrays or absent, in the order of
  // WalkState::targets.
  absl::InlinedVector<CommandOperand, 4> operands;
  // kApplyOp, kGrad, kGetGrad, kShare: what the results are bound to (kGrad: 0 for unwanted).
  absl::InlinedVector<Handle, 4> outputs;
  // kRelease, kBackward; kGrad: outputs then inputs, `num_outputs` of the former. kGraphState: an
  // array, then the handle that its gradient in backprop_id had when it was last seen (or 0).
  // kRecordFunction: the outputs (0: none), arrays that are in no graph yet.
  absl::InlinedVector<Handle, 8> handles;
  uint32_t num_outputs = 0;
  Attrs attrs;
  Dtype dtype = Dtype::kFloat32;  // kUpload, kUploadFrom, kShare
  // kUpload, kUploadFrom, kShare: not yet checked. kRecordFunction: how many inputs its gradient
  // needs, which ones, and which outputs.
  Ints shape;
  absl::string_view data;  // kUpload: elements in C order; kDefineLocation, kConfigure: text
  // kDefineMode
  struct ModeEntry {
    BackpropId backprop_id;
    bool record;
  };
  absl::InlinedVector<ModeEntry, 2> mode_entries;
};

// Whether a value or an error with the request's id comes back.
inline bool IsAnswered(const Command& command) {
  switch (command.kind) {
    case CommandKind::kFetch:
    case CommandKind::kFetchInto:
    case CommandKind::kBarrier:
    case CommandKind::kShare:
    case CommandKind::kGraphState:
    case CommandKind::kDumpGraph:
    case CommandKind::kResumeWalk:
      return true;
    case CommandKind::kBackward:
    case CommandKind::kGrad:
      return (command.flags & Command::kMayCall) != 0;
    default:
      return false;
  }
}

// The answer to kGraphState, for one array: what a client cannot know without the values' history.
struct GraphState {
  enum class Value : uint8_t {
    kArray = 0,
    kError = 1,
    kNoGradient = 2,  // a result of kGrad on which no output depends
  };
  Value value = Value::kArray;
  bool has_grad = false;                      // in the command's graph
  bool same_grad = false;                     // it is still the one that the command named
  absl::InlinedVector<BackpropId, 2> graphs;  // that the array is in
};
std::string EncodeGraphStates(absl::Span<const GraphState> states);
absl::StatusOr<std::vector<GraphState>> DecodeGraphStates(absl::string_view data);

// The answer to kFetchInto for an array that lies in shared memory in C order itself: the place of
// its first element. It stays there as long as it exists.
struct SharedPlace {
  uint32_t segment = 0;
  uint64_t offset = 0;
};
std::string EncodeSharedPlace(const SharedPlace& place);
absl::StatusOr<SharedPlace> DecodeSharedPlace(absl::string_view data);

// The answer to kShare: a block of memory and an array in it.
struct SharedBlock {
  uint32_t segment = 0;
  bool copied = false;       // kRead made a copy: the client releases it when it has read
  uint64_t offset = 0;       // of the block in the segment
  uint64_t bytes = 0;        // of the block
  int64_t array_offset = 0;  // of the first element in the block
  Strides strides;           // bytes; a gradient need not be contiguous
};
std::string EncodeSharedBlock(const SharedBlock& block);
absl::StatusOr<SharedBlock> DecodeSharedBlock(absl::string_view data);

// Where a walk is that may call functions of the client: at its end, or before a function whose
// gradient the client is to compute. The walk goes on with kResumeWalk.
struct WalkState {
  uint64_t function = 0;          // 0: the walk is done
  std::vector<uint32_t> targets;  // the inputs whose gradients are wanted
  // Whether there is an array: a gradient for each output, then what the function retained, inputs
  // and outputs. By kEnterFunction the client binds them to handles, 0 for what is not there.
  std::vector<bool> output_grads;
  std::vector<bool> retained_inputs;
  std::vector<bool> retained_outputs;
  std::vector<GraphState> graphs;  // of those that are there
};
std::string EncodeWalkState(const WalkState& state);
absl::StatusOr<WalkState> DecodeWalkState(absl::string_view data);

// Appends records to a string.
class CommandWriter {
 public:
  static constexpr size_t kMaxOperands = 65535;  // of one operator

  explicit CommandWriter(std::string* out) : out_(out) {}

  // The hot path.
  void ApplyOp(uint16_t op, uint16_t device, uint16_t mode, uint32_t location,
               absl::Span<const CommandOperand> inputs, absl::Span<const AttrValue> attrs,
               absl::Span<const Handle> outputs);
  // Any kind, from a filled Command (tests, rare kinds).
  void Write(const Command& command);

  void Release(absl::Span<const Handle> handles);
  void Upload(Handle handle, Dtype dtype, uint16_t device, absl::Span<const int64_t> shape,
              absl::string_view data);
  void Fetch(uint64_t request_id, Handle handle);
  void Barrier(uint64_t request_id);
  void DefineLocation(uint32_t location, absl::string_view text);

 private:
  std::string* const out_;
};

// Reads the records of one batch. After an error, which names the byte offset, the rest of the
// batch cannot be read.
class CommandReader {
 public:
  explicit CommandReader(absl::string_view batch) : batch_(batch) {}
  bool AtEnd() const { return position_ == batch_.size(); }
  // Checks structure only: kinds, sizes, counts, tags. Handles, ids, shapes and dtypes of arrays
  // are the session's to check.
  absl::Status Next(Command* command);

 private:
  const absl::string_view batch_;
  size_t position_ = 0;
};

}  // namespace chx

#endif  // CHX_PROTO_COMMAND_H_
