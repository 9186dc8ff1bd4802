#include "server/runs/runs.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/session/named_sessions.h"

namespace chx::server {

// Attached to the session.
struct Runs::OfSession {
  Mutex starting;  // one start at a time
  Mutex mutex;     // also taken under the session's lock
  std::vector<std::shared_ptr<Run>> all ABSL_GUARDED_BY(mutex);  // oldest first
};

namespace {

constexpr uint64_t kMaxNumber = uint64_t{1} << 62;  // of events

bool IsReason(const std::string& reason) {
  const absl::string_view reasons[] = {"",           "done",  "stopped", "rule",
                                       "time limit", "error", "session", "daemon"};
  return std::count(std::begin(reasons), std::end(reasons), reason) == 1;
}

// What has happened, of a run that may have ended.
absl::Status CheckHistory(const RunRecord& record) {
  const RunView& view = record.view;
  bool valid = CheckSessionName(record.spec.name).ok() && record.spec.steps > 0 &&
               record.steps_per_epoch > 0 && view.events.size() <= Run::kMaxEvents &&
               view.next <= kMaxNumber && view.dropped <= kMaxNumber &&
               view.state <= RunState::kEnded;
  uint64_t next = 0;
  for (const RunEvent& event : view.events) {
    valid = valid && event.number >= next && event.number < view.next &&
            event.kind <= RunEventKind::kEnded && IsReason(event.reason);
    next = event.number + 1;
  }
  return valid ? absl::OkStatus() : ValueError("[restore] expects a run, got another thing");
}

// What runs have of their session.
struct Owned {
  absl::flat_hash_set<Handle> handles;
  absl::flat_hash_set<uint64_t> programs;
  int runs = 0;

  // Of one that goes on. An error if it cannot, or another one has it.
  absl::Status Add(const RunRecord& record) {
    CHX_RETURN_IF_ERROR(CheckRunSpec(record.spec));
    CHX_RETURN_IF_ERROR(CheckRunPosition(record.spec, record.position));
    if (record.order > RunOrder::kStop) return ValueError("[restore] expects a known order");
    if (++runs > Runs::kMaxActive) {
      return MemoryError("[restore] expects at most ", Runs::kMaxActive, " runs that go on");
    }
    bool own = Add(record.spec.step);
    if (record.spec.evaluation.has_value()) own = Add(*record.spec.evaluation) && own;
    for (Handle table : {record.spec.values, record.spec.rows, record.spec.marks}) {
      if (table != 0) own = Add(table, &handles) && own;
    }
    return own ? absl::OkStatus() : ValueError("[restore] expects runs with arrays of their own");
  }
  bool Add(const RunCalls& calls) {
    bool own = Add(calls.program, &programs);
    if (calls.rest != 0) own = Add(calls.rest, &programs) && own;
    for (Handle handle : calls.data) {
      if (handle != 0) own = Add(handle, &handles) && own;  // else it is in a file
    }
    return own;
  }
  static bool Add(uint64_t number, absl::flat_hash_set<uint64_t>* numbers) {
    return IsOfRun(number) && numbers->insert(number).second;
  }
};

// Frees what is in a snapshot for runs that are not.
void ReleaseOthers(const Owned& owned, SessionState* state) {
  Handles handles;
  state->handles.ForEach([&](Handle handle, const HandleTable::Entry& /*entry*/) {
    if (IsOfRun(handle) && !owned.handles.contains(handle)) handles.push_back(handle);
  });
  for (Handle handle : handles) state->handles.Release(handle);
  std::vector<uint64_t> programs;
  state->programs.ForEach([&](uint64_t number, const Program& /*program*/) {
    if (IsOfRun(number) && !owned.programs.contains(number)) programs.push_back(number);
  });
  for (uint64_t number : programs) DropProgram(state->programs.Take(number), state);
}

constexpr char kCannotGoOn[] = "the daemon was restarted, and the run cannot go on: ";

bool HasEnded(Run* run) {
  return run->Watch(~uint64_t{0}, std::chrono::milliseconds(0)).state == RunState::kEnded;
}

}  // namespace

std::shared_ptr<Runs::OfSession> Runs::KeptBy(Session* session) {
  return std::static_pointer_cast<OfSession>(
      session->Attached([] { return std::make_shared<OfSession>(); }));
}

std::vector<std::shared_ptr<Run>> Runs::List(Session* session) {
  const auto kept = std::static_pointer_cast<OfSession>(session->FindAttached());
  if (kept == nullptr) return {};
  MutexLock lock(&kept->mutex);
  return kept->all;
}

absl::StatusOr<std::shared_ptr<Run>> Runs::Find(Session* session, const std::string& name) {
  for (std::shared_ptr<Run>& run : List(session)) {
    if (run->spec().name == name) return std::move(run);
  }
  return ValueError("[runs] the session has no run '", name, "'");
}

absl::Status Runs::Restore(Session* session, std::vector<RunRecord> records) {
  absl::Status bad;
  std::vector<std::shared_ptr<Run>> all;
  absl::flat_hash_set<std::string> names;
  Owned owned;
  for (RunRecord& record : records) {
    absl::Status status = CheckHistory(record);
    bad.Update(status);
    if (!status.ok() || all.size() == kMaxKept || !names.insert(record.spec.name).second) {
      bad.Update(ValueError("[restore] expects fewer runs, with names of their own"));
      continue;
    }
    if (record.view.state != RunState::kEnded) status = owned.Add(record);
    if (!status.ok()) record.view.state = RunState::kEnded;
    all.push_back(std::make_shared<Run>(std::move(record), session->account()));
    if (status.ok()) continue;
    bad.Update(status);
    all.back()->Note(RunEventKind::kEnded, {}, "daemon",
                     absl::StrCat(kCannotGoOn, status.message()));
  }
  session->Inspect([&](SessionState& state) {
    for (const std::shared_ptr<Run>& run : all) state.live_runs += run->suspended() ? 1 : 0;
    ReleaseOthers(owned, &state);
  });
  if (all.empty()) return bad;
  session->runs().kept = static_cast<int>(all.size());
  const std::shared_ptr<OfSession> kept = KeptBy(session);
  MutexLock lock(&kept->mutex);
  kept->all = std::move(all);
  return bad;
}

void Runs::Resume(const std::shared_ptr<Session>& session, absl::Status may_read_files,
                  TenantPlace place) {
  {
    MutexLock lock(&mutex_);
    if (!serves_) {
      waiting_.push_back({session, std::move(may_read_files), std::move(place)});
      return;
    }
  }
  ResumeAll(session, may_read_files, place);
}

void Runs::Serve() {
  std::vector<Waiting> waiting;
  {
    MutexLock lock(&mutex_);
    serves_ = true;
    waiting.swap(waiting_);
  }
  for (const Waiting& each : waiting) {
    const std::shared_ptr<Session> session = each.session.lock();
    if (session != nullptr) ResumeAll(session, each.may_read_files, each.place);
  }
}

void Runs::ResumeAll(const std::shared_ptr<Session>& session, const absl::Status& may_read_files,
                     const TenantPlace& place) {
  for (const std::shared_ptr<Run>& run : List(session.get())) {
    if (!run->suspended()) continue;
    absl::StatusOr<std::unique_ptr<RunLoop>> loop =
        RunLoop::Resume(session, may_read_files, run, options_);
    absl::Status status = loop.status();
    if (!loop.ok()) {
      run->Continue();
    } else {
      run->Note(RunEventKind::kWarning, {}, "",
                absl::StrCat("the daemon was restarted; the run goes on from step ",
                             run->position().step));
      status = Launch(session, place, *std::move(loop));
    }
    if (status.ok() || run->suspended()) continue;
    run->Note(RunEventKind::kEnded, {}, "daemon", absl::StrCat(kCannotGoOn, status.message()));
  }
}

absl::StatusOr<std::shared_ptr<Run>> Runs::Start(const std::shared_ptr<Session>& session,
                                                 TenantPlace place, RunSpec spec) {
  Reap();
  if (spec.asks_for_snapshots() && options_.snapshot == nullptr) {
    return ValueError("[runs] cannot write snapshots: the daemon has no --state-dir");
  }
  const std::shared_ptr<OfSession> kept = KeptBy(session.get());
  MutexLock starting(&kept->starting);
  std::vector<std::shared_ptr<Run>> all = List(session.get());
  const auto same = std::find_if(all.begin(), all.end(), [&spec](const std::shared_ptr<Run>& run) {
    return run->spec().name == spec.name;
  });
  if (same != all.end()) {
    if ((*same)->spec().attempt == spec.attempt) return *same;
    if (!HasEnded(same->get())) {
      return ValueError("[runs] the session has a run '", spec.name, "' that has not ended");
    }
  }
  const auto ended = [](const std::shared_ptr<Run>& run) { return HasEnded(run.get()); };
  if (all.size() - static_cast<size_t>(std::count_if(all.begin(), all.end(), ended)) >=
      kMaxActive) {
    return MemoryError("[runs] the session has ", kMaxActive, " runs, which is the limit");
  }
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<RunLoop> loop,
                       RunLoop::Make(session, std::move(spec), options_));
  std::shared_ptr<Run> run = loop->run();
  const std::vector<std::shared_ptr<Run>> before = all;
  if (same != all.end()) {
    all.erase(same);
  } else if (all.size() >= kMaxKept) {
    all.erase(std::find_if(all.begin(), all.end(), ended));
  }
  all.push_back(run);
  // Before its first step, which no snapshot is to have without it.
  {
    MutexLock lock(&kept->mutex);
    kept->all.swap(all);
  }
  const absl::Status launched = Launch(session, std::move(place), std::move(loop));
  MutexLock lock(&kept->mutex);
  if (!launched.ok()) {
    kept->all = before;
    return launched;
  }
  session->runs().kept = static_cast<int>(kept->all.size());
  return run;
}

absl::Status Runs::Launch(const std::shared_ptr<Session>& session, TenantPlace place,
                          std::unique_ptr<RunLoop> loop) {
  MutexLock lock(&mutex_);
  if (stopping_) {
    if (loop->run()->suspended()) loop->Leave();  // for the next daemon
    return absl::UnavailableError("the daemon is shutting down");
  }
  loop->run()->Continue();
  if (workers_.size() >= kMaxOfDaemon) {
    return MemoryError("[runs] the daemon has ", kMaxOfDaemon, " runs, which is the limit");
  }
  session->runs().active.fetch_add(1);
  workers_.emplace_back();
  Worker* const worker = &workers_.back();
  worker->run = loop->run();
  worker->session = session;
  auto work = [this, worker, place = std::move(place), loop = std::move(loop)]() mutable {
    loop->Work();
    // Perhaps the session's end, which needs the place.
    loop = nullptr;
    place = TenantPlace();
    std::shared_ptr<Run> finished;  // ends without the lock: it may be the session's last memory
    MutexLock done_lock(&mutex_);
    finished = std::move(worker->run);
    worker->done = true;
    ended_.notify_all();
  };
  try {
    worker->thread = std::thread(std::move(work));
  } catch (const std::system_error&) {
    workers_.pop_back();
    session->runs().active.fetch_sub(1);
    return absl::UnavailableError("the daemon has no thread for the run; try again later");
  }
  return absl::OkStatus();
}

void Runs::Reap() {
  std::list<Worker> done;
  {
    MutexLock lock(&mutex_);
    for (auto it = workers_.begin(); it != workers_.end();) {
      const auto next = std::next(it);
      if (it->done) done.splice(done.end(), workers_, it);
      it = next;
    }
  }
  for (Worker& worker : done) worker.thread.join();
}

void Runs::AskToEnd() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  for (Worker& worker : workers_) {
    if (worker.run == nullptr) continue;
    if (options_.snapshot != nullptr) {
      worker.run->Suspend();
    } else {
      worker.run->Ask(RunOrder::kEndWithDaemon);
    }
  }
}

void Runs::EndWithin(std::chrono::milliseconds patience) {
  AskToEnd();
  const auto end = std::chrono::steady_clock::now() + patience;
  MutexLock lock(&mutex_);
  const auto all_done = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.done; });
  };
  while (!all_done() && std::chrono::steady_clock::now() < end) ended_.wait_until(mutex_, end);
  // Steps that are too long: nobody waits for them.
  for (Worker& worker : workers_) {
    const std::shared_ptr<Session> session = worker.session.lock();
    if (!worker.done && session != nullptr) session->stop().EndSession();
  }
}

void Runs::Stop() {
  AskToEnd();
  {
    MutexLock lock(&mutex_);
    while (std::any_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return !worker.done; })) {
      ended_.wait(mutex_);
    }
  }
  Reap();
}

}  // namespace chx::server
