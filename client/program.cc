#include "client/program.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/programs.h"
#include "ops/error.h"
#include "proto/command_codec.h"

namespace chx {
namespace {

// Those that hold no error.
absl::StatusOr<std::vector<ArrayBody*>> BodiesOf(absl::Span<const Array> arrays) {
  std::vector<ArrayBody*> bodies;
  for (const Array& array : arrays) {
    CHX_RETURN_IF_ERROR(array.status());
    bodies.push_back(array.body().get());
  }
  return bodies;
}

}  // namespace

struct Program::State {
  Ref<RecordedProgram> program;
  std::vector<Programs::Numbers> numbers;
  std::vector<Array> first_results;
};

absl::StatusOr<Program> Program::Trace(Session& session, const Function& function,
                                       absl::Span<const Array> arguments) {
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> given, BodiesOf(arguments));
  Programs& programs = session.programs();
  CHX_RETURN_IF_ERROR(programs.Begin(given));
  Programs::Varying varying;
  // Whatever the function does. There is nothing to abandon after End.
  const auto end = absl::MakeCleanup([&programs] {
    programs.SetVarying(nullptr);
    programs.Abandon();
  });
  programs.SetVarying(&varying);
  Results results = function(arguments);
  programs.SetVarying(nullptr);
  const absl::StatusOr<std::vector<ArrayBody*>> made =
      results.ok() ? BodiesOf(*results) : results.status();
  if (!made.ok()) return made.status();
  auto state = std::make_shared<State>();
  CHX_ASSIGN_OR_RETURN(state->program, programs.End(*made, varying.slots));
  state->numbers = std::move(varying.numbers);
  for (const Array& result : *results) state->first_results.push_back(result.AsGradStopped());
  return Program(std::move(state));
}

absl::StatusOr<Program> Program::Trace(Session& session, const Function& function,
                                       std::initializer_list<Array> arguments) {
  return Trace(session, function, absl::MakeConstSpan(arguments.begin(), arguments.size()));
}

const std::vector<Array>& Program::first_results() const { return state_->first_results; }

const std::string& Program::declined() const { return state_->program->declined(); }

Program::Results Program::Run(absl::Span<const Array> arguments, int64_t times) const {
  if (times < 1) return ValueError("[jit] expects 1 time at least, got ", times);
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> given, BodiesOf(arguments));
  RecordedProgram& program = *state_->program;
  // A command has room for so many numbers that vary.
  const size_t slots = program.num_slots();
  const int64_t most = slots == 0 ? times : static_cast<int64_t>(CommandWriter::kMaxCount / slots);
  std::vector<ArrayPtr> results;
  for (int64_t left = times; left > 0; left -= std::min(left, most)) {
    std::vector<int64_t> values;
    for (int64_t i = 0; slots > 0 && i < std::min(left, most); ++i) {
      for (const Programs::Numbers& numbers : state_->numbers) {
        CHX_RETURN_IF_ERROR(numbers(&values));
      }
    }
    CHX_ASSIGN_OR_RETURN(results, program.Run(given, std::min(left, most), values));
  }
  std::vector<Array> arrays;
  arrays.reserve(results.size());
  for (ArrayPtr& result : results) arrays.emplace_back(std::move(result));
  return arrays;
}

Program::Results Program::Run(std::initializer_list<Array> arguments, int64_t times) const {
  return Run(absl::MakeConstSpan(arguments.begin(), arguments.size()), times);
}

}  // namespace chx
