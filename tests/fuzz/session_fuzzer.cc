// Well-formed commands of any kind with operators, handles, attributes and scalars that nearly
// always exist, in any order: what gets past the decoder, and far beyond it.
#include <vector>

#include "ops/registry.h"
#include "tests/fuzz/small_session.h"
#include "tests/fuzz/target.h"

namespace chx {
namespace {

class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  // 0 when there is nothing left.
  int Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  int UpTo(int max) { return Byte() % (max + 1); }
  // 0 and 1 to 31: few, so that they meet.
  Handle AnyHandle() { return static_cast<Handle>(Byte() % 32); }

  Scalar AnyScalar() {
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
  Ints AnyInts() {
    Ints ints;
    for (int n = UpTo(4); n > 0; --n) {
      const int byte = Byte();
      ints.push_back(byte == 255 ? kInts[UpTo(7)] : byte % 8 - 2);
    }
    return ints;
  }
  AttrValue AnyAttr(AttrType type) {
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
  CommandOperand AnyOperand() {
    switch (UpTo(7)) {
      case 0:
        return CommandOperand();
      case 1:
        return CommandOperand(AnyScalar());
      default:
        return CommandOperand(AnyHandle());
    }
  }

 private:
  static constexpr int64_t kInts[] = {INT64_MIN, INT64_MAX, -1, 0, 1 << 20, INT32_MAX, 255, 1000};
  static constexpr double kDoubles[] = {0.0, -0.0, 1.5, -1e308, 1e-310, 1e20, 1.0 / 3, -2.0};

  const uint8_t* data_;
  size_t size_;
};

void MakeOperator(Choices* choices, Command* command) {
  const OpRegistry& registry = OpRegistry::Global();
  const OpDef& op = registry.at(static_cast<OpId>(choices->Byte() % registry.size()));
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
    static constexpr char kBytes[4096] = {1, 2, 3};
    double bytes = static_cast<double>(ItemSize(command.dtype));
    for (int64_t dim : command.shape) bytes *= static_cast<double>(dim);
    if (bytes >= 0 && bytes <= 4096) command.data = {kBytes, static_cast<size_t>(bytes)};
  }
  return command;
}

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chx::SmallSession session;
  chx::Choices choices(data, size);
  std::vector<chx::Command> window;
  while (!choices.empty()) {
    const chx::Command command = chx::MakeCommand(&choices);
    if (!chx::TakesLong(command)) window.push_back(command);
    if (window.size() < 6 && !choices.empty()) continue;
    session.Execute(window);
    window.clear();
  }
  return 0;
}

namespace chx {

// Any bytes are a program: a few of several lengths.
std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  uint32_t state = 1;
  for (size_t length : {20, 100, 400, 400, 400, 2000}) {
    std::string seed;
    while (seed.size() < length) {
      state = state * 1664525 + 1013904223;
      seed.push_back(static_cast<char>(state >> 24));
    }
    seeds.push_back(seed);
  }
  return seeds;
}

}  // namespace chx
