#include "server/state/run_messages.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/runs/runs.h"

namespace chx::server {
namespace {

// What is larger is no enumerator, either.
template <typename Enum>
Enum EnumFrom(uint32_t number) {
  return static_cast<Enum>(std::min(number, uint32_t{255}));
}

void ToMessage(const RunCalls& calls, state::RunCalls* message) {
  message->set_program(calls.program);
  message->mutable_data()->Add(calls.data.begin(), calls.data.end());
  message->set_batch_size(calls.batch_size);
  for (const RunMetric& metric : calls.metrics) {
    state::RunMetric* const each = message->add_metrics();
    each->set_name(metric.name);
    each->set_output(metric.output);
  }
  message->set_rest(calls.rest);
  for (const RunFile& file : calls.files) {
    state::RunFile* const each = message->add_files();
    each->set_path(file.path);
    each->set_member(file.member);
    each->set_size(file.stamp.size);
    each->set_mtime_ns(file.stamp.mtime_ns);
    each->set_inode(file.stamp.inode);
    each->set_spec(file.spec);
  }
  message->set_device(calls.device);
}

RunCalls CallsFrom(const state::RunCalls& message) {
  RunCalls calls;
  calls.program = message.program();
  calls.data.assign(message.data().begin(), message.data().end());
  calls.batch_size = message.batch_size();
  for (const state::RunMetric& each : message.metrics()) {
    calls.metrics.push_back({each.name(), each.output()});
  }
  calls.rest = message.rest();
  for (const state::RunFile& each : message.files()) {
    calls.files.push_back(
        {each.path(), each.member(), {each.size(), each.mtime_ns(), each.inode()}, each.spec()});
  }
  calls.device = static_cast<DeviceId>(std::min(message.device(), uint32_t{65535}));
  return calls;
}

// A field of RunSpec is a line here and one in SpecFrom.
void ToMessage(const RunSpec& spec, state::RunSpec* message) {
  message->set_name(spec.name);
  message->set_attempt(spec.attempt);
  ToMessage(spec.step, message->mutable_step());
  message->set_steps(spec.steps);
  if (spec.shuffle.has_value()) message->set_shuffle(*spec.shuffle);
  message->set_done(spec.done);
  message->mutable_first()->Add(spec.first.begin(), spec.first.end());
  message->set_values(spec.values);
  message->set_log_every(spec.log_every);
  if (spec.evaluation.has_value()) ToMessage(*spec.evaluation, message->mutable_evaluation());
  message->set_evaluate_every(spec.evaluate_every);
  for (const RunRule& rule : spec.rules) {
    state::RunRule* const each = message->add_rules();
    each->set_kind(static_cast<uint32_t>(rule.kind));
    each->set_of_evaluation(rule.of_evaluation);
    each->set_metric(rule.metric);
    each->set_bound(rule.bound);
    each->set_patience(rule.patience);
  }
  message->set_time_limit(spec.time_limit);
  message->set_snapshot_every(spec.snapshot_every);
  message->set_snapshot_seconds(spec.snapshot_seconds);
  message->set_rows(spec.rows);
  message->set_marks(spec.marks);
  message->set_equal_weights(spec.equal_weights);
}

RunSpec SpecFrom(const state::RunSpec& message) {
  RunSpec spec;
  spec.name = message.name();
  spec.attempt = message.attempt();
  spec.step = CallsFrom(message.step());
  spec.steps = message.steps();
  if (message.order_case() == state::RunSpec::kShuffle) spec.shuffle = message.shuffle();
  spec.done = message.done();
  spec.first.assign(message.first().begin(), message.first().end());
  spec.values = message.values();
  spec.log_every = message.log_every();
  if (message.has_evaluation()) spec.evaluation = CallsFrom(message.evaluation());
  spec.evaluate_every = message.evaluate_every();
  for (const state::RunRule& each : message.rules()) {
    spec.rules.push_back({EnumFrom<RunRule::Kind>(each.kind()), each.of_evaluation(), each.metric(),
                          each.bound(), each.patience()});
  }
  spec.time_limit = message.time_limit();
  spec.snapshot_every = message.snapshot_every();
  spec.snapshot_seconds = message.snapshot_seconds();
  spec.rows = message.rows();
  spec.marks = message.marks();
  spec.equal_weights = message.equal_weights();
  return spec;
}

void ToMessage(const RunSums& sums, state::RunSums* message) {
  message->mutable_sums()->Add(sums.sums.begin(), sums.sums.end());
  message->set_count(sums.count);
}

RunSums SumsFrom(const state::RunSums& message) {
  return {{message.sums().begin(), message.sums().end()}, message.count()};
}

void ToMessage(const RunPosition& position, state::RunPosition* message) {
  message->set_step(position.step);
  ToMessage(position.log, message->mutable_log());
  for (const RunBest& best : position.best) {
    state::RunBest* const each = message->add_best();
    each->set_any(best.any);
    each->set_value(best.value);
    each->set_since(best.since);
  }
  message->set_evaluates(position.evaluates);
  message->set_evaluation_row(position.evaluation_row);
  ToMessage(position.evaluation, message->mutable_evaluation());
  message->set_seconds(position.seconds);
  message->set_reason(position.reason);
  message->set_text(position.text);
}

RunPosition PositionFrom(const state::RunPosition& message) {
  RunPosition position;
  position.step = message.step();
  position.log = SumsFrom(message.log());
  for (const state::RunBest& each : message.best()) {
    position.best.push_back({each.any(), each.value(), each.since()});
  }
  position.evaluates = message.evaluates();
  position.evaluation_row = message.evaluation_row();
  position.evaluation = SumsFrom(message.evaluation());
  position.seconds = message.seconds();
  position.reason = message.reason();
  position.text = message.text();
  return position;
}

}  // namespace

void ToMessage(const RunRecord& record, state::Run* message) {
  ToMessage(record.spec, message->mutable_spec());
  message->set_steps_per_epoch(record.steps_per_epoch);
  message->set_state(static_cast<uint32_t>(record.view.state));
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
  if (record.view.state == RunState::kEnded) return;
  message->set_order(static_cast<uint32_t>(record.order));
  ToMessage(record.position, message->mutable_position());
}

RunRecord RecordFrom(const state::Run& message) {
  RunRecord record;
  record.spec = SpecFrom(message.spec());
  record.steps_per_epoch = message.steps_per_epoch();
  record.view.state = EnumFrom<RunState>(message.state());
  record.view.step = message.step();
  record.view.next = message.next();
  record.view.dropped = message.dropped();
  for (const state::RunEvent& each : message.events()) {
    RunEvent event;
    event.number = each.number();
    event.kind = EnumFrom<RunEventKind>(each.kind());
    event.step = each.step();
    event.unix_time = each.unix_time();
    event.values.assign(each.values().begin(), each.values().end());
    event.reason = each.reason();
    event.text = each.text();
    record.view.events.push_back(std::move(event));
  }
  record.order = EnumFrom<RunOrder>(message.order());
  record.position = PositionFrom(message.position());
  return record;
}

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
