#include "server/state/run_messages.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/runs/runs.h"

namespace chx::server {
namespace {

void ToMessage(const RunRecord& record, state::Run* message) {
  const RunSpec& spec = record.spec;
  message->set_name(spec.name);
  message->set_steps(spec.steps);
  message->set_steps_per_epoch(record.steps_per_epoch);
  for (const RunMetric& metric : spec.step.metrics) message->add_metrics(metric.name);
  if (spec.evaluation.has_value()) {
    message->set_evaluates(true);
    for (const RunMetric& metric : spec.evaluation->metrics) {
      message->add_evaluation_metrics(metric.name);
    }
  }
  message->set_ended(record.view.state == RunState::kEnded);
  message->set_step(record.view.step);
  message->set_next(record.view.next);
  message->set_dropped(record.view.dropped);
  for (const RunEvent& event : record.view.events) {
    state::RunEvent* const each = message->add_events();
    each->set_number(event.number);
    each->set_kind(static_cast<uint32_t>(event.kind));
    each->set_step(event.step);
    each->set_unix_time(event.unix_time);
    each->mutable_values()->Add(event.values.begin(), event.values.end());
    each->set_reason(event.reason);
    each->set_text(event.text);
  }
}

RunRecord RecordFrom(const state::Run& message) {
  RunRecord record;
  record.spec.name = message.name();
  record.spec.steps = message.steps();
  record.steps_per_epoch = message.steps_per_epoch();
  for (const std::string& name : message.metrics()) {
    record.spec.step.metrics.push_back({name, 0});
  }
  if (message.evaluates()) {
    record.spec.evaluation.emplace();
    for (const std::string& name : message.evaluation_metrics()) {
      record.spec.evaluation->metrics.push_back({name, 0});
    }
  }
  record.view.state = message.ended() ? RunState::kEnded : RunState::kRunning;
  record.view.step = message.step();
  record.view.next = message.next();
  record.view.dropped = message.dropped();
  for (const state::RunEvent& each : message.events()) {
    RunEvent event;
    event.number = each.number();
    // What is larger is no kind, either.
    event.kind = static_cast<RunEventKind>(std::min(each.kind(), uint32_t{255}));
    event.step = each.step();
    event.unix_time = each.unix_time();
    event.values.assign(each.values().begin(), each.values().end());
    event.reason = each.reason();
    event.text = each.text();
    record.view.events.push_back(std::move(event));
  }
  return record;
}

}  // namespace

void AddRuns(Session* session, state::Head* head) {
  for (const std::shared_ptr<Run>& run : Runs::List(session)) {
    ToMessage(run->Record(), head->add_runs());
  }
}

absl::Status ReadRuns(const state::Head& head, Session* session) {
  std::vector<RunRecord> records;
  for (const state::Run& run : head.runs()) records.push_back(RecordFrom(run));
  return Runs::Restore(session, std::move(records));
}

}  // namespace chx::server
