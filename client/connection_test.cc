// Cuts, credits and lost daemons.
#include "client/connection.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "client/ops.h"
#include "client/testing/fake_daemon.h"

namespace chx {
namespace {

class ConnectionTest : public ::testing::Test {
 protected:
  void Connect() {
    session_ = nullptr;
    absl::StatusOr<Ref<Session>> session = Session::Connect(daemon_.address());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  void SetUp() override { Connect(); }
  void AwaitStream(bool attached) {
    for (int i = 0; i < 1000 && daemon_.attached() != attached; ++i) usleep(5000);
    ASSERT_EQ(daemon_.attached(), attached);
  }
  // Every operator came exactly once: handles are counted up.
  void ExpectEachHandleOnce(size_t count) {
    Handle expected = 0;
    for (const command::ApplyOp& command : daemon_.CommandsOf<command::ApplyOp>()) {
      ASSERT_EQ(command.results.size(), 1u);
      EXPECT_EQ(command.results[0], ++expected);
    }
    EXPECT_EQ(expected, count);
  }

  FakeDaemon daemon_;
  Ref<Session> session_;
};

TEST_F(ConnectionTest, TheDaemonKnowsFromTheStartThatTheClientIsThere) { AwaitStream(true); }

TEST_F(ConnectionTest, NobodyThere) {
  const absl::Status status = Session::Connect("unix:/nonexistent/socket").status();
  EXPECT_EQ(KindOf(status), ErrorKind::kConnection);
  EXPECT_NE(status.message().find("/nonexistent/socket"), absl::string_view::npos) << status;
}

TEST_F(ConnectionTest, ACutWhileWaitingIsNotNoticed) {
  AwaitStream(true);
  const Array x = zeros(*session_, {});
  daemon_.Mute(true);
  std::thread cutter([this] {
    EXPECT_TRUE(daemon_.WaitFor<command::Fetch>(1));
    daemon_.Mute(false);
    daemon_.CutStream();
  });
  EXPECT_TRUE(x.Item().ok());  // the answer was lost: it comes again with the new stream
  cutter.join();
  EXPECT_EQ(daemon_.resumes(), 1);
  ExpectEachHandleOnce(1);
  EXPECT_EQ(daemon_.CommandsOf<command::Fetch>().size(), 1u);
}

TEST_F(ConnectionTest, ManyCutsLoseNothingAndRepeatNothing) {
  constexpr int kOps = 20000;
  std::thread cutter([this] {
    for (int i = 0; i < 20; ++i) {
      usleep(3000);
      daemon_.CutStream();
    }
  });
  std::vector<Array> arrays;
  for (int i = 0; i < kOps; ++i) {
    arrays.push_back(zeros(*session_, {}));
    if (i % 1000 == 0) {
      EXPECT_TRUE(arrays.back().Item().ok());
    }
  }
  cutter.join();
  ASSERT_TRUE(session_->Synchronize().ok());
  ExpectEachHandleOnce(kOps);
}

TEST_F(ConnectionTest, AnIdleClientTakesItsSessionUpWhenItWrites) {
  AwaitStream(true);
  daemon_.CutStream();
  std::vector<Array> arrays;
  for (int i = 0; i < 1000 && daemon_.resumes() == 0; ++i) {
    arrays.push_back(zeros(*session_, {}));  // nobody reads
    usleep(10000);
  }
  EXPECT_EQ(daemon_.resumes(), 1);
  ASSERT_TRUE(session_->Synchronize().ok());
  ExpectEachHandleOnce(arrays.size());
}

// Nobody reads or writes: the session would be lost with its lease.
TEST_F(ConnectionTest, AnIdleClientTakesItsSessionUp) {
  daemon_.limits.set_lease_seconds(1);
  Connect();
  AwaitStream(true);
  daemon_.CutStream();
  for (int i = 0; i < 1000 && daemon_.resumes() == 0; ++i) usleep(5000);
  EXPECT_EQ(daemon_.resumes(), 1);
  AwaitStream(true);
}

// As one behind a network that has gone without a word.
TEST_F(ConnectionTest, AnIdleClientLeavesAStreamThatDoesNotAnswer) {
  daemon_.limits.set_lease_seconds(0.6);
  Connect();
  AwaitStream(true);
  EXPECT_EQ(daemon_.resumes(), 0);
  daemon_.Mute(true);
  for (int i = 0; i < 2000 && daemon_.resumes() == 0; ++i) usleep(5000);
  EXPECT_GE(daemon_.resumes(), 1);
  daemon_.Mute(false);
  const Array x = zeros(*session_, {});
  EXPECT_TRUE(x.Item().ok());
  ExpectEachHandleOnce(1);
}

// A proxy, say: the user knows that it comes back.
TEST_F(ConnectionTest, WhatIsAwayForAWhileIsWaitedForIfItIsToBe) {
  ConnectOptions options;
  options.reconnect = std::chrono::minutes(1);
  session_ = nullptr;
  session_ = *Session::Connect(daemon_.address(), options);
  const Array x = zeros(*session_, {});
  ASSERT_TRUE(session_->Synchronize().ok());
  daemon_.Stop();
  std::thread back([this] {
    usleep(1500000);
    daemon_.Start();
  });
  const Array y = x + x;
  EXPECT_TRUE(y.Item().ok());
  back.join();
  EXPECT_TRUE(session_->Upload(std::string(100000, 'x'), Dtype::kUint8, {100000}, 0).ok());
  ExpectEachHandleOnce(2);
}

TEST_F(ConnectionTest, ReconnectingEndsWhenItIsToldTo) {
  ConnectOptions options;
  options.reconnect = std::chrono::milliseconds(300);
  const auto session = Session::Connect(daemon_.address(), options);
  ASSERT_TRUE(session.ok());
  const Array x = zeros(**session, {});
  ASSERT_TRUE((*session)->Synchronize().ok());
  daemon_.Stop();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(KindOf(x.Item().status()), ErrorKind::kConnection);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST_F(ConnectionTest, ClosingDoesNotWaitLongForADaemonThatIsGone) {
  ConnectOptions options;
  options.reconnect = std::chrono::minutes(1);
  const auto session = Session::Connect(daemon_.address(), options);
  ASSERT_TRUE(session.ok());
  daemon_.Stop();
  const Array x = zeros(**session, {});
  const auto start = std::chrono::steady_clock::now();
  (*session)->Close().IgnoreError();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Whatever of an upload has arrived when it is cut, there is one array of the right bytes.
TEST_F(ConnectionTest, UploadsSurviveCutsAtAnyByte) {
  std::string data(300000, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 / 3);
  for (const int64_t bytes : {0, 1, 9, 30, 60, 100, 1000, 150000, 300050, 300100}) {
    Connect();  // a session without a connection for calls
    daemon_.CutConnectionsAfter(bytes);
    std::thread mender([this] {
      usleep(30000);
      daemon_.CutConnectionsAfter(-1);
    });
    const auto array = session_->Upload(data, Dtype::kUint8, {300000}, 0);
    mender.join();
    ASSERT_TRUE(array.ok()) << bytes << array.status();
    EXPECT_EQ(daemon_.uploads().size(), 1u);
    EXPECT_EQ(daemon_.uploads().at((*array)->handle), data) << bytes;
  }
}

TEST_F(ConnectionTest, CancelNamesAllThatWasCalled) {
  daemon_.Mute(true);
  std::vector<Array> arrays;
  for (int i = 0; i < 2000; ++i) arrays.push_back(zeros(*session_, {}));
  ASSERT_TRUE(session_->Cancel().ok());
  EXPECT_TRUE(daemon_.WaitFor<command::ApplyOp>(2000));
  EXPECT_EQ(daemon_.cancels().back(), daemon_.BatchSizes().size());
  ASSERT_TRUE(session_->Cancel().ok());  // of nothing more
  daemon_.Mute(false);
  EXPECT_TRUE(arrays[0].Item().ok());  // the session goes on
}

TEST_F(ConnectionTest, CreditsBoundWhatIsUnderWay) {
  daemon_.limits.set_max_inflight_commands(1000);
  Connect();
  daemon_.Mute(true);
  std::atomic<int> made{0};
  std::thread producer([&] {
    for (int i = 0; i < 10000; ++i) {
      const Array x = zeros(*session_, {});
      ++made;
    }
  });
  int before = -1;
  for (int still = 0; still < 5; ++still) {  // until it stands, also on a busy machine
    if (before != made) still = 0;
    before = made;
    usleep(100000);
  }
  EXPECT_LT(made, 5000);
  EXPECT_GE(made, 500);  // each takes a call and, unless it joins others, a release
  daemon_.Mute(false);
  daemon_.CutStream();  // acknowledgements that were withheld come with the next stream
  producer.join();
  ASSERT_TRUE(session_->Synchronize().ok());
  EXPECT_EQ(daemon_.CommandsOf<command::ApplyOp>().size(), 10000u);
}

TEST_F(ConnectionTest, ThreadsThatWaitGetTheirOwnValues) {
  daemon_.answer = [](const Command& command, v1::FetchedValue* value) {
    const double handle = static_cast<double>(std::get<command::Fetch>(command).handle);
    value->set_data(std::string(reinterpret_cast<const char*>(&handle), sizeof(handle)));
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) {
        const Array x = zeros(*session_, {}, Dtype::kFloat64);
        const absl::StatusOr<double> value = x.Item();
        ASSERT_TRUE(value.ok()) << value.status();
        EXPECT_EQ(*value, static_cast<double>(x.body()->handle));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ConnectionTest, ALeaseThatEndedIsToldToEverybody) {
  daemon_.Mute(true);
  std::vector<std::thread> waiters;
  for (int t = 0; t < 3; ++t) {
    waiters.emplace_back([this] {
      const Array x = zeros(*session_, {});
      EXPECT_EQ(KindOf(x.Item().status()), ErrorKind::kConnection);
    });
  }
  EXPECT_TRUE(daemon_.WaitFor<command::Fetch>(3));
  daemon_.ForgetSession();
  daemon_.CutStream();
  for (std::thread& waiter : waiters) waiter.join();
  const absl::Status status = zeros(*session_, {}).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kConnection);
  EXPECT_NE(status.message().find("lost the session"), absl::string_view::npos) << status;
}

TEST_F(ConnectionTest, ADeadDaemonIsAnErrorAndNotAHang) {
  const Array x = zeros(*session_, {});
  ASSERT_TRUE(session_->Synchronize().ok());
  daemon_.Stop();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = x.Item().status();
  // Its lease is 30 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(KindOf(status), ErrorKind::kConnection);
  EXPECT_NE(status.message().find(daemon_.address() + ": the daemon has ended"),
            absl::string_view::npos)
      << status;
  EXPECT_EQ(KindOf(session_->Synchronize()), ErrorKind::kConnection);
}

TEST_F(ConnectionTest, AnUploadToADeadDaemonIsAnErrorToo) {
  ASSERT_TRUE(session_->Synchronize().ok());
  daemon_.Stop();
  const auto start = std::chrono::steady_clock::now();
  const auto array = session_->Upload(std::string(100000, 'x'), Dtype::kUint8, {100000}, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(KindOf(array.status()), ErrorKind::kConnection);
  EXPECT_NE(array.status().message().find("the daemon has ended"), absl::string_view::npos)
      << array.status();
}

TEST_F(ConnectionTest, CloseWakesWhoWaits) {
  daemon_.Mute(true);
  std::thread waiter([this] {
    const Array x = zeros(*session_, {});
    EXPECT_EQ(KindOf(x.Item().status()), ErrorKind::kConnection);
  });
  EXPECT_TRUE(daemon_.WaitFor<command::Fetch>(1));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(session_->Close().ok());
  waiter.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(daemon_.resumes(), 0);
}

}  // namespace
}  // namespace chx
