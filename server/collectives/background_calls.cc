#include "server/collectives/background_calls.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "ops/error.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

constexpr std::chrono::milliseconds kPatience(50);

}  // namespace

class BackgroundCalls::Started final : public StartedCollective {
 public:
  Started(std::shared_ptr<BackgroundCalls> calls, std::shared_ptr<Call> call)
      : calls_(std::move(calls)), call_(std::move(call)) {}
  ~Started() override {
    if (waited_) return;
    calls_->engine_->Break(calls_->rank_, "has not waited for a collective");
    calls_->WaitFor(*call_).IgnoreError();
  }
  absl::Status Wait() override {
    waited_ = true;
    return calls_->WaitFor(*call_);
  }

 private:
  const std::shared_ptr<BackgroundCalls> calls_;
  const std::shared_ptr<Call> call_;
  bool waited_ = false;
};

BackgroundCalls::Call::Call(const CollectiveCall& call_in, HostKernels kernels_in)
    : call(call_in), location(call.location), kernels(kernels_in) {
  call.location = location;
}

absl::StatusOr<std::shared_ptr<BackgroundCalls>> BackgroundCalls::New(
    std::shared_ptr<CollectiveEngine> engine, int rank) {
  std::shared_ptr<BackgroundCalls> calls(new BackgroundCalls(std::move(engine), rank));
  try {
    calls->thread_ = std::thread(&BackgroundCalls::Loop, calls.get());
  } catch (const std::system_error& error) {
    return MemoryError("[all_reduce] cannot start a thread: ", error.what());
  }
  return calls;
}

BackgroundCalls::~BackgroundCalls() {
  {
    const MutexLock lock(&mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<StartedCollective> BackgroundCalls::Start(const CollectiveCall& call,
                                                          HostKernels kernels) {
  auto started = std::make_shared<Call>(call, kernels);
  {
    const MutexLock lock(&mutex_);
    calls_.push_back(started);
  }
  changed_.notify_all();
  return std::make_unique<Started>(shared_from_this(), std::move(started));
}

void BackgroundCalls::WaitUntilIdle() {
  {
    const MutexLock lock(&mutex_);
    if (calls_.empty()) return;
  }
  const WaitScope others_compute;
  const MutexLock lock(&mutex_);
  while (!calls_.empty()) WaitForChange();
}

void BackgroundCalls::WaitForChange() {
  changed_.wait_for(mutex_, kPatience);
  if (WaitIsStopped()) engine_->Break(rank_, "was stopped in a collective");
}

absl::Status BackgroundCalls::WaitFor(const Call& call) {
  {
    const MutexLock lock(&mutex_);
    if (call.outcome.has_value()) return *call.outcome;
  }
  const WaitScope others_compute;
  const MutexLock lock(&mutex_);
  while (!call.outcome.has_value()) WaitForChange();
  return *call.outcome;
}

absl::Status BackgroundCalls::Run(const Call& call) {
  HostPassage* const passage = call.call.passage;
  if (passage == nullptr) return engine_->Run(rank_, call.call, call.kernels);
  absl::Status outcome = passage->Begin();
  if (outcome.ok()) {
    outcome = engine_->Run(rank_, call.call, call.kernels);
  } else {
    const CollectiveCall without{call.call.op, call.call.attrs,  {},           {},
                                 outcome,      call.call.origin, call.location};
    engine_->Run(rank_, without, call.kernels).IgnoreError();
  }
  const absl::Status ended = passage->End();
  return outcome.ok() ? ended : outcome;
}

void BackgroundCalls::Loop() {
  for (;;) {
    std::shared_ptr<Call> call;
    {
      const MutexLock lock(&mutex_);
      while (calls_.empty() && !stopped_) changed_.wait(mutex_);
      if (calls_.empty()) return;
      call = calls_.front();
    }
    absl::Status outcome = Run(*call);
    {
      const MutexLock lock(&mutex_);
      call->outcome = std::move(outcome);
      calls_.pop_front();
    }
    changed_.notify_all();
  }
}

}  // namespace chx::server
