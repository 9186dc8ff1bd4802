#include "client/run_calls.h"

#include <random>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "client/command_queue.h"
#include "client/connection.h"
#include "client/session.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr std::chrono::seconds kCallTimeout(60);

// Whose ids are in a call.
using Fill = absl::FunctionRef<void(const std::string& id, uint64_t epoch, v1::Call* call)>;

absl::Status Ask(Session* session, Fill fill, v1::Reply* reply) {
  CHX_RETURN_IF_ERROR(session->queue().CheckUsable());
  Connection& connection = session->connection();
  if (!connection.knows_runs()) {
    return MakeError(ErrorKind::kNotImplemented,
                     absl::StrCat("[runs] expects a daemon that knows runs, got chxd at ",
                                  connection.address(), ", which is older"));
  }
  const absl::Status status = connection.AskAboutSession(fill, kCallTimeout, reply);
  // What the daemon says about runs has a kind; the rest is about the session.
  if (status.ok() || reply->status().kind() != 0) return status;
  return MakeError(ErrorKind::kConnection, status.message());
}

absl::Status FillCalls(const Session& session, const RunCalls& calls, v1::RunCalls* message) {
  message->set_program(calls.program->number());
  for (const ArrayBody* array : calls.data) {
    if (array != nullptr) CHX_RETURN_IF_ERROR(session.CheckOwn("runs", array));
    message->add_data(array == nullptr ? 0 : array->handle);
  }
  for (const auto& [path, member] : calls.files) {
    v1::RunFile* const file = message->add_files();
    file->set_path(path);
    file->set_member(member);
  }
  message->set_device(calls.device);
  message->set_batch_size(calls.batch_size);
  for (const auto& [name, output] : calls.metrics) {
    v1::RunMetric* const metric = message->add_metrics();
    metric->set_name(name);
    metric->set_output(output);
  }
  if (calls.rest != nullptr) message->set_rest(calls.rest->number());
  return absl::OkStatus();
}

uint64_t RandomNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

absl::Status FillSpec(const Session& session, const RunRequest& request, v1::RunSpec* spec) {
  spec->set_name(request.name);
  spec->set_attempt(RandomNumber());
  CHX_RETURN_IF_ERROR(FillCalls(session, request.step, spec->mutable_step()));
  spec->set_steps(request.steps);
  if (request.shuffle.has_value()) spec->set_shuffle(*request.shuffle);
  spec->set_done(request.done);
  for (const ArrayBody* array : request.first) {
    CHX_RETURN_IF_ERROR(session.CheckOwn("runs", array));
    spec->add_first(array->handle);
  }
  for (const ArrayBody* array : {request.rows, request.values, request.marks}) {
    if (array != nullptr) CHX_RETURN_IF_ERROR(session.CheckOwn("runs", array));
  }
  if (request.rows != nullptr) spec->set_rows(request.rows->handle);
  if (request.values != nullptr) spec->set_values(request.values->handle);
  if (request.marks != nullptr) spec->set_marks(request.marks->handle);
  spec->set_equal_weights(request.equal_weights);
  spec->set_log_every(request.log_every);
  if (request.evaluation.has_value()) {
    CHX_RETURN_IF_ERROR(FillCalls(session, *request.evaluation, spec->mutable_evaluation()));
  }
  spec->set_evaluate_every(request.evaluate_every);
  for (const RunRule& rule : request.rules) {
    v1::RunRule* const message = spec->add_rules();
    message->set_kind(rule.kind);
    message->set_of_evaluation(rule.of_evaluation);
    message->set_metric(rule.metric);
    message->set_bound(rule.bound);
    message->set_patience(rule.patience);
  }
  spec->set_time_limit(request.time_limit);
  spec->set_snapshot_every(request.snapshot_every);
  spec->set_snapshot_seconds(request.snapshot_seconds);
  return absl::OkStatus();
}

RunInfo InfoFrom(const v1::RunInfo& message) {
  RunInfo info;
  info.name = message.name();
  info.state = message.state();
  info.step = message.step();
  info.steps = message.steps();
  info.steps_per_epoch = message.steps_per_epoch();
  info.metrics.assign(message.metrics().begin(), message.metrics().end());
  info.evaluation_metrics.assign(message.evaluation_metrics().begin(),
                                 message.evaluation_metrics().end());
  return info;
}

}  // namespace

absl::Status StartRun(Session* session, const RunRequest& request) {
  v1::RunSpec spec;
  CHX_RETURN_IF_ERROR(FillSpec(*session, request, &spec));
  // What it works on is there then.
  CHX_RETURN_IF_ERROR(session->Synchronize());
  v1::Reply reply;
  return Ask(
      session,
      [&spec](const std::string& id, uint64_t epoch, v1::Call* call) {
        call->mutable_start_run()->set_session_id(id);
        call->mutable_start_run()->set_epoch(epoch);
        *call->mutable_start_run()->mutable_spec() = spec;
      },
      &reply);
}

absl::StatusOr<RunNews> WatchRun(Session* session, const std::string& name, uint64_t from,
                                 double wait_seconds) {
  v1::Reply reply;
  CHX_RETURN_IF_ERROR(Ask(
      session,
      [&](const std::string& id, uint64_t /*epoch*/, v1::Call* call) {
        v1::WatchRunRequest* const request = call->mutable_watch_run();
        request->set_session_id(id);
        request->set_name(name);
        request->set_from(from);
        request->set_wait_seconds(wait_seconds);
      },
      &reply));
  RunNews news;
  news.run = InfoFrom(reply.watch_run().run());
  news.next = reply.watch_run().next();
  news.dropped = reply.watch_run().dropped();
  for (const v1::RunEvent& event : reply.watch_run().events()) {
    news.events.push_back({event.number(),
                           event.kind(),
                           event.step(),
                           event.unix_time(),
                           {event.values().begin(), event.values().end()},
                           event.reason(),
                           event.text()});
  }
  return news;
}

absl::Status ControlRun(Session* session, const std::string& name, RunOrder order) {
  // What the caller has written while it was paused counts in its next step.
  if (order == RunOrder::kGoOn) CHX_RETURN_IF_ERROR(session->Synchronize());
  v1::Reply reply;
  return Ask(
      session,
      [&](const std::string& id, uint64_t /*epoch*/, v1::Call* call) {
        call->mutable_control_run()->set_session_id(id);
        call->mutable_control_run()->set_name(name);
        call->mutable_control_run()->set_order(static_cast<uint32_t>(order));
      },
      &reply);
}

absl::StatusOr<std::vector<RunInfo>> ListRuns(Session* session) {
  v1::Reply reply;
  CHX_RETURN_IF_ERROR(Ask(
      session,
      [](const std::string& id, uint64_t /*epoch*/, v1::Call* call) {
        call->mutable_list_runs()->set_session_id(id);
      },
      &reply));
  std::vector<RunInfo> runs;
  for (const v1::RunInfo& run : reply.list_runs().runs()) runs.push_back(InfoFrom(run));
  return runs;
}

}  // namespace chx
