#include "server/session/session.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <variant>

#include "ops/error.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

constexpr size_t kManyFreedFunctions = 1024;
// After all that clients can cancel.
constexpr uint64_t kBatchOfRun = ~uint64_t{0};
// How long a run makes way for those who wait, and who begins anew waits for the session.
constexpr std::chrono::milliseconds kMostWay(10);

// Operators are not: what their kernels take is known, and a look at the clock after each would
// show.
bool IsTimed(const Command& command) {
  return !std::holds_alternative<command::ApplyOp>(command) &&
         !std::holds_alternative<command::Release>(command);
}

ComputeSlots::Account AccountFor(const SessionLimits& limits, bool local) {
  ComputeSlots::Account account;
  account.group = limits.turn_group;
  account.local = local;
  return account;
}

}  // namespace

Session::Session(const Devices* devices, const SessionLimits& limits, SessionResources resources)
    : count_(resources.counters != nullptr ? std::move(resources.counters)
                                           : std::make_shared<SessionCounters>(devices->size())),
      turns_(AccountFor(limits, resources.share)),
      state_(devices, limits, std::move(resources), count_.get()) {
  row_.tracer = limits.tracer;
  row_.name.tenant = limits.tenant->name;
}

Session::~Session() {
  MutexLock lock(&mutex_);
  state_.windows.Clear();
  state_.programs.Clear();
  state_.handles.Clear();
  state_.saved.Clear();
}

void Session::SetName(uint64_t number, std::string client_name) {
  row_.session = number;
  row_.name.client = std::move(client_name);
}

int Session::DeviceOf(const Command& command) {
  const auto device_of = [this](Handle handle) {
    HandleTable::Entry* const entry = state_.handles.Find(handle);
    return entry == nullptr || entry->error != nullptr ? -1
                                                       : int{entry->variable.array.spec.device};
  };
  const absl::Span<const Handle> results =
      std::visit([](const auto& c) { return ResultsOf(c); }, command);
  int device = results.empty() ? -1 : device_of(results[0]);
  if (const auto* apply = std::get_if<command::ApplyOp>(&command)) {
    for (const HandleOperand& input : apply->inputs) {
      if (device < 0 && input.is_array()) device = device_of(input.array());
    }
  }
  const Handles* outputs = nullptr;
  if (const auto* pass = std::get_if<command::Backward>(&command)) outputs = &pass->outputs;
  if (const auto* pass = std::get_if<command::ReduceBackward>(&command)) outputs = &pass->outputs;
  if (outputs != nullptr && !outputs->empty()) device = device_of((*outputs)[0]);
  return device;
}

Session::Lock::Lock(Session* session) ABSL_NO_THREAD_SAFETY_ANALYSIS : session_(session) {
  session->waiting_.fetch_add(1, std::memory_order_relaxed);
  session->mutex_.Lock();
  session->waiting_.fetch_sub(1, std::memory_order_relaxed);
  if (session->begins_anew_.load(std::memory_order_relaxed)) session->BeginAnewNow();
}

Session::Lock::~Lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { session_->mutex_.Unlock(); }

size_t Session::Execute(absl::Span<const Command> window, SessionOutput* output, uint64_t batch,
                        bool more) {
  const Lock lock(this);
  return ExecuteLocked(window, output, batch, more);
}

bool Session::ExecuteForRun(absl::Span<const Command> window, SessionOutput* output,
                            absl::FunctionRef<void()> then) {
  // The lock is not fair: whoever waits would see it taken again before it has woken up.
  const auto end = std::chrono::steady_clock::now() + kMostWay;
  while (waiting_.load(std::memory_order_relaxed) > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
  const Lock lock(this);
  if (state_.programs.recording() != nullptr) return false;
  {
    const OwnOperators own(&state_);
    ExecuteLocked(window, output, kBatchOfRun, false);
  }
  then();
  return true;
}

size_t Session::ExecuteLocked(absl::Span<const Command> window, SessionOutput* output,
                              uint64_t batch, bool more) {
  size_t done = 0;
  WindowTrace trace(row_, batch == kBatchOfRun ? 0 : batch);
  const TurnWait wait(this);
  ComputeSlots::Run(state_.limits.compute_slots, &turns_, &state_.stop, [&] {
    trace.HasTurn(wait.so_far());
    done = ExecuteInTurn(window, output, batch, more, &trace);
    turns_.awaited = !output->values.empty();
  });
  return done;
}

size_t Session::ExecuteInTurn(absl::Span<const Command> window, SessionOutput* output,
                              uint64_t batch, bool more, WindowTrace* trace) {
  const Activity::Scope activity(&activity_);
  const StopScope scope(&state_.stop);
  const int64_t began = CoarseNow();
  bool last_uses = false;  // whether they are known
  const int64_t slow = std::chrono::nanoseconds(state_.limits.slow_command).count();
  int64_t measured = count_->measured;
  const bool of_client = batch != kBatchOfRun;
  size_t i = 0;
  for (; i < window.size(); ++i) {
    CommandContext context{state_, *output, i};
    state_.executor.EndUses();
    if (of_client) {
      const size_t done = state_.windows.Run(window.subspan(i), more, batch, context);
      if (done == RepeatedWindows::kMore) break;
      if (done > 0) {
        Count(static_cast<int64_t>(done));
        if (trace->on()) trace->Ran("repeated_window", -1);
        i += done - 1;
        last_uses = false;  // those are others
        continue;
      }
    }
    if (!last_uses) state_.last_uses.Find(window);
    last_uses = true;
    const char* const name = NameOf(window[i], state_);
    activity_.Note(name);
    const bool timed = IsTimed(window[i]);
    const int64_t command_began = timed ? CoarseNow() : 0;
    const StopReason reason = state_.stop.Begin(batch);
    if (reason == StopReason::kEnded) break;
    if (reason == StopReason::kCancelled) {
      CancelCommand(window[i], context);
    } else {
      RunCommand(window[i], context);
    }
    if (of_client) state_.windows.Note(window[i], batch);
    Count(1);
    if (trace->on()) trace->Ran(name, DeviceOf(window[i]));
    if (timed) {
      NoteTime(window[i], CoarseNow() - command_began, output);
    } else if (count_->measured != measured) {
      // An estimate, for small kernels: no more than what has passed.
      const int64_t taken = count_->measured - measured;
      if (taken >= slow) NoteTime(window[i], std::min(taken, CoarseNow() - began), output);
      measured = count_->measured;
    }
  }
  state_.executor.Flush();
  state_.stop.End();
  // With what is sent anyway, or when there are many.
  std::vector<uint64_t>& freed = state_.graph.freed_functions;
  if (!of_client) return i;
  if (!output->values.empty() || freed.size() >= kManyFreedFunctions) {
    output->freed_functions.insert(output->freed_functions.end(), freed.begin(), freed.end());
    freed.clear();
  }
  return i;
}

void Session::NoteTime(const Command& command, int64_t nanoseconds, SessionOutput* output) {
  const std::chrono::milliseconds limit = state_.limits.slow_command;
  const int64_t milliseconds = nanoseconds / 1000000;
  if (limit.count() == 0 || milliseconds < limit.count()) return;
  count_->slow_commands.Add();
  output->slow.push_back(DescribeSlow(command, milliseconds, &state_));
}

void Session::Count(int64_t new_commands) {
  const auto store = [](std::atomic<int64_t>& counter, int64_t value) {
    counter.store(value, std::memory_order_relaxed);
  };
  count_->commands.Add(new_commands);
  store(counters_.handles, static_cast<int64_t>(state_.handles.size()));
  store(counters_.errors, state_.errors.count());
  store(counters_.saved, static_cast<int64_t>(state_.saved.entries().size()));
}

Session::Outside::Outside(Session* session, absl::string_view what)
    : session_(session),
      what_(what),
      trace_(session->row_, 0),
      wait_(session),
      turn_(session->state_.limits.compute_slots, &session->turns_, &session->state_.stop),
      activity_(&session->activity_),
      scope_(&session->state_.stop),
      reason_(session->state_.stop.Begin(0)) {
  session->state_.executor.EndUses();
}

Session::Outside::~Outside() {
  session_->state_.stop.End();
  trace_.Transferred(what_, bytes_);
}

absl::Status Session::Outside::Check() const {
  if (reason_ == StopReason::kNone) return absl::OkStatus();
  return session_->state_.stop.Error(what_, reason_);
}

absl::StatusOr<Session::UploadSink> Session::BeginUpload(Handle handle, Dtype dtype,
                                                         absl::Span<const int64_t> shape,
                                                         DeviceId device) {
  if (IsOfProgram(handle)) return ValueError("[upload] expects handles below 2^63");
  const Lock lock(this);
  state_.handles.Reserve(1);
  CHX_RETURN_IF_ERROR(state_.handles.CheckNew({&handle, 1}));
  CHX_RETURN_IF_ERROR(CheckShape("upload", shape, dtype));
  state_.executor.EndUses();
  UploadSink sink;
  sink.session_ = this;
  sink.handle_ = handle;
  sink.incarnation_ = state_.incarnation;
  CHX_ASSIGN_OR_RETURN(sink.array_,
                       state_.executor.Allocate(ArraySpec(dtype, Shape(shape), device)));
  return sink;
}

absl::Status Session::UploadSink::Write(absl::string_view bytes) {
  const Lock lock(session_);
  Session::Outside outside(session_, "upload");
  CHX_RETURN_IF_ERROR(outside.Check());
  outside.set_bytes(static_cast<int64_t>(bytes.size()));
  CHX_RETURN_IF_ERROR(session_->state_.executor.CopyIn(array_, written_, bytes));
  written_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status Session::UploadSink::Finish() {
  const Lock lock(session_);
  if (incarnation_ != session_->state_.incarnation) {
    return absl::FailedPreconditionError("the session was taken over by another client");
  }
  if (written_ != array_.spec.nbytes()) {
    return ValueError("[upload] expects ", array_.spec.nbytes(), " bytes for ",
                      array_.spec.ToString(), ", got ", written_);
  }
  HandleTable& handles = session_->state_.handles;
  handles.Reserve(1);
  CHX_RETURN_IF_ERROR(handles.CheckNew({&handle_, 1}));
  Variable variable;
  variable.array = std::move(array_);
  handles.Bind(handle_, std::move(variable));
  session_->counters_.uploads.fetch_add(1, std::memory_order_relaxed);
  session_->Count(0);
  return absl::OkStatus();
}

absl::StatusOr<Session::HostCopy> Session::ReadArray(Handle handle) {
  if (IsOfProgram(handle)) return ValueError("[download] expects handles below 2^63");
  const Lock lock(this);
  Outside outside(this, "download");
  CHX_RETURN_IF_ERROR(outside.Check());
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, state_.handles.Read(handle));
  HostCopy copy;
  const Array& array = variable->array;
  copy.dtype = array.spec.dtype;
  copy.shape = array.spec.shape;
  CHX_ASSIGN_OR_RETURN(copy.charge,
                       MemoryCharge::Of(account(), array.spec.nbytes(), MemoryUse::kTransfers));
  outside.set_bytes(array.spec.nbytes());
  const DeviceId device = array.spec.device;
  CHX_ASSIGN_OR_RETURN(copy.data, state_.executor.CopyOut(array));
  if (state_.BindLateError(handle, device) != nullptr) return state_.handles.Read(handle).status();
  return copy;
}

bool Session::Holds(Handle handle) {
  const Lock lock(this);
  return state_.handles.contains(handle);
}

bool Session::GiveBackCaches(const Device* device) {
  if (!mutex_.TryLock()) return false;
  const bool any = state_.executor.TryTrim(device);
  mutex_.Unlock();
  return any;
}

void Session::BeginAnew() {
  counters_.uploads = 0;
  begins_anew_ = true;
  const auto end = std::chrono::steady_clock::now() + kMostWay;
  waiting_.fetch_add(1, std::memory_order_relaxed);
  do {
    if (!mutex_.TryLock()) {
      std::this_thread::sleep_for(std::chrono::microseconds(10));
      continue;
    }
    if (begins_anew_) BeginAnewNow();
    mutex_.Unlock();
  } while (begins_anew_ && std::chrono::steady_clock::now() < end);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void Session::BeginAnewNow() {
  begins_anew_ = false;
  state_.BeginAnew();
  Count(0);
}

Session::Attachment Session::Attached(absl::FunctionRef<Attachment()> make) {
  MutexLock lock(&attached_mutex_);
  if (attached_ == nullptr) attached_ = make();
  return attached_;
}

Session::Attachment Session::FindAttached() {
  MutexLock lock(&attached_mutex_);
  return attached_;
}

void Session::Inspect(absl::FunctionRef<void(SessionState&)> look) {
  const Lock lock(this);
  look(state_);
  Count(0);
}

bool Session::InspectWithin(std::chrono::milliseconds patience,
                            absl::FunctionRef<void(SessionState&)> look)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!LockWithin(patience)) return false;
  if (begins_anew_.load(std::memory_order_relaxed)) BeginAnewNow();
  look(state_);
  Count(0);
  mutex_.Unlock();
  return true;
}

bool Session::LockWithin(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  waiting_.fetch_add(1, std::memory_order_relaxed);  // runs make way
  bool locked = mutex_.TryLock();
  while (!locked && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    locked = mutex_.TryLock();
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return locked;
}

void Session::EndLatePasses() {
  if (!mutex_.TryLock()) return;
  state_.passes.EndLate();
  mutex_.Unlock();
}

std::vector<SessionOutput::Error> Session::UnreadErrors(size_t max) {
  const Lock lock(this);
  return state_.errors.ListUnread(max);
}

std::vector<SessionOutput::Error> Session::UnreadErrorsWithin(std::chrono::milliseconds patience,
                                                              size_t max) {
  if (!LockWithin(patience)) return {};
  std::vector<SessionOutput::Error> unread = state_.errors.ListUnread(max);
  mutex_.Unlock();
  return unread;
}

SessionStats Session::stats() const {
  SessionStats stats;
  stats.handles = counters_.handles.load(std::memory_order_relaxed);
  stats.commands = count_->commands.value();
  for (const DeviceCounters& device : count_->devices) {
    stats.device_time += std::chrono::nanoseconds(device.busy_nanoseconds.value());
  }
  stats.errors = counters_.errors.load(std::memory_order_relaxed);
  stats.memory_bytes = account()->held();
  if (state_.sharing != nullptr) {
    stats.shared_bytes = state_.sharing->sharer().holding->load(std::memory_order_relaxed);
  }
  const int64_t away = account()->used_for(MemoryUse::kAway);
  stats.array_bytes = account()->used_for(MemoryUse::kArrays) +
                      account()->used_for(MemoryUse::kDeviceArrays) + away;
  stats.spilled_bytes = account()->used_for(MemoryUse::kSpilled) + away;
  return stats;
}

}  // namespace chx::server
