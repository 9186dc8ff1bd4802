// What becomes of a session's work when it is to stop, and what others see of a session that is
// busy.
#include <thread>
#include <utility>

#include "server/session/session.h"

namespace chx {
namespace {

// Whether the command may take long, so that it isn't run any more. The others keep the books:
// handles, names and graphs stay as the client thinks they are, and nothing leaks.
bool Computes(const Command& command) {
  switch (command.kind) {
    case CommandKind::kApplyOp:
    case CommandKind::kFetch:
    case CommandKind::kFetchInto:
    case CommandKind::kBarrier:
    case CommandKind::kBackward:
    case CommandKind::kGrad:
    case CommandKind::kResumeWalk:
      return true;
    case CommandKind::kShare:
      return command.flags == static_cast<uint8_t>(ShareAction::kExport) ||
             command.flags == static_cast<uint8_t>(ShareAction::kRead);
    default:
      return false;
  }
}

const char* NameOf(CommandKind kind) {
  switch (kind) {
    case CommandKind::kFetch:
    case CommandKind::kFetchInto:
      return "fetch";
    case CommandKind::kBarrier:
      return "barrier";
    case CommandKind::kShare:
      return "share";
    case CommandKind::kGrad:
      return "grad";
    default:
      return "backward";
  }
}

}  // namespace

Session::Outside::Outside(Session* session)
    : session_(session),
      turn_(session->limits_.compute_slots, &session->computed_, &session->stop_),
      scope_(&session->stop_),
      reason_(session->stop_.Begin(0)) {}

Session::Outside::~Outside() { session_->stop_.End(); }

absl::Status Session::Outside::Check(absl::string_view what) const {
  if (reason_ == StopReason::kNone) return absl::OkStatus();
  return session_->stop_.Error(what, reason_);
}

void Session::CancelOne(const Command& command, size_t position, SessionOutput* output) {
  if (!Computes(command)) return ExecuteOne(command, position, output);
  const OpDef* const op = OpOf(command);
  const bool applies = command.kind == CommandKind::kApplyOp;
  if (applies && op == nullptr) return ExecuteOne(command, position, output);  // says so
  const std::string name = applies ? op->name : NameOf(command.kind);
  absl::Status status = stop_.Error(name, StopReason::kCancelled);
  if (command.kind == CommandKind::kResumeWalk) {
    absl::StatusOr<PendingWalk> walk = TakeWalk(command.handle);
    return AnswerWalk(walk.ok() ? *std::move(walk) : PendingWalk(), command.handle,
                      command.request_id, std::move(status), nullptr, output);
  }
  if (IsAnswered(command)) {
    SessionOutput::Value value;
    value.request_id = command.request_id;
    value.error = NewRootError(command, std::move(status), name, "");
    value.error->read = true;
    Inherit(command, value.error);
    output->values.push_back(std::move(value));
    return;
  }
  const RootErrorPtr error = Fail(command, std::move(status), name, "", output);
  // As after an error of an input: the client takes the write for done. Of lists nothing is
  // written, and all parameters are those of the step before.
  if (applies && op->in_place && !op->has_lists() && !command.operands.empty()) {
    Poison(command.operands[0].handle, error);
  }
}

void Session::PoisonWritten(const Command& command, const OpDef& op, const RootErrorPtr& error) {
  const size_t count = command.operands.size();
  for (size_t i = 0; i < count; ++i) {
    const CommandOperand& operand = command.operands[i];
    if (operand.kind == OperandKind::kArray && op.IsWritten(i, count)) {
      Poison(operand.handle, error);
    }
  }
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

std::vector<SessionOutput::Error> Session::UnreadErrors(size_t max) {
  MutexLock lock(&mutex_);
  return ListUnread(max);
}

std::vector<SessionOutput::Error> Session::UnreadErrorsWithin(std::chrono::milliseconds patience,
                                                              size_t max) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!mutex_.TryLock()) {
    if (std::chrono::steady_clock::now() >= end) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<SessionOutput::Error> unread = ListUnread(max);
  mutex_.Unlock();
  return unread;
}

std::vector<SessionOutput::Error> Session::ListUnread(size_t max) const {
  std::vector<SessionOutput::Error> unread;
  for (const SessionOutput::Error& error : unread_errors_) {
    if (!error.error->read && unread.size() < max) unread.push_back(error);
  }
  return unread;
}

}  // namespace chx
