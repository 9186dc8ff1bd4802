#include "client/programs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/call_log.h"
#include "client/connection.h"
#include "client/exports.h"
#include "client/session.h"
#include "client/waiting.h"
#include "ops/error.h"

namespace chx {
namespace {

std::vector<ArraySpec> SpecsOf(absl::Span<ArrayBody* const> arrays) {
  std::vector<ArraySpec> specs;
  for (const ArrayBody* array : arrays) specs.push_back(array->spec);
  return specs;
}

Handles HandlesOf(absl::Span<ArrayBody* const> arrays) {
  Handles handles;
  for (const ArrayBody* array : arrays) handles.push_back(array->handle);
  return handles;
}

// The leaves on which each array depends in the default graph, where the client knows them all and
// there is no other graph.
absl::optional<std::vector<std::vector<Ref<GraphNode>>>> LeavesOf(
    absl::Span<ArrayBody* const> arrays) {
  std::vector<std::vector<Ref<GraphNode>>> all(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i]->graphs_unknown) return absl::nullopt;
    for (const GraphMembership& membership : arrays[i]->memberships) {
      GraphNode* const output = membership.node.get();
      const Reachable reachable = FindReachable({&output, 1});
      if (output->id != 0 || !output->creator || reachable.opaque || reachable.calls) {
        return absl::nullopt;
      }
      for (const Ref<GraphNode>& node : reachable.nodes) {
        if (!node->creator && node->owner != nullptr) all[i].push_back(node);
      }
    }
  }
  return all;
}

absl::Status CheckList(const Session& session, absl::string_view what,
                       absl::Span<ArrayBody* const> arrays) {
  if (arrays.size() > CommandWriter::kMaxCount) {
    return ValueError("[jit] expects at most ", CommandWriter::kMaxCount, " ", what, ", got ",
                      arrays.size());
  }
  for (const ArrayBody* array : arrays) CHX_RETURN_IF_ERROR(session.CheckOwn("jit", array));
  return absl::OkStatus();
}

}  // namespace

absl::Status Programs::Begin(absl::Span<ArrayBody* const> arguments) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckList(session_, "arguments", arguments));
  const Connection& connection = session_.connection();
  if (!connection.knows_programs()) {
    return MakeError(ErrorKind::kNotImplemented,
                     absl::StrCat("[jit] expects a daemon that records programs, got chxd at ",
                                  connection.address(), ", which is older"));
  }
  MutexLock lock(&queue_.mutex());
  if (number_ != 0) return ValueError("[jit] expects one recording at a time");
  number_ = ++last_number_;
  arguments_ = SpecsOf(arguments);
  in_graph_ = std::any_of(arguments.begin(), arguments.end(), [](const ArrayBody* argument) {
    return argument->graphs_unknown || !argument->memberships.empty();
  });
  queue_.Append(command::BeginProgram{number_, HandlesOf(arguments)});
  queue_.BeginRecording();
  return absl::OkStatus();
}

int64_t Programs::num_operations() const {
  MutexLock lock(&queue_.mutex());
  return queue_.num_recorded();
}

void Programs::NoteGradients() {
  if (CallLog* const log = CallLog::Current()) log->NoteGradients();
  if (queue_.Records()) in_graph_ = true;
}

void Programs::Vary(absl::Span<const int64_t> attributes, Numbers numbers) {
  Varying* const varying = this->varying();
  if (varying == nullptr) return;
  const int64_t operation = num_operations();
  for (int64_t attribute : attributes) varying->slots.push_back({operation, attribute});
  varying->numbers.push_back(std::move(numbers));
}

absl::Status Programs::Hold(const ArrayBody& array) {
  CHX_RETURN_IF_ERROR(session_.CheckOwn("jit", &array));
  MutexLock lock(&queue_.mutex());
  queue_.Append(command::HoldArray{array.handle});
  return absl::OkStatus();
}

absl::StatusOr<Ref<RecordedProgram>> Programs::End(absl::Span<ArrayBody* const> results,
                                                   absl::Span<const RecordedProgram::Slot> slots) {
  absl::Status checked = CheckList(session_, "results", results);
  if (checked.ok() && slots.size() > CommandWriter::kMaxCount / 2) {
    checked = ValueError("[jit] expects fewer numbers that vary, got ", slots.size());
  }
  if (!checked.ok()) {
    Abandon();
    return checked;
  }
  const Ref<RecordedProgram> program(
      new RecordedProgram(Ref<Session>(&session_), std::exchange(number_, 0)));
  program->arguments_ = std::move(arguments_);
  for (const ArraySpec& spec : SpecsOf(results)) program->results_.push_back(spec);
  program->num_slots_ = slots.size();
  auto leaves = LeavesOf(results);
  program->keeps_graph_ = leaves.has_value() && !in_graph_;
  if (program->keeps_graph_) program->leaves_ = *std::move(leaves);
  command::EndProgram end;
  end.program = program->number_;
  end.outputs = HandlesOf(results);
  for (const RecordedProgram::Slot& slot : slots) {
    end.slots.push_back(slot.operation);
    end.slots.push_back(slot.attribute);
  }
  {
    MutexLock lock(&queue_.mutex());
    queue_.EndRecording();
  }
  absl::StatusOr<std::string> answer = queue_.AnswerTo(queue_.AppendRequest(std::move(end)), true);
  if (!answer.ok()) {
    // Who gave up waiting does not know.
    if (!Interruption::Is(answer.status())) program->number_ = 0;
    return answer.status();
  }
  program->declined_ = *std::move(answer);
  return program;
}

void Programs::Abandon() {
  if (number_ == 0) return;
  {
    MutexLock lock(&queue_.mutex());
    queue_.EndRecording();
    queue_.Append(command::ReleaseProgram{std::exchange(number_, 0)});
  }
  if (session_.exports().any()) session_.exports().Synchronize().IgnoreError();
}

absl::StatusOr<std::vector<Ref<RecordedProgram>>> Programs::Open(command::OpenPrograms open,
                                                                 std::vector<SharedProgram> specs) {
  std::vector<Ref<RecordedProgram>> programs;
  {
    MutexLock lock(&queue_.mutex());
    for (SharedProgram& spec : specs) {
      programs.emplace_back(new RecordedProgram(Ref<Session>(&session_), ++last_number_));
      programs.back()->arguments_ = std::move(spec.arguments);
      programs.back()->results_ = std::move(spec.results);
      open.programs.push_back(static_cast<int64_t>(last_number_));
    }
  }
  const absl::Status opened = queue_.AnswerTo(queue_.AppendRequest(std::move(open)), true).status();
  if (opened.ok()) return programs;
  for (const Ref<RecordedProgram>& program : programs) {
    if (!Interruption::Is(opened)) program->number_ = 0;  // there is none
  }
  return opened;
}

RecordedProgram::~RecordedProgram() {
  CommandQueue& queue = session_->queue();
  if (number_ == 0 || !queue.CheckOpen().ok()) return;
  MutexLock lock(&queue.mutex());
  queue.Append(command::ReleaseProgram{number_});
}

absl::Status RecordedProgram::CheckArguments(absl::Span<ArrayBody* const> arguments) const {
  CHX_RETURN_IF_ERROR(CheckList(*session_, "arguments", arguments));
  if (arguments.size() != arguments_.size()) {
    return TypeError("[jit] expects ", arguments_.size(), " arrays, got ", arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ArraySpec& spec = arguments[i]->spec;
    if (spec.dtype != arguments_[i].dtype || spec.shape != arguments_[i].shape ||
        spec.device != arguments_[i].device) {
      return TypeError("[jit] expects ", arguments_[i].ToString(), " as argument ", i, ", got ",
                       spec.ToString());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ArrayPtr>> RecordedProgram::Run(absl::Span<ArrayBody* const> arguments,
                                                           int64_t times,
                                                           absl::Span<const int64_t> values) {
  CHX_RETURN_IF_ERROR(CheckArguments(arguments));
  if (times < 1 || values.size() != num_slots_ * static_cast<size_t>(times) ||
      values.size() > CommandWriter::kMaxCount) {
    return ValueError("[jit] expects values of ", num_slots_, " slots for each of ", times,
                      " times, at most ", CommandWriter::kMaxCount, " together, got ",
                      values.size());
  }
  CHX_ASSIGN_OR_RETURN(std::vector<ArrayPtr> results, Send(arguments, times, values));
  // What it leaves as gradients only the daemon knows.
  BackpropIds& graphs = session_->graphs().backprop_ids();
  graphs.IncrementGradVersion(0);
  for (BackpropId id : graphs.OpenAbove(0)) graphs.IncrementGradVersion(id);
  return results;
}

absl::StatusOr<std::vector<ArrayPtr>> RecordedProgram::RunInGraph(
    absl::Span<ArrayBody* const> arguments, absl::Span<const int64_t> values) {
  CHX_RETURN_IF_ERROR(CheckArguments(arguments));
  if (!keeps_graph_ || values.size() != num_slots_) {
    return ValueError("[jit] expects a program whose results may be in a graph, and values of ",
                      num_slots_, " slots, got ", values.size());
  }
  CHX_ASSIGN_OR_RETURN(std::vector<ArrayPtr> results, Send(arguments, 0, values));
  for (size_t i = 0; i < results.size(); ++i) {
    if (leaves_[i].empty()) continue;
    // Results need not depend on the same leaves.
    Ref<MirrorOp> op = MakeRef<MirrorOp>();
    op->inputs.assign(leaves_[i].begin(), leaves_[i].end());
    results[i]->Connect(0, std::move(op));
  }
  return results;
}

absl::StatusOr<std::vector<ArrayPtr>> RecordedProgram::Send(absl::Span<ArrayBody* const> arguments,
                                                            int64_t times,
                                                            absl::Span<const int64_t> values) {
  CommandQueue& queue = session_->queue();
  CHX_RETURN_IF_ERROR(queue.CheckUsable());
  command::RunProgram run;
  run.program = number_;
  run.times = times;
  run.values.assign(values.begin(), values.end());
  run.arguments = HandlesOf(arguments);
  std::vector<ArrayPtr> results;
  bool due = false;
  {
    MutexLock lock(&queue.mutex());
    for (size_t i = 0; i < results_.size(); ++i) run.results.push_back(queue.NewHandle());
    for (size_t i = 0; i < results_.size(); ++i) {
      results.push_back(session_->NewArray(run.results[i], results_[i]));
      results.back()->storage_unknown = true;
    }
    run.location = queue.Location();
    queue.Append(std::move(run));
    due = queue.Due();
  }
  if (session_->exports().any()) CHX_RETURN_IF_ERROR(session_->exports().Synchronize());
  if (due) CHX_RETURN_IF_ERROR(queue.FlushDue());
  return results;
}

absl::StatusOr<std::string> RecordedProgram::Explain(bool measure) {
  CommandQueue& queue = session_->queue();
  CHX_RETURN_IF_ERROR(queue.CheckUsable());
  command::ExplainProgram explain;
  explain.program = number_;
  explain.measure = measure;
  return queue.AnswerTo(queue.AppendRequest(explain), true);
}

}  // namespace chx
