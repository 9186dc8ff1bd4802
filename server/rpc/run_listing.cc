#include "server/rpc/run_listing.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ops/error.h"
#include "server/log/printable.h"
#include "server/runs/runs.h"

namespace chx::server {
namespace {

constexpr size_t kMaxListed = 1024;
// On the status page, which asks for them each second.
constexpr size_t kMaxShown = 20;
constexpr size_t kMaxCurves = 4;  // of the metrics, and as many of the evaluation's
constexpr size_t kPoints = 100;   // of a curve

struct Found {
  SessionRecordPtr record;
  std::shared_ptr<Run> run;
  RunView view;
};

// At most so many, those that go on first; each part by sessions, and then in their order. *count
// is how many there are.
std::vector<Found> Find(SessionManager* manager, const Tenant* who, size_t most, size_t points,
                        uint32_t* count) {
  std::vector<SessionRecordPtr> records = manager->List();
  std::sort(
      records.begin(), records.end(),
      [](const SessionRecordPtr& a, const SessionRecordPtr& b) { return a->number < b->number; });
  std::vector<Found> running;
  std::vector<Found> ended;
  for (const SessionRecordPtr& record : records) {
    if (who != nullptr && !MayAdminister(*who, *record->owner.tenant)) continue;
    for (std::shared_ptr<Run>& run : Runs::List(record->session.get())) {
      const RunState state = run->Watch(~uint64_t{0}, std::chrono::milliseconds(0)).state;
      (state == RunState::kEnded ? ended : running).push_back({record, std::move(run), {}});
    }
  }
  *count = static_cast<uint32_t>(running.size() + ended.size());
  std::move(ended.begin(), ended.end(), std::back_inserter(running));
  if (running.size() > most) running.resize(most);
  for (Found& found : running) found.view = found.run->Sample(points);
  return running;
}

// The last values of a kind; empty: there are none.
std::vector<double> LastOf(RunEventKind kind, const RunView& view) {
  const auto last = std::find_if(view.events.rbegin(), view.events.rend(),
                                 [kind](const RunEvent& event) { return event.kind == kind; });
  return last == view.events.rend() ? std::vector<double>() : last->values;
}

void FillStatus(const Found& found, v1::RunStatus* status) {
  const SessionRecord& record = *found.record;
  status->set_session(record.number);
  status->set_session_name(record.owner.name);
  status->set_tenant(record.owner.tenant->name);
  v1::RunInfo* const info = status->mutable_run();
  FillRunInfo(*found.run, found.view, info);
  for (auto* names : {info->mutable_metrics(), info->mutable_evaluation_metrics()}) {
    for (std::string& name : *names) name = Printable(name);
  }
  const bool ended = found.view.state == RunState::kEnded;
  if (!found.view.events.empty()) {
    const double end = ended ? found.view.events.back().unix_time
                             : absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
    status->set_age_seconds(std::max(end - found.view.events.front().unix_time, 0.0));
  }
  const double limit = found.run->spec().time_limit;
  if (limit > 0 && !ended) status->set_left_seconds(std::max(limit - found.run->seconds(), 0.0));
  const std::vector<double> metrics = LastOf(RunEventKind::kLog, found.view);
  status->mutable_metrics()->Add(metrics.begin(), metrics.end());
  const std::vector<double> evaluation = LastOf(RunEventKind::kEvaluation, found.view);
  status->mutable_evaluation_metrics()->Add(evaluation.begin(), evaluation.end());
  if (!ended || found.view.events.empty()) return;
  status->set_reason(found.view.events.back().reason);
  status->set_text(Printable(found.view.events.back().text));
}

void AddCurves(RunEventKind kind, const std::string& prefix, const RunView& view,
               const google::protobuf::RepeatedPtrField<std::string>& names,
               v1::RunStatus* status) {
  const auto count = std::min(static_cast<size_t>(names.size()), kMaxCurves);
  for (size_t i = 0; i < count; ++i) {
    v1::RunCurve* const curve = status->add_curves();
    curve->set_metric(absl::StrCat(prefix, names[static_cast<int>(i)]));
    for (const RunEvent& event : view.events) {
      if (event.kind != kind || i >= event.values.size()) continue;
      curve->add_steps(event.step);
      curve->add_values(event.values[i]);
    }
  }
}

}  // namespace

void FillRunInfo(const Run& run, const RunView& view, v1::RunInfo* info) {
  const RunSpec& spec = run.spec();
  info->set_name(spec.name);
  info->set_state(static_cast<uint32_t>(view.state));
  info->set_step(view.step);
  info->set_steps(spec.steps);
  info->set_steps_per_epoch(run.steps_per_epoch());
  for (const RunMetric& metric : spec.step.metrics) info->add_metrics(metric.name);
  if (!spec.evaluation.has_value()) return;
  for (const RunMetric& metric : spec.evaluation->metrics) {
    info->add_evaluation_metrics(metric.name);
  }
}

void ListAllRuns(SessionManager* manager, const Tenant& who, v1::ListAllRunsReply* reply) {
  uint32_t count = 0;
  for (const Found& found : Find(manager, &who, kMaxListed, 1, &count)) {
    FillStatus(found, reply->add_runs());
  }
  reply->set_num_runs(count);
}

void FillRuns(SessionManager* manager, v1::NodeStatusReply* reply) {
  uint32_t count = 0;
  for (const Found& found : Find(manager, nullptr, kMaxShown, kPoints, &count)) {
    v1::RunStatus* const status = reply->add_runs();
    FillStatus(found, status);
    AddCurves(RunEventKind::kLog, "", found.view, status->run().metrics(), status);
    AddCurves(RunEventKind::kEvaluation, "evaluation/", found.view,
              status->run().evaluation_metrics(), status);
  }
  reply->set_num_runs(count);
}

absl::Status OrderRun(SessionManager* manager, const Tenant& who,
                      const v1::OrderRunRequest& request) {
  const SessionRecordPtr record = manager->FindByNumber(request.session());
  if (record == nullptr || !MayAdminister(who, *record->owner.tenant)) {
    return absl::NotFoundError(absl::StrCat("there is no session number ", request.session()));
  }
  CHX_ASSIGN_OR_RETURN(const std::shared_ptr<Run> run,
                       Runs::Find(record->session.get(), request.name()));
  if (request.order() > static_cast<uint32_t>(RunOrder::kStop)) {
    return ValueError("[runs] expects an order of 0 to 2, got ", request.order());
  }
  if (run->Sample(1).state == RunState::kEnded) {
    return ValueError("[runs] the run '", request.name(), "' has ended");
  }
  run->Ask(static_cast<RunOrder>(request.order()));
  return absl::OkStatus();
}

std::string DescribeOrder(const v1::OrderRunRequest& request) {
  const char* const orders[] = {"resume_run", "pause_run", "stop_run"};
  const char* const order =
      request.order() < std::size(orders) ? orders[request.order()] : "order_run";
  return absl::StrCat(order, " ", request.name());
}

}  // namespace chx::server
