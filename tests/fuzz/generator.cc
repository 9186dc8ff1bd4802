#include "tests/fuzz/generator.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "ops/registry.h"
#include "ops/testing/samples.h"

namespace chx {
namespace {

constexpr int64_t kInts[] = {INT64_MIN, INT64_MAX, -1, 0, 1 << 20, INT32_MAX, 255, 1000};
constexpr double kDoubles[] = {0.0, -0.0, 1.5, -1e308, 1e-310, 1e20, 1.0 / 3, -2.0};
constexpr size_t kMostData = 16 << 10;

// 0.747 as a float32, fractions in other dtypes.
absl::string_view Fractions() {
  static const std::string* const data = new std::string(kMostData, '\x3f');
  return *data;
}

// Values that operators accept: true and false in turn, 0 for labels and positions, fractions, and
// for square matrices the identity, which can be inverted and decomposed. For ever.
absl::string_view ValidData(Dtype dtype, absl::Span<const int64_t> shape, size_t bytes) {
  static auto* const kept = new std::map<std::string, std::string>;
  const bool square = IsFloat(dtype) && shape.size() >= 2 && shape.back() > 0 &&
                      shape.back() == shape[shape.size() - 2];
  const size_t n = square ? static_cast<size_t>(shape.back()) : 0;
  std::string& data = (*kept)[absl::StrCat(static_cast<int>(dtype), " ", n, " ", bytes)];
  if (data.size() == bytes) return data;
  data.assign(bytes, IsFloat(dtype) && !square ? '\x3f' : '\0');
  for (size_t i = 0; IsBool(dtype) && i < bytes; i += 2) data[i] = 1;
  const size_t item = static_cast<size_t>(ItemSize(dtype));
  const absl::string_view one = item == 2   ? absl::string_view("\0\x3c", 2)
                                : item == 4 ? absl::string_view("\0\0\x80\x3f", 4)
                                            : absl::string_view("\0\0\0\0\0\0\xf0\x3f", 8);
  for (size_t i = 0; square && i < bytes / item; ++i) {
    if (i % (n * n) % (n + 1) == 0) data.replace(i * item, item, one.data(), one.size());
  }
  return data;
}

}  // namespace

const OpDef& Choices::AnyOperator() {
  const OpRegistry& registry = OpRegistry::Global();
  const int number = Byte() * 256 + Byte();
  return registry.at(static_cast<OpId>(number % registry.size()));
}

Scalar Choices::AnyScalar() {
  const int byte = Byte();
  switch (byte % 4) {
    case 0:
      return Scalar(byte > 127);
    case 1:
      return Scalar(static_cast<int64_t>(byte) - 128);
    case 2:
      return Scalar(kDoubles[UpTo(7)]);
    default:
      return Scalar(kInts[UpTo(7)]);
  }
}

Ints Choices::AnyInts() {
  Ints ints;
  for (int n = UpTo(4); n > 0; --n) {
    const int byte = Byte();
    ints.push_back(byte == 255 ? kInts[UpTo(7)] : byte % 8 - 2);
  }
  return ints;
}

AttrValue Choices::AnyAttr(AttrType type) {
  if (UpTo(15) == 0) type = static_cast<AttrType>(UpTo(kNumAttrTypes - 1));
  switch (type) {
    case AttrType::kNone:
      return AttrValue();
    case AttrType::kBool:
      return AttrValue(UpTo(1) == 1);
    case AttrType::kInt:
      return AttrValue(AnyScalar().AsInt());
    case AttrType::kFloat:
      return AttrValue(AnyScalar().AsDouble());
    case AttrType::kDtype:
      return AttrValue(static_cast<Dtype>(UpTo(kNumDtypes - 1)));
    case AttrType::kScalar:
      return AttrValue(AnyScalar());
    case AttrType::kInts:
      return AttrValue(AnyInts());
    case AttrType::kIndex:
      break;
  }
  return AttrValue::Index(AnyInts());
}

CommandOperand Choices::AnyOperand() {
  switch (UpTo(7)) {
    case 0:
      return CommandOperand();
    case 1:
      return CommandOperand(AnyScalar());
    default:
      return CommandOperand(AnyHandle());
  }
}

namespace {

void MakeOperator(Choices* choices, Command* command) {
  const OpDef& op = choices->AnyOperator();
  command->op = static_cast<uint16_t>(op.id + 1);
  command->mode = static_cast<uint16_t>(choices->UpTo(15) == 0 ? choices->UpTo(3) : 0);
  size_t inputs = op.inputs.size();
  if (op.has_variadic_input()) inputs += static_cast<size_t>(choices->UpTo(3));
  size_t outputs = op.outputs.size();
  if (op.variadic_outputs) outputs += static_cast<size_t>(choices->UpTo(3));
  for (size_t i = 0; i < inputs; ++i) command->operands.push_back(choices->AnyOperand());
  for (size_t i = 0; i < outputs; ++i) command->outputs.push_back(choices->AnyHandle());
  for (const AttrDef& attr : op.attrs) {
    const bool use_default = choices->UpTo(2) == 0;
    command->attrs.push_back(use_default ? attr.default_value : choices->AnyAttr(attr.type));
  }
}

Command MakeCommand(Choices* choices) {
  Command command;
  const int kind = choices->UpTo(31);
  command.kind = kind >= 1 && kind <= static_cast<int>(kLastCommandKind)
                     ? static_cast<CommandKind>(kind)
                     : CommandKind::kApplyOp;
  if (command.kind == CommandKind::kApplyOp) {
    MakeOperator(choices, &command);
    return command;
  }
  command.flags = static_cast<uint8_t>(choices->UpTo(15));
  command.request_id = static_cast<uint64_t>(choices->UpTo(3));
  command.handle = choices->AnyHandle();
  command.backprop_id = static_cast<BackpropId>(choices->UpTo(3) == 0 ? choices->UpTo(3) : 0);
  command.mode = static_cast<uint16_t>(choices->UpTo(3));
  command.device = static_cast<uint16_t>(choices->UpTo(15) == 0 ? 1 : 0);
  command.loss_scale = choices->AnyScalar().AsDouble();
  for (int n = choices->UpTo(2); n > 0; --n) command.operands.push_back(choices->AnyOperand());
  for (int n = choices->UpTo(2); n > 0; --n) command.outputs.push_back(choices->AnyHandle());
  for (int n = choices->UpTo(3); n > 0; --n) command.handles.push_back(choices->AnyHandle());
  command.num_outputs =
      static_cast<uint32_t>(choices->UpTo(static_cast<int>(command.handles.size())));
  if (command.kind == CommandKind::kUploadFrom || command.kind == CommandKind::kFetchInto) {
    command.operands.clear();
    command.operands.emplace_back(choices->UpTo(3) == 0 ? choices->AnyHandle() : Handle{5});
    for (int n = command.kind == CommandKind::kUploadFrom ? 1 : 3; n > 0; --n) {
      // Near the bounds of what there is, or anything.
      static constexpr int64_t kNumbers[] = {0, 64, 4096 - 64, 4096, 24, 8, 4, 100};
      command.operands.emplace_back(choices->UpTo(7) == 0 ? choices->AnyScalar()
                                                          : Scalar(kNumbers[choices->UpTo(7)]));
    }
  }
  command.dtype = static_cast<Dtype>(choices->UpTo(kNumDtypes - 1));
  command.shape = choices->AnyInts();
  if (command.kind == CommandKind::kShare) {
    // What Alias takes: a vector of the stage, or nearly so.
    static constexpr int64_t kNumbers[] = {0, 1, 4, 8, -8, 64, 512, 4096};
    command.flags = static_cast<uint8_t>(choices->UpTo(4));
    if (choices->UpTo(3) != 0) {
      command.handle = 5;
      command.outputs.assign(1, choices->AnyHandle());
      command.shape.clear();
      for (int i = 0; i < 3; ++i) command.shape.push_back(kNumbers[choices->UpTo(7)]);
    }
  }
  command.mode_entries.push_back({command.backprop_id, choices->UpTo(1) == 1});
  if (command.kind == CommandKind::kUpload) {
    double bytes = static_cast<double>(ItemSize(command.dtype));
    for (int64_t dim : command.shape) bytes *= static_cast<double>(dim);
    if (bytes >= 0 && bytes <= 4096)
      command.data = Fractions().substr(0, static_cast<size_t>(bytes));
  }
  return command;
}

}  // namespace

std::vector<Command> InitialArrays() {
  std::vector<Command> commands(1);
  commands.reserve(7);
  Command& stage = commands.front();
  stage.kind = CommandKind::kShare;
  stage.flags = static_cast<uint8_t>(ShareAction::kAllocate);
  stage.dtype = Dtype::kUint8;
  stage.shape = {4096};
  stage.outputs.push_back(5);
  for (Handle handle = 1; handle <= 4; ++handle) {
    Command upload;
    upload.kind = CommandKind::kUpload;
    upload.handle = handle;
    upload.shape = {2, 3};
    upload.data = Fractions().substr(0, 6 * sizeof(float));
    commands.push_back(upload);
    if (handle > 2) continue;
    Command require_grad;
    require_grad.kind = CommandKind::kRequireGrad;
    require_grad.handle = handle;
    commands.push_back(require_grad);
  }
  return commands;
}

bool TakesLong(const Command& command) {
  for (const AttrValue& attr : command.attrs) {
    double product = 1;
    for (int64_t value : attr.ints()) product *= value > 1 ? static_cast<double>(value) : 1;
    // Beyond 2^62 it is an error again.
    if (product > 1e6 && product < 4e18) return true;
  }
  return false;
}

std::vector<Command> PlanCall(const Call& call, Handle first) {
  std::vector<Command> plan;
  Command apply;
  apply.kind = CommandKind::kApplyOp;
  apply.op = static_cast<uint16_t>(call.op->id + 1);
  apply.attrs = call.attrs;
  for (const Argument& argument : call.inputs) {
    if (argument.scalar) apply.operands.emplace_back(*argument.scalar);
    if (!argument.scalar && !argument.array) apply.operands.emplace_back();
    if (!argument.array) continue;
    Command upload;
    upload.kind = CommandKind::kUpload;
    upload.handle = first++;
    upload.dtype = argument.array->dtype;
    upload.shape.assign(argument.array->shape.begin(), argument.array->shape.end());
    int64_t bytes = ItemSize(upload.dtype);
    for (int64_t dim : upload.shape) bytes *= dim;
    if (bytes > static_cast<int64_t>(kMostData)) return {};
    upload.data = ValidData(upload.dtype, upload.shape, static_cast<size_t>(bytes));
    apply.operands.emplace_back(upload.handle);
    plan.push_back(upload);
  }
  InferResult result;
  if (!Infer(call, &result).ok()) return {};
  for (size_t i = 0; i < result.outputs.size(); ++i) apply.outputs.push_back(first++);
  plan.push_back(apply);
  return plan;
}

bool CommandGenerator::Next(Command* command) {
  if (planned_.empty() && choices_->empty()) return false;
  if (planned_.empty() && choices_->UpTo(15) == 0) {
    const std::vector<Call> calls = SampleCalls(choices_->AnyOperator());
    const Call& call = calls[static_cast<size_t>(choices_->Byte()) % calls.size()];
    const std::vector<Command> plan = PlanCall(call, 6 + choices_->AnyHandle() / 2);
    planned_.assign(plan.begin(), plan.end());
  }
  if (planned_.empty()) {
    *command = MakeCommand(choices_);
  } else {
    *command = std::move(planned_.front());
    planned_.pop_front();
  }
  return true;
}

void CommandCounts::Add(const Command& command) {
  ++kinds[static_cast<size_t>(command.kind)];
  operators.resize(static_cast<size_t>(OpRegistry::Global().size()));
  if (command.kind == CommandKind::kApplyOp && command.op - 1u < operators.size()) {
    ++operators[command.op - 1u];
  }
}

uint64_t CommandCounts::total() const {
  uint64_t sum = 0;
  for (uint64_t count : kinds) sum += count;
  return sum;
}

std::string CommandCounts::ToString() const {
  std::string text = absl::StrCat("commands ", total(), "\n");
  for (size_t i = 1; i < kinds.size(); ++i) {
    absl::StrAppend(&text, "  ", NameOf(static_cast<CommandKind>(i)), " ", kinds[i], "\n");
  }
  std::multimap<uint64_t, std::string> by_count;
  for (size_t i = 0; i < operators.size(); ++i) {
    by_count.emplace(operators[i], OpRegistry::Global().at(static_cast<OpId>(i)).name);
  }
  absl::StrAppend(&text, "operators ", operators.size(), ", the rarest:");
  size_t shown = 0;
  for (const auto& [count, name] : by_count) {
    if (shown++ < 5) absl::StrAppend(&text, " ", name, " ", count);
  }
  return text + "\n";
}

absl::string_view NameOf(CommandKind kind) {
  static constexpr absl::string_view kNames[] = {"",
                                                 "apply",
                                                 "release",
                                                 "upload",
                                                 "fetch",
                                                 "barrier",
                                                 "require_grad",
                                                 "backward",
                                                 "grad",
                                                 "set_grad",
                                                 "get_grad",
                                                 "new_backprop_id",
                                                 "release_backprop_id",
                                                 "define_mode",
                                                 "define_location",
                                                 "unchain",
                                                 "graph_state",
                                                 "dump_graph",
                                                 "record_function",
                                                 "enter_function",
                                                 "resume_walk",
                                                 "abandon_walk",
                                                 "configure",
                                                 "upload_from",
                                                 "fetch_into",
                                                 "share"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(kLastCommandKind) + 1);
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace chx
