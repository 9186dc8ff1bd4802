#include "client/command_queue.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/fork_guard.h"
#include "client/locations.h"
#include "client/modes.h"
#include "client/waiting.h"
#include "ops/error.h"

namespace chx {
namespace {

// Who sends batches of its own is looked after less often: many clients' threads would take turns.
constexpr std::chrono::milliseconds kFlushInterval{1};
constexpr std::chrono::milliseconds kMostFlushInterval{8};
constexpr int kQuietIntervals = 20;  // after which the thread sleeps until it is woken

// An address that no other thread has.
const void* ThisThread() {
  static thread_local const char here = 0;
  return &here;
}

command::DefineMode Definition(uint16_t number, const ModeState& state, const Session* session) {
  command::DefineMode define;
  define.mode = number;
  define.record_by_default = state.RecordsByDefault(session);
  for (const auto& [id, record] : state.exceptions) define.entries.push_back({id, record});
  return define;
}

}  // namespace

CommandQueue::CommandQueue(Connection* connection, const Session* session)
    : connection_(connection),
      session_(session),
      fork_generation_(ForkGeneration()),
      process_(getpid()),
      pending_(connection->max_batch_bytes(), connection->max_batch_commands()),
      flush_interval_(kFlushInterval),
      flusher_([this] { FlushLoop(); }) {}

bool CommandQueue::Forked() const { return fork_generation_ != ForkGeneration(); }

absl::Status CommandQueue::CheckUsable() const {
  const void* const recorder = recorder_.load(std::memory_order_relaxed);
  if (recorder != nullptr && recorder != ThisThread()) {
    return MakeError(ErrorKind::kContext,
                     "another thread records a program in this session: wait for it, or connect "
                     "to one of your own");
  }
  return CheckOpen();
}

void CommandQueue::BeginRecording() {
  recorder_.store(ThisThread(), std::memory_order_relaxed);
  recorded_from_ = num_operators_;
}

bool CommandQueue::Records() const {
  return recorder_.load(std::memory_order_relaxed) == ThisThread();
}

void CommandQueue::EndRecording() { recorder_.store(nullptr, std::memory_order_relaxed); }

absl::Status CommandQueue::CheckOpen() const {
  if (Forked()) {
    return MakeError(ErrorKind::kConnection,
                     absl::StrCat("this session was opened in process ", process_,
                                  ", which is not this one: connect again after fork()"));
  }
  return connection_->ok() ? absl::OkStatus() : connection_->status();
}

uint32_t CommandQueue::Location() {
  const uint32_t location = CurrentLocation();
  if (location == 0) return 0;
  if (location >= defined_locations_.size()) defined_locations_.resize(location + 64);
  if (!defined_locations_[location]) {
    defined_locations_[location] = true;
    const std::string text = LocationText(location);
    pending_.writer().Write(command::DefineLocation{location, text});
    Appended();
  }
  return location;
}

uint16_t CommandQueue::Mode() {
  const auto [number, version] = CurrentModeNumber();
  if (number == 0) return 0;
  if (number >= defined_modes_.size()) defined_modes_.resize(number + 16);
  if (defined_modes_[number] != version) {
    defined_modes_[number] = version;
    Append(Definition(number, CurrentMode(), session_));
  }
  return number;
}

void CommandQueue::NoteStep(const Command& command) {
  if (std::holds_alternative<command::Backward>(command) ||
      std::holds_alternative<command::Grad>(command) ||
      std::holds_alternative<command::ReduceBackward>(command)) {
    step_ends_.NoteBackward();
  } else if (std::holds_alternative<command::SetGrad>(command)) {
    step_ends_.NoteWrite();
  }
}

void CommandQueue::Append(const Command& command) {
  NoteStep(command);
  pending_.writer().Write(command);
  Appended();
  pending_.SealIfLarge();
}

void CommandQueue::AppendReleases() {
  if (pending_.AppendReleases() && flusher_idle_) wake_flusher_.notify_one();
}

Handle CommandQueue::AllocateHandle() {
  MutexLock lock(&mutex_);
  return next_handle_++;
}

bool CommandQueue::ApplyOp(uint16_t op_id, const OpCall<HandleOperand>& call,
                           absl::Span<Handle> outputs) {
  MutexLock lock(&mutex_);
  for (Handle& handle : outputs) handle = next_handle_++;
  const uint32_t location = Location();
  const uint16_t mode = Mode();
  if (outputs.empty()) {
    step_ends_.NoteWrite();
  } else if (step_ends_.NoteOperator() && pending_.StepIsDue() && connection_->TakesAtOnce()) {
    pending_.EndStep();
  }
  pending_.writer().ApplyOp({op_id, call.device, mode, location, call.inputs, call.attrs, outputs});
  ++num_operators_;
  Appended();
  return pending_.due();
}

bool CommandQueue::UploadInline(Dtype dtype, DeviceId device, absl::Span<const int64_t> shape,
                                absl::string_view data, Handle* handle) {
  MutexLock lock(&mutex_);
  *handle = next_handle_++;
  pending_.writer().Write(
      command::Upload{*handle, dtype, device, Ints(shape.begin(), shape.end()), data});
  Appended();
  return pending_.due();
}

absl::Status CommandQueue::FetchInline(Handle handle, void* out, size_t bytes) {
  uint64_t request = 0;
  {
    MutexLock lock(&mutex_);
    request = next_request_++;
    pending_.writer().Write(command::Fetch{request, handle});
    Appended();
  }
  CHX_RETURN_IF_ERROR(FlushFor(request));
  return connection_->Wait(request, out, bytes);
}

void CommandQueue::Release(Handle handle, int64_t bytes) {
  if (!CheckOpen().ok()) return;
  MutexLock lock(&mutex_);
  const bool append = pending_.Release(handle, bytes);
  if (flusher_idle_) wake_flusher_.notify_one();
  if (append) AppendReleases();
}

absl::Status CommandQueue::Flush(bool interruptible) {
  CHX_RETURN_IF_ERROR(CheckOpen());
  {
    MutexLock lock(&mutex_);
    if (pending_.empty()) return absl::OkStatus();  // nor is there anything to wait for
  }
  bool more = true;
  const auto take = [this, &more](std::string* commands) {
    MutexLock lock(&mutex_);
    AppendReleases();
    return pending_.Take(commands, &more);
  };
  while (more) CHX_RETURN_IF_ERROR(connection_->Send(take, interruptible));
  return absl::OkStatus();
}

absl::Status CommandQueue::FlushDue() {
  CHX_RETURN_IF_ERROR(CheckOpen());
  bool due = true;
  const auto take = [this, &due](std::string* commands) {
    MutexLock lock(&mutex_);
    if (!pending_.due()) return uint32_t{0};  // another thread has sent it
    if (!pending_.has_ended()) AppendReleases();
    bool more = false;
    const uint32_t taken = pending_.Take(commands, &more);
    due = pending_.due();
    return taken;
  };
  while (std::exchange(due, false)) CHX_RETURN_IF_ERROR(connection_->Send(take, true));
  return absl::OkStatus();
}

absl::Status CommandQueue::FlushFor(uint64_t request) {
  if (Records()) {
    connection_->Abandon(request);
    return MakeError(ErrorKind::kNotImplemented,
                     "[jit] cannot record this: it waits for a value, which is another one in each "
                     "run. Return the array, and read it outside of the function");
  }
  return FlushForAny(request);
}

absl::Status CommandQueue::FlushForAny(uint64_t request) {
  absl::Status flushed = Flush(true);
  if (Interruption::Is(flushed)) connection_->Abandon(request);
  return flushed;
}

absl::StatusOr<std::string> CommandQueue::AnswerTo(uint64_t request, bool interruptible) {
  CHX_RETURN_IF_ERROR(interruptible ? FlushFor(request) : Flush());
  return connection_->WaitFor(request, interruptible);
}

absl::StatusOr<std::string> CommandQueue::AnswerAboutGraphs(uint64_t request) {
  CHX_RETURN_IF_ERROR(FlushForAny(request));
  return connection_->WaitFor(request, true);
}

absl::Status CommandQueue::Synchronize() {
  CHX_RETURN_IF_ERROR(CheckUsable());
  uint64_t request = 0;
  {
    MutexLock lock(&mutex_);
    request = next_request_++;
    pending_.writer().Write(command::Barrier{request});
    Appended();
  }
  CHX_RETURN_IF_ERROR(FlushFor(request));
  return connection_->Wait(request, nullptr, 0);
}

bool CommandQueue::WaitForWork(int* quiet, std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(&mutex_);
  if (closed_) return false;
  if (*quiet > kQuietIntervals) {
    flusher_idle_ = true;
    while (!closed_ && pending_.empty() && std::chrono::steady_clock::now() < deadline) {
      wake_flusher_.wait_until(mutex_, deadline);
    }
    flusher_idle_ = false;
  }
  // Who sends batches of its own need not wait behind this thread for one of them.
  bool sends_itself = false;
  do {
    const int64_t batches = pending_.total_batches();
    if (!pending_.empty() || *quiet <= kQuietIntervals) {
      wake_flusher_.wait_for(mutex_, flush_interval_);
    }
    sends_itself = pending_.total_batches() != batches;
    flush_interval_ =
        sends_itself ? std::min(2 * flush_interval_, kMostFlushInterval) : kFlushInterval;
  } while (!closed_ && !pending_.empty() && sends_itself &&
           std::chrono::steady_clock::now() < deadline);
  *quiet = pending_.empty() ? *quiet + 1 : 0;
  return !closed_;
}

// Ticks while there is something to send and sleeps after it was quiet for a while: what is pending
// is sent after one or two intervals. Now and then it checks the connection.
void CommandQueue::FlushLoop() {
  int quiet = 0;
  auto next_check = std::chrono::steady_clock::now();
  while (WaitForWork(&quiet, next_check)) {
    if (quiet == 0 && !Flush().ok()) return;  // lost for good, as the next call will say
    if (std::chrono::steady_clock::now() < next_check) continue;
    const absl::StatusOr<std::chrono::milliseconds> next = connection_->KeepAlive();
    if (!next.ok()) return;
    next_check = std::chrono::steady_clock::now() + *next;
  }
}

bool CommandQueue::Close() {
  {
    MutexLock lock(&mutex_);
    if (closed_) return false;
    closed_ = true;
  }
  wake_flusher_.notify_all();
  return true;
}

CommandStats CommandQueue::stats() {
  if (Forked()) return CommandStats();
  MutexLock lock(&mutex_);
  return {pending_.total_commands(),
          static_cast<int64_t>(next_request_) - 1 + connection_->calls()};
}

}  // namespace chx
