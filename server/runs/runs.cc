#include "server/runs/runs.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "ops/error.h"
#include "server/runs/run_loop.h"
#include "server/session/named_sessions.h"

namespace chx::server {

// Attached to the session.
struct Runs::OfSession {
  Mutex mutex;
  std::vector<std::shared_ptr<Run>> all ABSL_GUARDED_BY(mutex);  // oldest first
};

namespace {

absl::Status CheckRunRecord(const RunRecord& record) {
  const RunView& view = record.view;
  bool valid = CheckSessionName(record.spec.name).ok() && record.spec.steps > 0 &&
               record.steps_per_epoch > 0 && view.events.size() <= Run::kMaxRecorded + 1;
  uint64_t next = 0;
  for (const RunEvent& event : view.events) {
    valid = valid && event.number >= next && event.number < view.next &&
            event.kind <= RunEventKind::kEnded;
    next = event.number + 1;
  }
  return valid ? absl::OkStatus() : ValueError("[restore] expects a run, got another thing");
}

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
  if (records.empty()) return absl::OkStatus();
  if (records.size() > kMaxKept) return ValueError("[restore] expects fewer runs");
  const std::shared_ptr<OfSession> kept = KeptBy(session);
  MutexLock lock(&kept->mutex);
  for (RunRecord& record : records) {
    CHX_RETURN_IF_ERROR(CheckRunRecord(record));
    kept->all.push_back(std::make_shared<Run>(std::move(record), session->account()));
  }
  session->runs().kept = static_cast<int>(kept->all.size());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Run>> Runs::Start(const std::shared_ptr<Session>& session,
                                                 TenantPlace place, RunSpec spec) {
  Reap();
  const std::shared_ptr<OfSession> kept = KeptBy(session.get());
  MutexLock lock(&kept->mutex);  // one start at a time in a session
  std::vector<std::shared_ptr<Run>>& all = kept->all;
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
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<RunLoop> made, RunLoop::Make(session, std::move(spec)));
  std::shared_ptr<Run> run = made->run();
  MutexLock workers_lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the daemon is shutting down");
  if (workers_.size() >= kMaxOfDaemon) {
    return MemoryError("[runs] the daemon has ", kMaxOfDaemon, " runs, which is the limit");
  }
  session->runs().active.fetch_add(1);
  workers_.emplace_back();
  Worker* const worker = &workers_.back();
  worker->run = run;
  worker->session = session;
  auto work = [this, worker, place = std::move(place), loop = std::move(made)]() mutable {
    loop->Work();
    // Perhaps the session's end, which needs the place.
    loop = nullptr;
    place = TenantPlace();
    // Nor does a thread that has ended keep what they have of the session's memory.
    const std::shared_ptr<Run> finished = [&] {
      MutexLock done_lock(&mutex_);
      return std::move(worker->run);
    }();
    MutexLock done_lock(&mutex_);
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
  if (same != all.end()) {
    all.erase(same);
  } else if (all.size() >= kMaxKept) {
    all.erase(std::find_if(all.begin(), all.end(), ended));
  }
  all.push_back(run);
  session->runs().kept = static_cast<int>(all.size());
  return run;
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
    if (worker.run != nullptr) worker.run->Ask(RunOrder::kEndWithDaemon);
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
