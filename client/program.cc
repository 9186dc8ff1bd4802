#include "client/program.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/explanation.h"
#include "client/program_state.h"
#include "client/programs.h"
#include "client/published_programs.h"
#include "ops/error.h"
#include "proto/command_codec.h"

namespace chx {
namespace {

std::string Listed(absl::Span<ArrayBody* const> arrays) {
  const auto add = [](std::string* text, const ArrayBody* array) {
    absl::StrAppend(text, array->spec.ToString());
  };
  return absl::StrCat("(", absl::StrJoin(arrays, ", ", add), ")");
}

// What it takes.
std::string Listed(const RecordedProgram& program) {
  const auto add = [](std::string* text, const ArraySpec& spec) {
    absl::StrAppend(text, spec.ToString());
  };
  return absl::StrCat("(", absl::StrJoin(program.arguments(), ", ", add), ")");
}

// What each of them takes.
std::string Listed(const std::vector<Ref<RecordedProgram>>& programs) {
  const auto add = [](std::string* text, const Ref<RecordedProgram>& program) {
    absl::StrAppend(text, Listed(*program));
  };
  return absl::StrJoin(programs, " or ", add);
}

absl::StatusOr<std::vector<Explained>> ExplainAll(const std::vector<Ref<RecordedProgram>>& programs,
                                                  bool profile) {
  std::vector<Explained> all;
  for (const Ref<RecordedProgram>& program : programs) {
    CHX_ASSIGN_OR_RETURN(std::string lines, program->Explain(profile));
    all.push_back({absl::StrCat("program", Listed(*program)), std::move(lines)});
  }
  return all;
}

}  // namespace

absl::StatusOr<Program> Program::Trace(Session& session, const Function& function,
                                       absl::Span<const Array> arguments) {
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> given, internal::BodiesOf(arguments));
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
      results.ok() ? internal::BodiesOf(*results) : results.status();
  if (!made.ok()) return made.status();
  auto state = std::make_shared<State>();
  CHX_ASSIGN_OR_RETURN(Ref<RecordedProgram> program, programs.End(*made, varying.slots));
  state->programs.push_back(std::move(program));
  state->numbers = std::move(varying.numbers);
  for (const Array& result : *results) state->first_results.push_back(result.AsGradStopped());
  return Program(std::move(state));
}

absl::StatusOr<Program> Program::Trace(Session& session, const Function& function,
                                       std::initializer_list<Array> arguments) {
  return Trace(session, function, absl::MakeConstSpan(arguments.begin(), arguments.size()));
}

const std::vector<Array>& Program::first_results() const { return state_->first_results; }

const std::string& Program::declined() const { return state_->programs[0]->declined(); }

absl::StatusOr<std::string> Program::Explain(bool profile) const {
  CHX_ASSIGN_OR_RETURN(const std::vector<Explained> all, ExplainAll(state_->programs, profile));
  return ExplanationAsText(all);
}

absl::StatusOr<std::string> Program::ExplainAsSvg(bool profile) const {
  CHX_ASSIGN_OR_RETURN(const std::vector<Explained> all, ExplainAll(state_->programs, profile));
  return ExplanationAsSvg(all);
}

Program::Results Program::Run(absl::Span<const Array> arguments, int64_t times) const {
  if (times < 1) return ValueError("[jit] expects 1 time at least, got ", times);
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> given, internal::BodiesOf(arguments));
  // Of several, the one that is for these arguments.
  const auto found = std::find_if(
      state_->programs.begin(), state_->programs.end(),
      [&given](const Ref<RecordedProgram>& each) { return each->CheckArguments(given).ok(); });
  const bool none = found == state_->programs.end();
  if (none && state_->programs.size() > 1) {
    return TypeError("[jit] expects ", Listed(state_->programs), ", got ", Listed(given));
  }
  RecordedProgram& program = none ? *state_->programs[0] : **found;
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

absl::StatusOr<uint64_t> PublishProgram(Session& session, const std::string& name,
                                        absl::Span<const Program> programs,
                                        const PublishOptions& options) {
  std::vector<RecordedProgram*> recorded;
  for (const Program& program : programs) {
    for (const Ref<RecordedProgram>& each : program.state()->programs) {
      recorded.push_back(each.get());
    }
  }
  return internal::PublishPrograms(session, name, recorded, options);
}

absl::StatusOr<uint64_t> PublishProgram(Session& session, const std::string& name,
                                        const Program& program, const PublishOptions& options) {
  return PublishProgram(session, name, absl::MakeConstSpan(&program, 1), options);
}

absl::StatusOr<Program> LookupProgram(Session& session, const std::string& name,
                                      const LookupOptions& options) {
  CHX_ASSIGN_OR_RETURN(internal::Found found, internal::Find(session, name, options));
  if (found.programs.empty()) {
    return ValueError("[lookup] expects a name of programs, got one of arrays: ", name);
  }
  auto state = std::make_shared<Program::State>();
  state->programs = std::move(found.programs);
  return Program(std::move(state));
}

}  // namespace chx
