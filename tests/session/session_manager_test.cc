// Sessions that are busy, and those who must not wait for them.
#include "server/session/session_manager.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kSoon = std::chrono::seconds(20);

class ManagerTest : public SessionTest {
 protected:
  // A session whose thread sums 2^50 elements.
  struct Hog {
    SessionRecordPtr record;
    std::thread thread;
    ~Hog() {
      record->session->stop().EndSession();
      thread.join();
    }
  };

  void NewManager(milliseconds lease, milliseconds max_command_time = {}) {
    manager_ = nullptr;
    ManagerOptions options;
    options.lease = lease;
    options.session.max_command_time = max_command_time;
    manager_ = std::make_unique<SessionManager>(&devices_, options);
  }
  SessionRecordPtr Open() { return *manager_->Open({"test"}); }

  std::unique_ptr<Hog> NewHog() {
    auto hog = std::make_unique<Hog>();
    hog->record = Open();
    Session* const session = hog->record->session.get();
    hog->thread = std::thread([session] {
      SessionOutput output;
      const std::vector<Command> commands = {
          Op("full", {}, {1}, {Ints{}, Scalar(1), Dtype::kUint8}),
          Op("broadcast_to", {A(1)}, {2}, {Ints{int64_t{1} << 50}}),
          OpByDefault("sum", {A(2)}, {3})};
      session->Execute(commands, &output, 1);
    });
    while (session->stats().commands < 2) std::this_thread::yield();
    return hog;
  }
  static void AwaitIdle(const SessionRecordPtr& record) {
    const auto end = steady_clock::now() + kSoon;
    while (record->session->stop().running() && steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_FALSE(record->session->stop().running());
  }

  std::unique_ptr<SessionManager> manager_;
};

TEST_F(ManagerTest, ListingsDoNotWaitForBusySessions) {
  NewManager(std::chrono::minutes(1));
  std::vector<std::unique_ptr<Hog>> hogs;
  for (int i = 0; i < 4; ++i) hogs.push_back(NewHog());
  std::vector<SessionRecordPtr> idle;
  for (int i = 0; i < 1000; ++i) idle.push_back(Open());
  const auto begin = steady_clock::now();
  const std::vector<SessionSnapshot> snapshots = manager_->Snapshots();
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(snapshots.size(), 1004u);
  for (const SessionSnapshot& snapshot : snapshots) EXPECT_GT(snapshot.number, 0u);
}

TEST_F(ManagerTest, CloseStopsABusySession) {
  NewManager(std::chrono::minutes(1));
  const auto hog = NewHog();
  bool cut = false;
  EXPECT_NE(manager_->Attach(hog->record, {[&cut] { cut = true; }, nullptr, nullptr}), 0u);
  EXPECT_TRUE(manager_->Close(hog->record->id).ok());
  EXPECT_TRUE(cut);
  AwaitIdle(hog->record);
  EXPECT_EQ(manager_->Find(hog->record->id), nullptr);
}

TEST_F(ManagerTest, KillEndsASessionByItsNumber) {
  NewManager(std::chrono::minutes(1));
  const auto hog = NewHog();
  const SessionRecordPtr other = Open();
  EXPECT_NE(hog->record->number, other->number);
  EXPECT_TRUE(manager_->Kill(hog->record->number).ok());
  AwaitIdle(hog->record);
  EXPECT_TRUE(absl::IsNotFound(manager_->Kill(hog->record->number)));
  EXPECT_EQ(manager_->Find(hog->record->id), nullptr);
  EXPECT_EQ(manager_->Find(other->id), other);
}

TEST_F(ManagerTest, CancelStopsACommandOfTheClient) {
  NewManager(std::chrono::minutes(1));
  const auto hog = NewHog();
  EXPECT_TRUE(manager_->Cancel(hog->record->id, 1).ok());
  AwaitIdle(hog->record);
  EXPECT_EQ(manager_->Find(hog->record->id), hog->record);
  EXPECT_TRUE(absl::IsNotFound(manager_->Cancel("nobody", 1)));
}

TEST_F(ManagerTest, CommandsHaveADeadline) {
  NewManager(std::chrono::minutes(1), milliseconds(100));
  const auto hog = NewHog();
  AwaitIdle(hog->record);
  EXPECT_EQ(hog->record->session->stats().errors, 1);
}

TEST_F(ManagerTest, LeaseEndsWhileABatchOfADeadClientRuns) {
  NewManager(milliseconds(200));
  const auto hog = NewHog();
  std::atomic<bool> hung_up{false};
  EXPECT_NE(manager_->Attach(hog->record, {[] {}, [&hung_up] { return hung_up.load(); }, nullptr}),
            0u);
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_TRUE(hog->record->session->stop().running());  // a client that waits keeps its session
  hung_up = true;
  AwaitIdle(hog->record);
  EXPECT_EQ(manager_->Find(hog->record->id), nullptr);
}

TEST_F(ManagerTest, ACutAloneStopsNothing) {
  NewManager(std::chrono::minutes(1));
  const auto hog = NewHog();
  const uint64_t first = manager_->Attach(hog->record, {[] {}, [] { return true; }, nullptr});
  std::this_thread::sleep_for(milliseconds(600));
  manager_->Detach(hog->record, first);
  EXPECT_NE(manager_->Attach(hog->record, {}), 0u);
  EXPECT_TRUE(hog->record->session->stop().running());
}

TEST_F(ManagerTest, DrainingIsToldAndRefusesSessions) {
  NewManager(std::chrono::minutes(1));
  const SessionRecordPtr before = Open();
  int told = 0;
  const StreamHooks hooks = {[] {}, nullptr, [&told] { ++told; }};
  EXPECT_NE(manager_->Attach(before, hooks), 0u);
  manager_->StartDraining();
  EXPECT_TRUE(manager_->draining());
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(absl::IsUnavailable(manager_->Open({"late"}).status()));
  EXPECT_NE(manager_->Attach(before, hooks), 0u);  // a client that resumes is told too
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace chx::server
