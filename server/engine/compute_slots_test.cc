#include "server/engine/compute_slots.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "server/engine/core_affinity.h"
#include "server/engine/host_cpus.h"

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

// Takes a turn for another session on another thread: `taken` says that it has it.
class Other {
 public:
  explicit Other(ComputeSlots* slots) {
    thread_ = std::thread([this, slots] {
      const ComputeSlots::Turn turn(slots, &account_, &stop_);
      taken_ = true;
    });
  }
  ~Other() { thread_.join(); }
  bool taken() const { return taken_; }

 private:
  ComputeSlots::Account account_;
  StopToken stop_;
  std::atomic<bool> taken_{false};
  std::thread thread_;
};

TEST(ComputeSlotsTest, ATurnGoesOnBetweenCommands) {
  ComputeSlots slots(1);
  StopToken stop;
  ComputeSlots::Account account;
  account.local = true;
  // More than once only if the system has kept this thread from coming back.
  bool goes_on = false;
  while (!goes_on) {
    std::unique_ptr<Other> other;
    {
      const ComputeSlots::Turn turn(&slots, &account, &stop);
      other = std::make_unique<Other>(&slots);
      while (slots.waiting() == 0) std::this_thread::yield();
    }
    const ComputeSlots::Turn turn(&slots, &account, &stop);
    goes_on = !other->taken();
  }
}

TEST(ComputeSlotsTest, ATurnIsNotKeptForWhoDoesNotComeBack) {
  ComputeSlots slots(1);
  StopToken stop;
  ComputeSlots::Account account;
  account.local = true;
  { const ComputeSlots::Turn turn(&slots, &account, &stop); }
  const Other other(&slots);  // would wait for ever
}

TEST(ComputeSlotsTest, WhoWantsLittleComputesBesideThoseWhoHaveTurns) {
  ComputeSlots slots(1, 2);
  Hogs hogs(&slots, 3);
  StopToken stop;
  ComputeSlots::Account account;
  // Until it has been granted a turn of its own it is level with the others.
  while (slots.waiting() < 2) std::this_thread::yield();
  std::this_thread::sleep_for(5 * ComputeSlots::kSlice);
  bool beside = false;
  while (!beside) {
    const ComputeSlots::Turn turn(&slots, &account, &stop);
    beside = slots.waiting() == 2;  // one of three has the slot, and so do we
  }
  hogs.Stop();
  slots.WakeStopped();
  hogs.Join();
}

int CoresOfThisThread() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  return CPU_COUNT(&cores);
}

TEST(ComputeSlotsTest, WhoHasWaitedForATurnHasItsCore) {
  StayOnCore(-1);
  const int cores = CoresOfThisThread();
  if (cores > HostCpus()) GTEST_SKIP() << "less of the cores' time than there is";
  ComputeSlots slots(1);
  StopToken stop;
  std::atomic<bool> taken{false};
  std::thread first([&] {
    ComputeSlots::Account account;
    const ComputeSlots::Turn turn(&slots, &account, &stop);
    taken = true;
    while (slots.waiting() == 0) std::this_thread::yield();
  });
  while (!taken) std::this_thread::yield();
  ComputeSlots::Account account;
  {
    const ComputeSlots::Turn turn(&slots, &account, &stop);
    EXPECT_EQ(CoresOfThisThread(), 1);
  }
  first.join();
  // Nobody has waited for a while.
  std::this_thread::sleep_for(4 * ComputeSlots::kSlice);
  const ComputeSlots::Turn turn(&slots, &account, &stop);
  EXPECT_EQ(CoresOfThisThread(), cores);
}

// Whether this thread's priority is lower than that of the process.
bool HasLowPriority() {
  return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))) >
         getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
}

Clock::duration ThreadCpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

class LowPriorityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(Run(&long_, 2 * ComputeSlots::kLong));  // nobody knew
    short_.pause = ComputeSlots::kMostExpected;  // it is expected for as long as a test takes
  }

  // Whether commands that compute for so long had low priority.
  bool Run(ComputeSlots::Account* account, Clock::duration time) {
    bool low = false;
    if (!may_starve_) account->starved_until = {};  // others on this machine may be busy
    ComputeSlots::Run(&slots_, account, &stop_, [&] {
      low = HasLowPriority();
      cores_ = CoresOfThisThread();
      const auto end = ThreadCpuTime() + time;
      while (ThreadCpuTime() < end) {
      }
    });
    return low;
  }

  // Short commands. False: the system made them wait, so that they took long, before some did not.
  bool RunShort(ComputeSlots::Account* account) {
    const auto before = account->last_short;
    Run(account, {});
    const bool at_once = account->last_short != before;
    while (account->last_short == before) Run(account, {});
    return at_once;
  }

  bool may_starve_ = false;
  ComputeSlots slots_{2};
  StopToken stop_;
  ComputeSlots::Account long_, short_;
  int cores_ = 0;  // that the last commands could run on
};

TEST_F(LowPriorityTest, LongCommandsHaveItBesideOtherSessions) {
  RunShort(&short_);
  EXPECT_TRUE(Run(&long_, 2 * ComputeSlots::kLong));
  EXPECT_FALSE(Run(&short_, {}));
}

TEST_F(LowPriorityTest, LongCommandsLeaveOneCore) {
  RunShort(&short_);
  StayOnCore(-1);
  const int cores = CoresOfThisThread();
  EXPECT_TRUE(Run(&long_, {}));
  EXPECT_EQ(cores_, cores > HostCpus() ? cores : std::max(1, cores - 1));
}

TEST_F(LowPriorityTest, NotAloneNorBesideOthersThatTakeLong) {
  EXPECT_FALSE(Run(&long_, 2 * ComputeSlots::kLong));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Run(&short_, 2 * ComputeSlots::kLong));
  EXPECT_FALSE(Run(&long_, 2 * ComputeSlots::kLong));
}

TEST_F(LowPriorityTest, AShortOneInBetweenChangesNothing) {
  RunShort(&short_);
  EXPECT_TRUE(Run(&long_, {}));
  EXPECT_TRUE(Run(&long_, 2 * ComputeSlots::kLong));
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(Run(&long_, {})) << i;
  EXPECT_FALSE(Run(&long_, {}));
}

TEST_F(LowPriorityTest, NotForLongBesideWhoHadShortOnesOnce) {
  ComputeSlots::Account once;
  RunShort(&once);
  std::this_thread::sleep_for(ComputeSlots::kLeastExpected);
  EXPECT_FALSE(Run(&long_, {}));
}

TEST_F(LowPriorityTest, BesideWhoPausesForLongItLastsAsLong) {
  constexpr auto kPause = 10 * ComputeSlots::kLeastExpected;
  ComputeSlots::Account slow;
  RunShort(&slow);
  slow.last_short -= kPause;
  RunShort(&slow);
  std::this_thread::sleep_for(ComputeSlots::kLeastExpected);
  EXPECT_TRUE(Run(&long_, {}));
  // It has changed its ways.
  for (int i = 0; i < 4 * ComputeSlots::kPausePart; ++i) RunShort(&slow);
  EXPECT_LT(slow.pause, kPause / 2);
}

TEST_F(LowPriorityTest, NotForLongBesideWhoHasBeenAway) {
  ComputeSlots::Account returning;
  RunShort(&returning);
  returning.last_short -= 2 * ComputeSlots::kMostExpected;
  RunShort(&returning);
  std::this_thread::sleep_for(ComputeSlots::kLeastExpected);
  EXPECT_FALSE(Run(&long_, {}));
}

TEST_F(LowPriorityTest, NotForWhoTookLongOnce) {
  RunShort(&short_);
  bool were_short = false;
  while (!were_short) {
    ComputeSlots::Account preempted;
    const bool first = Run(&preempted, 2 * ComputeSlots::kLong);
    were_short = RunShort(&preempted);
    const bool second = Run(&preempted, 2 * ComputeSlots::kLong);
    const bool third = Run(&preempted, {});
    EXPECT_FALSE(were_short && (first || second || third));
  }
}

TEST_F(LowPriorityTest, NotIfItGetsNothing) {
  may_starve_ = true;
  RunShort(&short_);
  // It sleeps instead of computing: as if others had the cores.
  ComputeSlots::Run(&slots_, &long_, &stop_,
                    [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); });
  EXPECT_FALSE(Run(&long_, {}));
}

TEST_F(LowPriorityTest, ShortCommandsNeedNotWaitForIt) {
  ComputeSlots slots(1, 2);
  const auto run = [&](ComputeSlots::Account* account, absl::FunctionRef<void()> work) {
    ComputeSlots::Run(&slots, account, &stop_, work);
  };
  const auto long_work = [] { std::this_thread::sleep_for(2 * ComputeSlots::kLong); };
  run(&short_, [] {});
  for (int i = 0; i < 2; ++i) run(&long_, long_work);
  bool beside = false;
  run(&long_, [&] {
    // More than any share, while the only slot is taken.
    std::thread([&] {
      for (int i = 0; i < 100; ++i) {
        run(&short_, [] {});
        short_.used += std::chrono::seconds(1);
      }
      beside = true;
    }).join();
  });
  EXPECT_TRUE(beside);
}

TEST_F(LowPriorityTest, ItCanBeStopped) {
  RunShort(&short_);
  std::atomic<bool> runs{false};
  std::thread thread([&] {
    ComputeSlots::Run(&slots_, &long_, &stop_, [&] {
      const StopScope scope(&stop_);
      stop_.Begin(1);
      runs = true;
      while (!StopRequested()) std::this_thread::yield();
      stop_.End();
    });
  });
  while (!runs) std::this_thread::yield();
  stop_.Cancel(1);
  thread.join();
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
