#include "tests/fuzz/generator.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/testing/samples.h"
#include "tests/fuzz/any_command.h"
#include "tests/fuzz/step_plans.h"

namespace chx {
namespace {

constexpr size_t kMostData = 16 << 10;

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

namespace {

command::Upload MakeUpload(Handle result) {
  static constexpr float kFractions[] = {0.75f, 0.25f, 0.5f, 0.125f, 0.625f, 0.875f};
  command::Upload upload;
  upload.result = result;
  upload.shape = {2, 3};
  upload.data = {reinterpret_cast<const char*>(kFractions), sizeof(kFractions)};
  return upload;
}

// A function of the client, and a backward pass that waits for its gradient. Often a command is
// missing.
std::vector<Command> PlanFunction(Choices* choices, Handle first) {
  const auto pass = static_cast<uint64_t>(1 + choices->UpTo(2));
  const Handle input = first, output = first + 1, grad = first + 2;
  std::vector<Command> plan = {
      MakeUpload(input),
      command::RequireGrad{input, 0},
      MakeUpload(output),
      command::RecordFunction{pass, 0, 0, {input}, {output}, {0}, {0}},
      command::Backward{pass, 0, 0, 0, choices->OnceIn(2), 1.0, {output}},
      command::EnterFunction{pass, {grad, first + 3, first + 4}},
      command::ResumePass{pass, pass, {grad}},
  };
  if (choices->OnceIn(2)) plan.erase(plan.begin() + choices->UpTo(6));
  return plan;
}

}  // namespace

std::vector<Command> InitialArrays() {
  command::ShareNew stage;
  stage.dtype = Dtype::kUint8;
  stage.shape = {kStageBytes};
  stage.result = kStage;
  std::vector<Command> commands = {stage};
  for (Handle handle = 1; handle <= 4; ++handle) {
    commands.emplace_back(MakeUpload(handle));
    if (handle <= 2) commands.emplace_back(command::RequireGrad{handle, 0});
  }
  return commands;
}

bool TakesLong(const Command& command) {
  const auto* const run = std::get_if<command::RunProgram>(&command);
  if (run != nullptr) return IsLongRun(*run);
  const auto* const apply = std::get_if<command::ApplyOp>(&command);
  if (apply == nullptr) return false;
  for (const AttrValue& attr : apply->attrs) {
    double product = 1;
    for (int64_t value : attr.ints()) product *= value > 1 ? static_cast<double>(value) : 1;
    // Beyond 2^62 it is an error again.
    if (product > 1e6 && product < 4e18) return true;
  }
  return false;
}

std::vector<Command> PlanCall(const Call& call, Handle first) {
  std::vector<Command> plan;
  command::ApplyOp apply;
  apply.op = static_cast<uint16_t>(call.op->id + 1);
  apply.attrs = call.attrs;
  for (const Argument& argument : call.inputs) {
    if (argument.scalar) apply.inputs.emplace_back(*argument.scalar);
    if (!argument.scalar && !argument.array) apply.inputs.emplace_back();
    if (!argument.array) continue;
    command::Upload upload;
    upload.result = first++;
    upload.dtype = argument.array->dtype;
    upload.shape.assign(argument.array->shape.begin(), argument.array->shape.end());
    int64_t bytes = ItemSize(upload.dtype);
    for (int64_t dim : upload.shape) bytes *= dim;
    if (bytes > static_cast<int64_t>(kMostData)) return {};
    upload.data = ValidData(upload.dtype, upload.shape, static_cast<size_t>(bytes));
    apply.inputs.emplace_back(upload.result);
    plan.emplace_back(upload);
  }
  InferResult result;
  if (!Infer(call, &result).ok()) return {};
  for (size_t i = 0; i < result.outputs.size(); ++i) apply.results.push_back(first++);
  plan.emplace_back(apply);
  return plan;
}

void CommandGenerator::Plan() {
  const Handle first = 6 + choices_->AnyHandle() / 2;
  std::vector<Command> plan;
  const int kind = choices_->UpTo(31);
  if (kind < 8) {
    plan = PlanFunction(choices_, first);
  } else if (kind == 8) {
    plan = PlanProgram(choices_, first);
  } else {
    const std::vector<Call> calls = SampleCalls(choices_->AnyOperator());
    plan = PlanCall(calls[static_cast<size_t>(choices_->Byte()) % calls.size()], first);
  }
  planned_.assign(plan.begin(), plan.end());
  // Most are in use.
  command::Release release;
  for (Handle i = 0; i < kStepHandles; ++i) release.handles.push_back(first + i);
  planned_.emplace_front(release);
}

bool CommandGenerator::Next(Command* command) {
  if (planned_.empty() && choices_->empty()) return false;
  if (planned_.empty() && choices_->OnceIn(12)) Plan();
  if (planned_.empty()) {
    *command = AnyCommand(choices_);
  } else {
    *command = std::move(planned_.front());
    planned_.pop_front();
  }
  return true;
}

}  // namespace chx
