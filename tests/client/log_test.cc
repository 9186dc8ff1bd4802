// What a log handler is told of a real daemon.
#include "client/log.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/mutex.h"
#include "client/local_socket.h"
#include "proto/segment_socket.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

class DaemonLogTest : public ClientTest {
 protected:
  void SetUp() override {
    ClientTest::SetUp();
    SetLogHandler([this](const LogMessage& message) {
      MutexLock lock(&mutex_);
      texts_.push_back(message.text);
    });
  }
  void TearDown() override { SetLogHandler(nullptr); }
  int Count(absl::string_view text) {
    MutexLock lock(&mutex_);
    int count = 0;
    for (const std::string& line : texts_) count += absl::StrContains(line, text) ? 1 : 0;
    return count;
  }

  Mutex mutex_;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(DaemonLogTest, ErrorsThatNobodyHasRead) {
  const int64_t outside = 7;
  const Array index = Array::FromHost(*session_, &outside, {}, Dtype::kInt64);
  take(Make({1, 2}), index, 0);
  const Array read = take(Make({1, 2, 3}), index, 0);
  EXPECT_EQ(KindOf(read.Item().status()), ErrorKind::kIndex);
  ASSERT_OK(session_->Close());
  EXPECT_EQ(Count("an error that nobody has read: [take]"), 1);
}

TEST_F(DaemonLogTest, TransfersWithoutSharedMemory) {
  ASSERT_EQ(unlink(SegmentSocketOf(SocketPathOf(UnixAddress())).c_str()), 0);
  const Vector values(1 << 18, 3);
  EXPECT_EQ(Values(Make(values)), values);
  EXPECT_EQ(Count("arrays are copied through the connection"), 1);
}

}  // namespace
}  // namespace chx
