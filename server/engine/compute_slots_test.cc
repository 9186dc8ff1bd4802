#include "server/engine/compute_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace chx::server {
namespace {

using Clock = std::chrono::steady_clock;

// Threads that compute for ever, each for a session of its own.
class Hogs {
 public:
  Hogs(ComputeSlots* slots, int count) : turns_(static_cast<size_t>(count)) {
    for (auto& turns : turns_) {
      turns = std::make_unique<Session>();
      threads_.emplace_back([slots, session = turns.get()] {
        const StopScope scope(&session->stop);
        while (!session->stop.session_ended()) {
          session->stop.Begin(0);
          ComputeSlots::Turn turn(slots, &session->account, &session->stop);
          while (!StopRequested() && session->steps % 100000 != 0) ++session->steps;
          ++session->steps;
        }
      });
    }
  }
  ~Hogs() { Stop(); }
  void Stop() {
    for (auto& turns : turns_) turns->stop.EndSession();
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    for (const auto& turns : turns_) steps.push_back(turns->steps);
    return steps;
  }

 private:
  struct Session {
    StopToken stop;
    ComputeSlots::Account account;
    std::atomic<int64_t> steps{0};
  };
  std::vector<std::unique_ptr<Session>> turns_;
  std::vector<std::thread> threads_;
};

TEST(ComputeSlotsTest, SessionsShareWhatThereIs) {
  ComputeSlots slots(2);
  Hogs hogs(&slots, 8);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const std::vector<int64_t> steps = hogs.Steps();
  hogs.Stop();
  slots.WakeStopped();
  hogs.Join();
  const auto [least, most] = std::minmax_element(steps.begin(), steps.end());
  // By time; what a core gives in it differs on a busy machine.
  EXPECT_GT(*least, *most / 4) << *least << " of " << *most;
}

TEST(ComputeSlotsTest, WhoHasHadLittleNeedNotWaitForAll) {
  ComputeSlots slots(1);
  Hogs hogs(&slots, 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  StopToken stop;
  ComputeSlots::Account account;
  std::vector<double> waits;
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    { const ComputeSlots::Turn turn(&slots, &account, &stop); }
    waits.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::sort(waits.begin(), waits.end());
  // One slice, not twenty; and some time for a busy machine.
  EXPECT_LT(waits[waits.size() / 2], 0.1);
  hogs.Stop();
  slots.WakeStopped();
  hogs.Join();
}

TEST(ComputeSlotsTest, WhoComputedWhileNobodyElseDidOwesLittle) {
  ComputeSlots slots(1);
  Hogs hogs(&slots, 3);
  StopToken stop;
  ComputeSlots::Account account;
  account.used = std::chrono::hours(1);
  for (int i = 0; i < 3; ++i) {  // else for three hours
    const ComputeSlots::Turn turn(&slots, &account, &stop);
  }
  hogs.Stop();
  slots.WakeStopped();
  hogs.Join();
}

TEST(ComputeSlotsTest, WhoIsToStopDoesNotWait) {
  ComputeSlots slots(1);
  StopToken busy;
  ComputeSlots::Account account;
  auto turn = std::make_unique<ComputeSlots::Turn>(&slots, &account, &busy);
  StopToken ended;
  std::thread waits([&] {
    ComputeSlots::Account other;
    const ComputeSlots::Turn second(&slots, &other, &ended);
  });
  while (slots.waiting() == 0) std::this_thread::yield();
  ended.EndSession();
  slots.WakeStopped();
  waits.join();
  // Nor does one that has ended before.
  ComputeSlots::Account other;
  const ComputeSlots::Turn third(&slots, &other, &ended);
  EXPECT_EQ(slots.waiting(), 0);
}

TEST(ComputeSlotsTest, WithoutSlotsNobodyWaits) {
  StopToken stop;
  ComputeSlots::Account account;
  const ComputeSlots::Turn turn(nullptr, &account, &stop);
  const StopScope scope(&stop);
  EXPECT_FALSE(StopRequested());
}

}  // namespace
}  // namespace chx::server
