// Who gives a GPU work, on a simulated one that does pieces one after the other.
#include "server/cuda/runtime/work_share.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace chx::server::cuda {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using Duration = WorkShare::Duration;
using Time = WorkShare::Time;

constexpr microseconds kStep{50};
constexpr double kTolerance = 0.05;

struct Mark {
  Time when = Time::max();
};

class WorkShareTest : public testing::Test {
 protected:
  // A session that queues kernels as soon as it may, or one piece now and then.
  struct Session {
    Session(TurnGroup* group, Duration kernel)
        : client(group, [this](auto time) { worked += time; }), kernel(kernel) {}

    std::chrono::nanoseconds worked{};
    WorkShare::Client client;
    Duration kernel;            // what one takes
    Duration every{};           // so often it has a step of one kernel; 0: it always has work
    Time next;                  // the step
    Time asked;                 // when the step began
    std::vector<double> waits;  // ms that steps have taken
    Mark* end = nullptr;        // the step's last mark
    int pieces = 0;

    double seconds() const { return std::chrono::duration<double>(worked).count(); }
  };

  Session* Add(TurnGroup* group, Duration kernel, Duration every = {}) {
    sessions_.push_back(std::make_unique<Session>(group, kernel));
    sessions_.back()->every = every;
    sessions_.back()->next = now_;
    return sessions_.back().get();
  }

  Mark* NewMark() {
    if (auto* const spare = static_cast<Mark*>(share_.TakeSpare())) {
      spare->when = Time::max();
      return spare;
    }
    marks_.emplace_back();
    return &marks_.back();
  }

  // The piece that may begin now, of `kernels`; 0: as many as it should have.
  void Queue(Session* session, int kernels = 0) {
    Mark* const begin = NewMark();
    share_.Open(&session->client, begin);
    int n = 1;
    while (!session->client.AddKernel() && n != kernels) ++n;
    Mark* const end = NewMark();
    begin->when = std::max(now_, free_);
    free_ = end->when = begin->when + n * session->kernel;
    share_.Close(&session->client, end);
    session->end = end;
    ++session->pieces;
    in_flight_ = std::max(in_flight_, free_ - now_);
  }

  void Step(Session* session) {
    const bool is_small = session->every > Duration::zero();
    if (is_small) {
      if (session->end != nullptr) {
        if (session->end->when > now_) return;
        session->waits.push_back(
            std::chrono::duration<double, std::milli>(now_ - session->asked).count());
        session->end = nullptr;
        session->next = now_ + session->every;
      }
      if (now_ < session->next) return;
      if (session->asked < session->next) session->asked = now_;
    }
    // A thread queues much faster than the GPU works, but not without end.
    for (int i = 0; i < 20 && share_.TryBegin(&session->client, now_); ++i) {
      Queue(session, is_small ? 1 : 0);
      if (is_small) return;
    }
  }

  void RunFor(Duration duration) {
    const Time end = now_ + duration;
    for (; now_ < end; now_ += kStep) {
      if (free_ < now_) idle_ += kStep;
      for (const auto& session : sessions_) Step(session.get());
    }
    share_.Notice();
  }

  Time now_{std::chrono::hours(1)};
  Time free_ = now_;
  Duration idle_{};
  Duration in_flight_{};
  std::deque<Mark> marks_;
  WorkShare share_{[this](void* from, void* to) -> absl::optional<Duration> {
    if (static_cast<Mark*>(to)->when > now_) return absl::nullopt;
    return static_cast<Mark*>(to)->when - static_cast<Mark*>(from)->when;
  }};
  std::vector<std::unique_ptr<Session>> sessions_;
};

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

TEST_F(WorkShareTest, ALoneSessionKeepsTheDeviceBusy) {
  const Session* const session = Add(nullptr, microseconds(20));
  RunFor(milliseconds(2000));
  EXPECT_LE(idle_, milliseconds(2));
  EXPECT_NEAR(session->seconds(), 2, 0.05 + 1e-3 * WorkShare::kMostAlone.count());
  EXPECT_GT(in_flight_, WorkShare::kMostShared);
  EXPECT_LE(in_flight_, WorkShare::kMostAlone + milliseconds(5));
  EXPECT_LE(marks_.size(), 400U);  // they are used again
}

TEST_F(WorkShareTest, EqualSessionsHaveEqualTimesWhateverTheirKernelsTake) {
  const Session* const small = Add(nullptr, microseconds(10));
  const Session* const large = Add(nullptr, microseconds(700));
  const Session* const huge = Add(nullptr, milliseconds(30));
  RunFor(milliseconds(9000));
  EXPECT_LE(idle_, milliseconds(90));
  for (const Session* session : {small, large, huge}) EXPECT_NEAR(session->seconds(), 3, 0.15);
}

TEST_F(WorkShareTest, WeightsDivideTheTime) {
  TurnGroup heavy(3);
  TurnGroup light(1);
  const Session* const a = Add(&heavy, microseconds(100));
  const Session* const b = Add(&heavy, microseconds(100));
  const Session* const c = Add(&light, microseconds(100));
  RunFor(milliseconds(4000));
  EXPECT_NEAR((a->seconds() + b->seconds()) / c->seconds(), 3, 3 * kTolerance);
  EXPECT_NEAR(a->seconds() / b->seconds(), 1, kTolerance);
  light.weight = 3;  // a tenants file that is read again
  const double before_a = a->seconds();
  const double before_c = c->seconds();
  RunFor(milliseconds(4000));
  EXPECT_NEAR(2 * (a->seconds() - before_a) / (c->seconds() - before_c), 1, 2 * kTolerance);
}

TEST_F(WorkShareTest, NobodyHasMoreThanThereIs) {
  double sum = 0;
  for (int i = 0; i < 5; ++i) Add(nullptr, microseconds(30 * (i + 1)));
  RunFor(milliseconds(1000));
  for (const auto& session : sessions_) sum += session->seconds();
  EXPECT_LE(sum, 1.0);
  EXPECT_GE(sum, 0.97);
}

TEST_F(WorkShareTest, ASmallStepDoesNotWaitForAllThatHogsWouldQueue) {
  for (int i = 0; i < 4; ++i) Add(nullptr, microseconds(200));
  RunFor(milliseconds(100));  // the sizes of kernels are known
  in_flight_ = {};
  const Session* const small = Add(nullptr, microseconds(100), milliseconds(5));
  RunFor(milliseconds(3000));
  EXPECT_LE(in_flight_, WorkShare::kMostShared + milliseconds(3));
  ASSERT_GT(small->waits.size(), 100U);
  EXPECT_LE(Percentile(small->waits, 0.99), 12);
}

TEST_F(WorkShareTest, AHigherPriorityGoesFirstAndALowerOneIsNotStarved) {
  TurnGroup high(1, 1);
  TurnGroup low(1, -1);
  const Session* const first = Add(&high, microseconds(100));
  const Session* const last = Add(&low, microseconds(100));
  RunFor(milliseconds(10000));
  EXPECT_GT(first->seconds(), 9);
  EXPECT_GT(last->pieces, 5);
}

TEST_F(WorkShareTest, AnOpenPieceThatGetsNoKernelsDoesNotHoldOthersUp) {
  Session stuck(nullptr, microseconds(100));
  ASSERT_TRUE(share_.TryBegin(&stuck.client, now_));
  share_.Open(&stuck.client, NewMark());
  Session granted(nullptr, milliseconds(1));
  for (int i = 0; i < 20; ++i) {  // others would fill the device
    Session other(nullptr, milliseconds(1));
    if (share_.TryBegin(&other.client, now_)) {
      share_.Open(&other.client, NewMark());
      share_.Close(&other.client, NewMark());
    }
    share_.Forget(&other.client);
  }
  const Session* const session = Add(nullptr, microseconds(100));
  RunFor(milliseconds(100));
  EXPECT_GT(session->seconds(), 0.08);
  share_.Forget(&stuck.client);
}

TEST_F(WorkShareTest, WhoGivesUpLeavesNothing) {
  std::vector<std::unique_ptr<Session>> many;
  for (int i = 0; i < 50; ++i) {
    many.push_back(std::make_unique<Session>(nullptr, milliseconds(1)));
    share_.TryBegin(&many.back()->client, now_);
  }
  for (const auto& session : many) share_.GiveUp(&session->client);
  many.clear();
  Session* const session = Add(nullptr, microseconds(100));
  EXPECT_TRUE(share_.TryBegin(&session->client, now_));
  Queue(session);
  // Its session ends while the device still has to do it.
  share_.Forget(&session->client);
  share_.Notice();
  EXPECT_EQ(share_.TakeAll().size(), 2U);
  sessions_.clear();
}

}  // namespace
}  // namespace chx::server::cuda
