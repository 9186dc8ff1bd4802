#include "server/session/session.h"

#include <thread>
#include <utility>

#include "ops/error.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

constexpr size_t kManyFreedFunctions = 1024;

}  // namespace

Session::Session(const Devices* devices, const SessionLimits& limits, bool share,
                 MemoryAccountPtr account)
    : state_(devices, limits, share, std::move(account)) {
  computed_.local = share;
}

Session::~Session() {
  MutexLock lock(&mutex_);
  state_.handles.Clear();
}

void Session::Execute(absl::Span<const Command> window, SessionOutput* output, uint64_t batch) {
  MutexLock lock(&mutex_);
  ComputeSlots::Run(state_.limits.compute_slots, &computed_, &state_.stop,
                    [&] { ExecuteInTurn(window, output, batch); });
}

void Session::ExecuteInTurn(absl::Span<const Command> window, SessionOutput* output,
                            uint64_t batch) {
  const StopScope scope(&state_.stop);
  state_.last_uses.Find(window);
  for (size_t i = 0; i < window.size(); ++i) {
    CommandContext context{state_, *output, i};
    const StopReason reason = state_.stop.Begin(batch);
    if (reason == StopReason::kEnded) break;
    if (reason == StopReason::kCancelled) {
      CancelCommand(window[i], context);
    } else {
      RunCommand(window[i], context);
    }
    Count(1);
  }
  state_.stop.End();
  // With what is sent anyway, or when there are many.
  std::vector<uint64_t>& freed = state_.graph.freed_functions;
  if (!output->values.empty() || freed.size() >= kManyFreedFunctions) {
    output->freed_functions.insert(output->freed_functions.end(), freed.begin(), freed.end());
    freed.clear();
  }
}

void Session::Count(int64_t new_commands) {
  const auto store = [](std::atomic<int64_t>& counter, int64_t value) {
    counter.store(value, std::memory_order_relaxed);
  };
  store(counters_.commands, counters_.commands.load(std::memory_order_relaxed) + new_commands);
  store(counters_.handles, static_cast<int64_t>(state_.handles.size()));
  store(counters_.errors, state_.errors.count());
}

Session::Outside::Outside(Session* session)
    : session_(session),
      turn_(session->state_.limits.compute_slots, &session->computed_, &session->state_.stop),
      scope_(&session->state_.stop),
      reason_(session->state_.stop.Begin(0)) {}

Session::Outside::~Outside() { session_->state_.stop.End(); }

absl::Status Session::Outside::Check(absl::string_view what) const {
  if (reason_ == StopReason::kNone) return absl::OkStatus();
  return session_->state_.stop.Error(what, reason_);
}

absl::StatusOr<Session::UploadSink> Session::BeginUpload(Handle handle, Dtype dtype,
                                                         absl::Span<const int64_t> shape,
                                                         DeviceId device) {
  MutexLock lock(&mutex_);
  state_.handles.Reserve(1);
  CHX_RETURN_IF_ERROR(state_.handles.CheckNew({&handle, 1}));
  CHX_RETURN_IF_ERROR(CheckShape("upload", shape, dtype));
  UploadSink sink;
  sink.session_ = this;
  sink.handle_ = handle;
  CHX_ASSIGN_OR_RETURN(sink.array_,
                       state_.executor.Allocate(ArraySpec(dtype, Shape(shape), device)));
  return sink;
}

absl::Status Session::UploadSink::Write(absl::string_view bytes) {
  MutexLock lock(&session_->mutex_);
  const Session::Outside outside(session_);
  CHX_RETURN_IF_ERROR(outside.Check("upload"));
  CHX_RETURN_IF_ERROR(session_->state_.executor.CopyIn(array_, written_, bytes));
  written_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status Session::UploadSink::Finish() {
  MutexLock lock(&session_->mutex_);
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
  session_->Count(0);
  return absl::OkStatus();
}

absl::StatusOr<Session::HostCopy> Session::ReadArray(Handle handle) {
  MutexLock lock(&mutex_);
  const Outside outside(this);
  CHX_RETURN_IF_ERROR(outside.Check("download"));
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, state_.handles.Read(handle));
  HostCopy copy;
  const Array& array = variable->array;
  copy.dtype = array.spec.dtype;
  copy.shape = array.spec.shape;
  CHX_ASSIGN_OR_RETURN(copy.charge,
                       MemoryCharge::Of(account(), array.spec.nbytes(), MemoryUse::kTransfers));
  CHX_ASSIGN_OR_RETURN(copy.data, state_.executor.CopyOut(array));
  return copy;
}

bool Session::Holds(Handle handle) {
  MutexLock lock(&mutex_);
  return state_.handles.contains(handle);
}

void Session::EndLatePasses() {
  if (!mutex_.TryLock()) return;
  state_.passes.EndLate();
  mutex_.Unlock();
}

std::vector<SessionOutput::Error> Session::UnreadErrors(size_t max) {
  MutexLock lock(&mutex_);
  return state_.errors.ListUnread(max);
}

std::vector<SessionOutput::Error> Session::UnreadErrorsWithin(std::chrono::milliseconds patience,
                                                              size_t max) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!mutex_.TryLock()) {
    if (std::chrono::steady_clock::now() >= end) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<SessionOutput::Error> unread = state_.errors.ListUnread(max);
  mutex_.Unlock();
  return unread;
}

SessionStats Session::stats() const {
  SessionStats stats;
  stats.handles = counters_.handles.load(std::memory_order_relaxed);
  stats.commands = counters_.commands.load(std::memory_order_relaxed);
  stats.errors = counters_.errors.load(std::memory_order_relaxed);
  stats.memory_bytes = account()->held();
  stats.array_bytes =
      account()->used_for(MemoryUse::kArrays) + account()->used_for(MemoryUse::kDeviceArrays);
  return stats;
}

}  // namespace chx::server
