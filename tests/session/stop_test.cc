// Work that does not end by itself: cancelled, late, or of a session that has ended.
#include <atomic>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/registry.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What a stop may take on a busy machine under a sanitizer; without stops it is for ever.
constexpr auto kSoon = std::chrono::seconds(20);

class StopTest : public SessionTest {
 protected:
  // Runs a batch on a thread of its own, as a stream does.
  void Start(std::vector<Command> commands, uint64_t batch = 1) {
    done_ = false;
    thread_ = std::thread([this, commands, batch] {
      session_->Execute(commands, &output_, batch);
      ended_ = steady_clock::now();
      done_ = true;
    });
    while (!session_->stop().running() && !done_) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
  }
  void Join() {
    const auto asked = steady_clock::now();
    thread_.join();
    EXPECT_LT(ended_ - asked, kSoon);
    took_ = ended_ - asked;
  }

  // A view of 2^log elements that takes no memory, under handle `handle`.
  void Endless(Handle handle, int log, Dtype dtype = Dtype::kUint8) {
    const Handle one = handle + 1000;
    output_.Clear();
    Run({Op("full", {}, {one}, {Ints{}, Scalar(1), dtype}),
         Op("broadcast_to", {A(one)}, {handle}, {Ints{int64_t{1} << log}})});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
  }
  command::ApplyOp SumOf(Handle x, Handle y) { return OpByDefault("sum", {A(x)}, {y}); }
  // The kind of the error under a handle; fails if there is none.
  ErrorKind KindUnder(Handle handle, std::string* message = nullptr) {
    RootErrorPtr error;
    Fetch(handle, &error);
    if (error == nullptr) {
      ADD_FAILURE() << "there is a value under " << handle;
      return ErrorKind::kChainerx;
    }
    if (message != nullptr) *message = std::string(error->status.message());
    return KindOf(error->status);
  }

  std::thread thread_;
  std::atomic<bool> done_{false};
  steady_clock::time_point ended_;
  steady_clock::duration took_ = {};
};

TEST_F(StopTest, CancelEndsWhatRunsAndTheSessionGoesOn) {
  Endless(1, 50);
  Start({SumOf(1, 2)});
  session_->stop().Cancel(1);
  Join();
  std::string message;
  EXPECT_EQ(KindUnder(2, &message), ErrorKind::kCancelled);
  EXPECT_EQ(message, "[sum] was cancelled");
  Endless(3, 10);
  Run({SumOf(3, 4), Op("astype", {A(4)}, {5}, {Dtype::kFloat32})});
  EXPECT_EQ(Fetch(5), std::vector<float>{1024});
}

TEST_F(StopTest, CancelledBatchesKeepTheBooksOnly) {
  Upload(1, {1, 2}, {2});
  Upload(2, {3, 4}, {2});
  session_->stop().Cancel(2);
  const std::vector<Command> batch = {Op("add", {A(1), A(2)}, {3}), command::Barrier{9},
                                      GradOf({2}, {2}, {6}), ReleaseOf({1}),
                                      Op("multiply_", {A(2), S(2.0)}, {})};
  session_->Execute(batch, &output_, 1);
  EXPECT_EQ(session_->stats().handles, 3);  // 2, 3 and 6: 1 is released
  ASSERT_EQ(output_.values.size(), 1u);
  EXPECT_EQ(output_.values[0].request_id, 9u);
  ASSERT_NE(output_.values[0].error, nullptr);
  EXPECT_EQ(KindUnder(3), ErrorKind::kCancelled);
  EXPECT_EQ(KindUnder(6), ErrorKind::kCancelled);
  EXPECT_EQ(KindUnder(2), ErrorKind::kCancelled);  // the client takes it for multiplied
  // Uploads are the client's own data.
  const float value = 5;
  const absl::string_view data(reinterpret_cast<const char*>(&value), sizeof(value));
  const Command upload = command::Upload{7, Dtype::kFloat32, 0, {}, data};
  session_->Execute({&upload, 1}, &output_, 2);
  EXPECT_EQ(Fetch(7), std::vector<float>{5});
  const Command add = Op("add", {A(7), A(7)}, {8});
  session_->Execute({&add, 1}, &output_, 3);  // after what was cancelled
  EXPECT_EQ(Fetch(8), std::vector<float>{10});
}

TEST_F(StopTest, ListsOfACancelledUpdateKeepTheirValues) {
  Upload(1, {1, 2}, {2});
  Upload(2, {3, 4}, {2});
  session_->stop().Cancel(1);
  const Command update = Op("sgd_update", {A(1), A(2)}, {}, {0.5});
  session_->Execute({&update, 1}, &output_, 1);
  EXPECT_EQ(output_.errors.size(), 1u);
  EXPECT_EQ(Fetch(1), (std::vector<float>{1, 2}));
}

TEST_F(StopTest, WhatAStoppedWriteHasBegunHasNoValue) {
  Run({Op("full", {}, {1}, {Ints{}, Scalar(1), Dtype::kUint8}),
       Op("broadcast_to", {A(1)}, {2}, {Ints{1, int64_t{1} << 40}}),
       Op("broadcast_to", {A(1)}, {3}, {Ints{int64_t{1} << 40, 1}}),
       Op("full", {}, {4}, {Ints{1, 1}, Scalar(7), Dtype::kUint8})});
  // A batch of two: the write is queued behind the product.
  Start({Op("matmul", {A(2), A(3)}, {5}), Op("copyto", {A(4), A(5)}, {})});
  session_->stop().Cancel(1);
  Join();
  EXPECT_EQ(KindUnder(5), ErrorKind::kCancelled);
  EXPECT_EQ(KindUnder(4), ErrorKind::kCancelled);
}

TEST_F(StopTest, DeadlineIsForOneCommand) {
  SessionLimits limits;
  limits.max_command_time = milliseconds(100);
  Reset(limits);
  Endless(1, 50);
  Endless(3, 10);
  Start({SumOf(1, 2), SumOf(3, 4)});
  while (session_->stop().running()) {
    session_->stop().Watch(steady_clock::now());
    std::this_thread::sleep_for(milliseconds(5));
  }
  Join();
  std::string message;
  EXPECT_EQ(KindUnder(2, &message), ErrorKind::kTimeout);
  EXPECT_EQ(message, "[sum] exceeded --max-command-time of 100ms");
  RootErrorPtr error;
  Fetch(4, &error);
  EXPECT_EQ(error, nullptr);
}

TEST_F(StopTest, NothingRunsAfterTheEndOfTheSession) {
  Endless(1, 50);
  Start({SumOf(1, 2), SumOf(1, 3)});
  session_->stop().EndSession();
  Join();
  const int64_t commands = session_->stats().commands;
  Run({Op("full", {}, {5}, {Ints{}, Scalar(1), Dtype::kFloat32})});
  EXPECT_EQ(session_->stats().commands, commands);
  EXPECT_FALSE(session_->ReadArray(1).ok());
}

TEST_F(StopTest, StatisticsDoNotWait) {
  Endless(1, 50);
  Start({SumOf(1, 2)});
  EXPECT_GE(session_->stats().handles, 2);
  EXPECT_TRUE(session_->UnreadErrorsWithin(milliseconds(1)).empty());
  session_->stop().Cancel(1);
  Join();
}

TEST_F(StopTest, MoreWorkThanIsAllowedIsRefused) {
  Endless(1, 60);
  Run({SumOf(1, 2)});
  EXPECT_EQ(KindUnder(2), ErrorKind::kValue);
  Run({Op("full", {}, {3}, {Ints{}, Scalar(1), Dtype::kInt8}),
       Op("broadcast_to", {A(3)}, {4}, {Ints{1 << 15, int64_t{1} << 40}}),
       Op("broadcast_to", {A(3)}, {5}, {Ints{int64_t{1} << 40, 1 << 10}}),
       Op("matmul", {A(4), A(5)}, {6})});
  EXPECT_EQ(KindUnder(6), ErrorKind::kValue);
  EXPECT_FALSE(session_->ReadArray(1).ok());  // a download of 2^60 bytes
}

// Long loops of each kind, which look at whether to stop by themselves.
struct Job {
  std::string name;
  std::vector<Command> make;  // small
  std::vector<Command> run;   // long; makes handle 100
};

class LongJobs : public StopTest {
 protected:
  Command View(Handle from, Handle to, Ints shape) {
    return Op("broadcast_to", {A(from)}, {to}, {std::move(shape)});
  }
  Command Copy(Handle from, Handle to) { return Op("copy", {A(from)}, {to}); }
  Command Uniform(Handle to, Ints shape) {
    return Op("random_uniform", {}, {to}, {std::move(shape), 0.0, 1.0, Dtype::kFloat32, 1, 0});
  }

  std::vector<Job> Jobs() {
    const int64_t huge = int64_t{1} << 45;
    const AttrValue none;
    const auto one = [](Dtype dtype) { return Op("full", {}, {1}, {Ints{}, Scalar(1), dtype}); };
    std::vector<Job> jobs;
    for (const std::string op : {"sum", "amax", "argmin", "logsumexp", "prod"}) {
      const auto reduce = [&](Handle x, const AttrValue& axis) {
        return OpByDefault(op, {A(x)}, {100}, {axis});
      };
      // One row; many rows; by columns.
      jobs.push_back({op, {one(Dtype::kFloat32), View(1, 2, {huge})}, {reduce(2, none)}});
      jobs.push_back({op,
                      {one(Dtype::kFloat32), View(1, 3, {3}), Copy(3, 4), View(4, 2, {huge, 3})},
                      {reduce(2, none)}});
      jobs.push_back({op,
                      {one(Dtype::kFloat32), View(1, 3, {16}), Copy(3, 4), View(4, 2, {huge, 16})},
                      {reduce(2, op == "argmin" ? AttrValue(0) : AttrValue(Ints{0}))}});
    }
    jobs.push_back({"products of integers",
                    {one(Dtype::kInt32), View(1, 2, {1, huge}), View(1, 3, {huge, 1})},
                    {Op("matmul", {A(2), A(3)}, {100})}});
    jobs.push_back({"products of floats",
                    {Uniform(1, {6144, 12288})},
                    {Op("transpose", {A(1)}, {2}, {none}), Op("matmul", {A(1), A(2)}, {100})}});
    jobs.push_back({"sort", {Uniform(1, {1 << 25})}, {Op("sort", {A(1)}, {100}, {AttrValue(-1)})}});
    jobs.push_back(
        {"argsort", {Uniform(1, {1 << 24})}, {Op("argsort", {A(1)}, {100}, {AttrValue(-1)})}});
    jobs.push_back({"softmax of one row",
                    {Uniform(1, {1, 1 << 26})},
                    {OpByDefault("softmax", {A(1)}, {100})}});
    jobs.push_back({"conv of one dimension",
                    {Uniform(1, {1, 4, 1 << 23}), Uniform(2, {4, 4, 255})},
                    {OpByDefault("conv", {A(1), A(2), HandleOperand()}, {100})}});
    const auto decomposition = [&](const char* op, int64_t n, std::vector<HandleOperand> inputs) {
      const Command eye = Op("eye", {}, {2}, {n, AttrValue(), int64_t{0}, Dtype::kFloat32});
      std::vector<Handle> outputs = {100};
      const OpDef& def = *OpRegistry::Global().Find(op);
      for (size_t i = 1; i < def.outputs.size(); ++i) outputs.push_back(100 + i);
      jobs.push_back({op, {Uniform(1, {n, n}), eye}, {OpByDefault(op, inputs, outputs)}});
    };
    decomposition("svd", 2000, {A(1)});
    decomposition("eig", 1500, {A(1)});
    decomposition("eigh", 3000, {A(1)});
    decomposition("qr", 4000, {A(1)});
    decomposition("solve", 6000, {A(1), A(2)});
    decomposition("cholesky", 8192, {A(2)});
    return jobs;
  }
};

TEST_F(LongJobs, EndSoon) {
  for (const Job& job : Jobs()) {
    SCOPED_TRACE(job.name);
    Reset(SessionLimits());
    Run(job.make);
    ASSERT_TRUE(output_.errors.empty()) << LastError();
    Start(job.run);
    session_->stop().Cancel(1);
    Join();
    EXPECT_EQ(KindUnder(100), ErrorKind::kCancelled);
    std::cout << job.name << ": "
              << std::chrono::duration_cast<std::chrono::microseconds>(took_).count() << " us\n";
  }
}

}  // namespace
}  // namespace chx::server
