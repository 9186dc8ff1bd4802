#include "tests/fuzz/step_plans.h"

#include <utility>

#include "ops/registry.h"
#include "tests/fuzz/any_command.h"

namespace chx {
namespace {

constexpr int kRounds = 12;  // of a loop: more than it takes to recognise it
constexpr size_t kRandomAttrs = 6;
constexpr int64_t kFewTimes = 64;
constexpr int64_t kMostTimes = int64_t{1} << 40;  // server/session/program_commands.cc

// Valid commands on arrays of shape (2, 3), and on results of a few other shapes.
class StepMaker {
 public:
  StepMaker(Choices* choices, Handle first)
      : choices_(*choices), next_(first), end_(first + kStepHandles - 4) {}

  std::vector<Command> Make() {
    const int count = 2 + choices_.UpTo(5);
    for (int i = 0; i < count; ++i) Add();
    if (!choices_.OnceIn(3)) Differentiate();
    return std::move(step_);
  }
  const std::vector<Handle>& made() const { return made_; }
  Handle last() const { return made_.empty() ? 1 : made_.back(); }
  int64_t num_operators() const { return num_operators_; }

 private:
  void Apply(const char* op, std::vector<HandleOperand> inputs, bool writes = false,
             std::vector<AttrValue> attrs = {}) {
    command::ApplyOp apply;
    apply.op = static_cast<uint16_t>(OpRegistry::Global().Find(op)->id + 1);
    apply.inputs.assign(inputs.begin(), inputs.end());
    apply.attrs.assign(attrs.begin(), attrs.end());
    if (!writes) apply.results.push_back(New());
    step_.emplace_back(std::move(apply));
    ++num_operators_;
  }
  Handle New() {
    made_.push_back(next_);
    return next_++;
  }
  HandleOperand Any() {
    const int number = choices_.UpTo(3 + static_cast<int>(made_.size()));
    return HandleOperand(number < 4 ? static_cast<Handle>(number + 1)
                                    : made_[static_cast<size_t>(number) - 4]);
  }
  void Sum() { Apply("sum", {Any()}, false, {AttrValue(), AttrValue(false), AttrValue()}); }

  void Add() {
    if (next_ >= end_) return;
    // Arrays that require no gradient, and are in no graph.
    const HandleOperand target(static_cast<Handle>(3 + choices_.UpTo(1)));
    switch (choices_.UpTo(8)) {
      case 0:
        return Apply("tanh", {Any()});
      case 1:
        return Apply("add", {Any(), Any()});
      case 2:
        return Apply("multiply", {Any(), HandleOperand(Scalar(0.5))});
      case 3:
        return Apply("transpose", {Any()}, false, {AttrValue()});
      case 4:
        return Sum();
      case 5:
        return Apply("random_normal", {}, false,
                     {AttrValue(Ints{2, 3}), AttrValue(0.0), AttrValue(1.0),
                      AttrValue(Dtype::kFloat32), AttrValue(int64_t{7}), AttrValue(int64_t{0})});
      case 6:
        return Apply("add_", {target, HandleOperand(Scalar(0.25))}, true);
      case 7:
        return Apply("multiply_", {target, target}, true);
      default:
        return Apply("copy", {Any()});
    }
  }

  void Differentiate() {
    Apply("multiply", {HandleOperand(Handle{1}), Any()});
    Apply("sum", {HandleOperand(last())}, false, {AttrValue(), AttrValue(false), AttrValue()});
    if (choices_.OnceIn(2)) step_.emplace_back(command::SetGrad{1, 0, 0});
    command::Backward backward;
    backward.outputs = {last()};
    backward.enable_double_backprop = choices_.OnceIn(4);
    backward.loss_scale = 1.0;
    step_.emplace_back(backward);
    if (choices_.OnceIn(2)) step_.emplace_back(command::GetGrad{1, 0, New()});
  }

  Choices& choices_;
  Handle next_;
  const Handle end_;
  std::vector<Command> step_;
  std::vector<Handle> made_;
  int64_t num_operators_ = 0;
};

command::Release ReleaseOf(const std::vector<Handle>& handles) {
  command::Release release;
  release.handles.assign(handles.begin(), handles.end());
  return release;
}

// Random numbers go on.
void Advance(int round, Command* command) {
  auto* const apply = std::get_if<command::ApplyOp>(command);
  if (apply == nullptr || apply->attrs.size() != kRandomAttrs) return;
  apply->attrs[kRandomAttrs - 1] = AttrValue(int64_t{round});
}

// Leaves a command out, has it twice, or puts any other in its place.
void Spoil(Choices* choices, std::vector<Command>* plan) {
  const auto at = plan->begin() + choices->UpTo(static_cast<int>(plan->size()) - 1);
  switch (choices->UpTo(2)) {
    case 0:
      plan->erase(at);
      return;
    case 1: {
      const Command twice = *at;
      plan->insert(at, twice);
      return;
    }
    default:
      *at = AnyCommand(choices);
  }
}

command::RunProgram AnyRun(Choices* choices, uint64_t program, Handle first) {
  static constexpr int64_t kTimes[] = {1, 1, 2, 5, 40, 0, -1, kMostTimes + 1, INT64_MAX};
  command::RunProgram run;
  run.program = choices->OnceIn(8) ? static_cast<uint64_t>(choices->UpTo(3)) : program;
  run.times = kTimes[choices->UpTo(8)];
  // Mostly as it was recorded.
  run.arguments = {choices->OnceIn(4) ? choices->AnyHandle() : Handle{2}};
  if (choices->OnceIn(8)) run.arguments.push_back(choices->AnyHandle());
  run.results = {choices->OnceIn(8) ? choices->AnyHandle() : first};
  if (choices->OnceIn(4)) run.values = choices->AnyInts();
  return run;
}

}  // namespace

bool IsLongRun(const command::RunProgram& run) {
  return run.times > kFewTimes && run.times <= kMostTimes;
}

std::vector<Command> PlanProgram(Choices* choices, Handle first) {
  const auto program = static_cast<uint64_t>(1 + choices->UpTo(2));
  StepMaker maker(choices, first);
  std::vector<Command> plan = {command::ReleaseProgram{program},
                               command::BeginProgram{program, {2}}};
  const std::vector<Command> step = maker.Make();
  plan.insert(plan.end(), step.begin(), step.end());
  if (choices->OnceIn(8)) plan.emplace_back(command::HoldArray{maker.last()});
  if (choices->OnceIn(4)) plan.emplace_back(ReleaseOf({maker.last()}));
  command::EndProgram end;
  end.request_id = program;
  end.program = program;
  end.outputs = {maker.last()};
  if (choices->OnceIn(4)) {
    const auto most = static_cast<int>(maker.num_operators());
    end.slots = {choices->UpTo(most), choices->UpTo(3)};
  }
  plan.emplace_back(end);
  plan.emplace_back(ReleaseOf(maker.made()));
  for (int runs = choices->UpTo(4); runs > 0; --runs) {
    plan.emplace_back(AnyRun(choices, program, first));
    if (choices->OnceIn(2)) plan.emplace_back(ReleaseOf({first}));
    if (choices->OnceIn(4)) {
      plan.emplace_back(command::ExplainProgram{program, program, choices->OnceIn(2)});
    }
  }
  if (choices->OnceIn(4)) {
    command::PublishProgram publish;
    publish.name = "model";
    publish.readers = "*";
    publish.programs = {static_cast<int64_t>(program)};
    command::OpenPrograms open;
    open.name = "model";
    open.programs = {4};
    plan.insert(plan.end(), {publish, open, AnyRun(choices, 4, first), command::ReleaseProgram{4}});
  }
  for (int i = choices->UpTo(2); i > 0; --i) Spoil(choices, &plan);
  return plan;
}

std::vector<Command> PlanLoop(Choices* choices, Handle first) {
  StepMaker maker(choices, first);
  std::vector<Command> step = maker.Make();
  step.emplace_back(ReleaseOf(maker.made()));
  if (choices->OnceIn(2)) step.emplace_back(command::Fetch{1, 3});
  std::vector<Command> plan;
  for (int i = 0; i < kRounds; ++i) {
    std::vector<Command> round = step;
    for (Command& command : round) Advance(i, &command);
    if (i >= kRounds / 2 && choices->OnceIn(4)) Spoil(choices, &round);
    plan.insert(plan.end(), round.begin(), round.end());
  }
  return plan;
}

}  // namespace chx
