// What a log handler is told, and when.
#include "client/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/ops.h"
#include "client/session.h"
#include "client/testing/fake_daemon.h"
#include "ops/registry.h"

namespace chx {
namespace {

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { SetLogHandler(nullptr); }
  void Connect() {
    absl::StatusOr<Ref<Session>> session = Session::Connect(daemon_.address());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  void Collect(LogLevel least) {
    SetLogHandler(
        [this](const LogMessage& message) {
          MutexLock lock(&mutex_);
          lines_.push_back(absl::StrCat(LogLevelName(message.level), " ", message.text));
        },
        least);
  }
  // How many lines begin with the level and have both texts.
  int Count(absl::string_view level, absl::string_view text) {
    MutexLock lock(&mutex_);
    int count = 0;
    for (const std::string& line : lines_) {
      const bool found = absl::StartsWith(line, level) && absl::StrContains(line, text) &&
                         absl::StrContains(line, daemon_.address());
      count += found ? 1 : 0;
    }
    return count;
  }
  // One cut, which nobody but the log notices.
  void Cut() {
    const Array x = zeros(*session_, {});
    daemon_.Mute(true);
    std::thread cutter([this] {
      EXPECT_TRUE(daemon_.WaitFor<command::Fetch>(1));
      daemon_.Mute(false);
      daemon_.CutStream();
    });
    EXPECT_TRUE(x.Item().ok());
    cutter.join();
  }

  FakeDaemon daemon_;
  Ref<Session> session_;
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(LogTest, ACutAndTheWayBack) {
  Collect(LogLevel::kInfo);
  Connect();
  EXPECT_EQ(Count("", ""), 0);
  Cut();
  EXPECT_EQ(Count("warning", "the connection is cut"), 1);
  EXPECT_EQ(Count("info", "reconnected"), 1);
}

TEST_F(LogTest, ALostSession) {
  Collect(LogLevel::kError);
  Connect();
  const Array x = zeros(*session_, {});
  daemon_.ForgetSession();
  daemon_.CutStream();
  EXPECT_EQ(KindOf(x.Item().status()), ErrorKind::kConnection);
  EXPECT_EQ(Count("error", "lost the session"), 1);
  EXPECT_EQ(Count("warning", ""), 0);  // not asked for
}

TEST_F(LogTest, OperatorsThatTheDaemonDoesNotKnow) {
  daemon_.known_ops = OpRegistry::Global().size() - 3;
  Collect(LogLevel::kInfo);
  Connect();
  EXPECT_EQ(Count("info", "does not know 3 operators"), 1);
}

TEST_F(LogTest, TriesAreForDebugging) {
  Collect(LogLevel::kDebug);
  Connect();
  ASSERT_TRUE(session_->Synchronize().ok());
  daemon_.Stop();
  std::thread starter([this] {
    // Not before a try has failed.
    while (Count("debug", "to reconnect failed") == 0) std::this_thread::yield();
    daemon_.Start();
  });
  const Array x = zeros(*session_, {});
  EXPECT_TRUE(x.Item().ok());
  starter.join();
  EXPECT_GE(Count("info", "reconnected"), 1);
}

TEST_F(LogTest, AnotherHandlerAndNone) {
  Connect();
  Collect(LogLevel::kInfo);
  int others = 0;
  SetLogHandler([&others](const LogMessage&) { ++others; }, LogLevel::kWarning);
  internal::Log(LogLevel::kInfo, "not wanted");
  internal::Log(LogLevel::kWarning, "wanted");
  SetLogHandler(nullptr);
  EXPECT_FALSE(internal::LogWanted(LogLevel::kError));
  internal::Log(LogLevel::kError, "not wanted");
  EXPECT_EQ(others, 1);
  EXPECT_EQ(Count("", ""), 0);
}

TEST_F(LogTest, AHandlerMayReplaceItself) {
  int calls = 0;
  SetLogHandler([&calls](const LogMessage&) {
    ++calls;
    SetLogHandler(nullptr);
  });
  internal::Log(LogLevel::kError, "first");
  internal::Log(LogLevel::kError, "second");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace chx
