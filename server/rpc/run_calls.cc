#include "server/rpc/run_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "ops/error.h"
#include "server/log/printable.h"
#include "server/rpc/op_stream.h"
#include "server/rpc/run_listing.h"

namespace chx::server {
namespace {

// A connection of the client's is taken for so long at most.
constexpr double kLongestWait = 5;

RunCalls CallsFrom(const v1::RunCalls& message) {
  RunCalls calls;
  calls.program = message.program();
  calls.data.assign(message.data().begin(), message.data().end());
  calls.batch_size = message.batch_size();
  calls.rest = message.rest();
  for (const v1::RunFile& file : message.files()) {
    calls.files.push_back({file.path(), file.member(), {}});
  }
  calls.device = static_cast<DeviceId>(std::min(message.device(), uint32_t{65535}));
  for (const v1::RunMetric& metric : message.metrics()) {
    calls.metrics.push_back({metric.name(), metric.output()});
  }
  return calls;
}

absl::StatusOr<RunSpec> SpecFrom(const v1::RunSpec& message) {
  RunSpec spec;
  spec.name = message.name();
  spec.attempt = message.attempt();
  spec.step = CallsFrom(message.step());
  spec.steps = message.steps();
  if (message.order_case() == v1::RunSpec::kShuffle) spec.shuffle = message.shuffle();
  if (message.order_case() == v1::RunSpec::kRows) spec.rows = message.rows();
  spec.done = message.done();
  spec.first.assign(message.first().begin(), message.first().end());
  spec.values = message.values();
  spec.log_every = message.log_every();
  if (message.has_evaluation()) spec.evaluation = CallsFrom(message.evaluation());
  spec.evaluate_every = message.evaluate_every();
  for (const v1::RunRule& rule : message.rules()) {
    // Before it is an enumerator.
    if (rule.kind() > static_cast<uint32_t>(RunRule::Kind::kNoImprovement)) {
      return ValueError("[runs] expects a rule of a known kind, got ", rule.kind());
    }
    spec.rules.push_back({static_cast<RunRule::Kind>(rule.kind()), rule.of_evaluation(),
                          rule.metric(), rule.bound(), rule.patience()});
  }
  spec.time_limit = message.time_limit();
  spec.marks = message.marks();
  spec.equal_weights = message.equal_weights();
  spec.snapshot_every = message.snapshot_every();
  spec.snapshot_seconds = message.snapshot_seconds();
  // Those of programs and runs are not for clients.
  Handle all = spec.values | spec.rows | spec.marks;
  for (Handle handle : spec.step.data) all |= handle;
  if (spec.evaluation.has_value()) {
    for (Handle handle : spec.evaluation->data) all |= handle;
  }
  for (Handle handle : spec.first) all |= handle;
  if (IsOfProgram(all)) return ValueError("[runs] expects handles below 2^63");
  return spec;
}

}  // namespace

bool RunCallService::Is(const v1::Call& call) {
  return call.has_start_run() || call.has_watch_run() || call.has_control_run() ||
         call.has_list_runs();
}

absl::Status RunCallService::Answer(const v1::Call& call, v1::Reply* reply) {
  if (call.has_start_run()) return Start(call.start_run());
  if (call.has_watch_run()) return Watch(call.watch_run(), reply->mutable_watch_run());
  if (call.has_control_run()) return Control(call.control_run());
  CHX_ASSIGN_OR_RETURN(const SessionRecordPtr record, FindSession(call.list_runs().session_id()));
  v1::ListRunsReply* const list = reply->mutable_list_runs();
  for (const std::shared_ptr<Run>& run : Runs::List(record->session.get())) {
    FillRunInfo(*run, run->Watch(~uint64_t{0}, std::chrono::milliseconds(0)), list->add_runs());
  }
  return absl::OkStatus();
}

absl::StatusOr<SessionRecordPtr> RunCallService::FindSession(const std::string& id) {
  SessionRecordPtr record = manager_->Find(id);
  if (record == nullptr) return NoSuchSession(manager_, id);
  return record;
}

absl::Status RunCallService::Start(const v1::StartRunRequest& request) {
  CHX_ASSIGN_OR_RETURN(const SessionRecordPtr record, FindSession(request.session_id()));
  if (request.epoch() != 0 && request.epoch() != manager_->epoch()) {
    return absl::NotFoundError("the session is of another process of the daemon");
  }
  if (manager_->draining()) return absl::UnavailableError("the daemon is shutting down");
  CHX_ASSIGN_OR_RETURN(RunSpec spec, SpecFrom(request.spec()));
  if (spec.asks_for_snapshots()) {
    CHX_RETURN_IF_ERROR(CheckAllowed(*record->owner.tenant, Feature::kSnapshots, "runs"));
  }
  if (spec.reads_files()) {
    CHX_RETURN_IF_ERROR(CheckAllowed(*record->owner.tenant, Feature::kDataFiles, "runs"));
  }
  return runs_->Start(record->session, PlaceOfRun(*record), std::move(spec)).status();
}

absl::Status RunCallService::Watch(const v1::WatchRunRequest& request, v1::WatchRunReply* reply) {
  std::shared_ptr<Run> run;
  {
    CHX_ASSIGN_OR_RETURN(const SessionRecordPtr record, FindSession(request.session_id()));
    CHX_ASSIGN_OR_RETURN(run, Runs::Find(record->session.get(), request.name()));
  }
  // Not a number is no wait.
  const double seconds = request.wait_seconds() > 0 ? request.wait_seconds() : 0;
  const auto patience =
      std::chrono::milliseconds(static_cast<int64_t>(1000 * std::min(seconds, kLongestWait)));
  const RunView view = run->Watch(request.from(), patience);
  FillRunInfo(*run, view, reply->mutable_run());
  reply->set_next(view.next);
  reply->set_dropped(view.dropped);
  for (const RunEvent& event : view.events) {
    v1::RunEvent* const message = reply->add_events();
    message->set_number(event.number);
    message->set_kind(static_cast<uint32_t>(event.kind));
    message->set_step(event.step);
    message->set_unix_time(event.unix_time);
    message->mutable_values()->Add(event.values.begin(), event.values.end());
    message->set_reason(event.reason);
    message->set_text(PrintableLines(event.text));
  }
  return absl::OkStatus();
}

absl::Status RunCallService::Control(const v1::ControlRunRequest& request) {
  CHX_ASSIGN_OR_RETURN(const SessionRecordPtr record, FindSession(request.session_id()));
  CHX_ASSIGN_OR_RETURN(const std::shared_ptr<Run> run,
                       Runs::Find(record->session.get(), request.name()));
  if (request.order() > static_cast<uint32_t>(RunOrder::kStop)) {
    return ValueError("[runs] expects an order of 0 to 2, got ", request.order());
  }
  run->Ask(static_cast<RunOrder>(request.order()));
  return absl::OkStatus();
}

}  // namespace chx::server
