// Windows at a session's limits: memory, values that are refused, commands that are stopped.
#include <atomic>
#include <cstring>
#include <thread>

#include "base/sanitizers.h"
#include "tests/session/windows_fixture.h"

namespace chx::server {
namespace {

class WindowsAtLimitsTest : public RepeatedWindowsTest {
 protected:
  static command::ApplyOp Sum(Handle x, Handle y) {
    return Op("sum", {A(x)}, {y}, {AttrValue(), AttrValue(false), AttrValue()});
  }
  static float FloatOf(const std::string& bytes) {
    float value = 0;
    if (bytes.size() == sizeof(value)) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  // Steps that write, between others that need memory, scratch memory too; results are released in
  // their window, or after the next one.
  std::vector<Command> HungryLoop(int times) {
    std::vector<Command> commands;
    constexpr int64_t kRows = 300;
    commands.emplace_back(UploadOf(1, std::vector<float>(kRows * kRows, 0.5f), {kRows, kRows}));
    commands.emplace_back(UploadOf(2, std::vector<float>(kRows, 0.1f), {kRows, 1}));
    commands.emplace_back(command::RequireGrad{2});
    commands.emplace_back(UploadOf(3, {0, 0, 0}, {3}));
    std::vector<Handle> before;
    for (int i = 0; i < times; ++i) {
      const Handle first = 100 + 20 * static_cast<Handle>(i);
      commands.emplace_back(Op("multiply", {A(1), A(2)}, {first}));
      commands.emplace_back(Op("tanh", {A(first)}, {first + 1}));
      commands.emplace_back(Op("add_", {A(3), S(1.0)}, {}));
      commands.emplace_back(Op("transpose", {A(1)}, {first + 2}, {AttrValue()}));
      commands.emplace_back(OpByDefault("sort", {A(first + 2)}, {first + 3}));
      commands.emplace_back(Op("multiply", {A(first + 1), A(first + 3)}, {first + 4}));
      commands.emplace_back(Sum(first + 4, first + 5));
      commands.emplace_back(BackwardOf({first + 5}));
      commands.emplace_back(GetGradOf(2, first + 6));
      commands.emplace_back(command::SetGrad{2, 0, 0});
      commands.emplace_back(Op("multiply_", {A(1), S(0.9)}, {}));
      if (!before.empty()) commands.emplace_back(ReleaseOf(before));
      commands.emplace_back(command::Fetch{7, first + 5});
      commands.emplace_back(command::Fetch{7, first + 6});
      commands.emplace_back(ReleaseOf({first, first + 2}));
      before = {first + 1, first + 3, first + 4, first + 5, first + 6};
    }
    commands.emplace_back(command::Fetch{7, 3});
    return commands;
  }
};

// A session that is at its limit fails where it would.
TEST_F(WindowsAtLimitsTest, MemoryIsAsItWouldBe) {
  const std::vector<Command> commands = HungryLoop(12);
  constexpr int64_t kStep = (kSanitized ? 768 : 192) << 10;
  int failing = 0;
  int with_windows = 0;
  for (int64_t limit = 4 << 20; limit < 16 << 20; limit += kStep) {
    SessionLimits limits;
    limits.memory_bytes = limit;
    const Seen eager = Send(commands, false, 1, limits);
    const Seen windows = Send(commands, true, 1, limits);
    ASSERT_EQ(eager.errors, windows.errors) << limit;
    ASSERT_TRUE(eager.values == windows.values) << limit;
    failing += eager.errors.empty() ? 0 : 1;
    with_windows += windows.windows > 0 ? 1 : 0;
  }
  printf("%d limits with errors, %d with windows\n", failing, with_windows);
  EXPECT_GT(failing, 0);
  EXPECT_GT(with_windows, 0);
}

// Statistics are written before labels are looked at, as batch normalisation does.
TEST_F(WindowsAtLimitsTest, LabelsAreCheckedBeforeAWrite) {
  for (const Dtype dtype : {Dtype::kInt64, Dtype::kInt32}) {
    std::vector<Command> commands;
    commands.emplace_back(UploadOf(1, {1, 2, 3, 4, 5, 6}, {2, 3}));
    commands.emplace_back(command::RequireGrad{1});
    commands.emplace_back(UploadOf(2, {0, 0, 0}, {3}));
    const auto labels = [&](Handle handle, int64_t label) {
      const auto narrow = static_cast<int32_t>(label);
      std::string& data = data_.emplace_back();
      for (int i = 0; i < 2; ++i) {
        if (dtype == Dtype::kInt64) {
          data.append(reinterpret_cast<const char*>(&label), sizeof(label));
        } else {
          data.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
        }
      }
      command::Upload upload;
      upload.result = handle;
      upload.dtype = dtype;
      upload.shape = {2};
      upload.data = data;
      commands.emplace_back(upload);
    };
    for (Handle i = 0; i < 60; ++i) {
      const Handle first = 100 + 10 * i;
      labels(first, i == 40 ? 7 : static_cast<int64_t>(i % 3));
      commands.emplace_back(Op("tanh", {A(1)}, {first + 1}));
      commands.emplace_back(Op("add_", {A(2), S(1.0)}, {}));
      commands.emplace_back(
          OpByDefault("softmax_cross_entropy", {A(first + 1), A(first)}, {first + 2}));
      commands.emplace_back(Sum(first + 2, first + 3));
      commands.emplace_back(BackwardOf({first + 3}));
      commands.emplace_back(GetGradOf(1, first + 4));
      commands.emplace_back(command::SetGrad{1, 0, 0});
      commands.emplace_back(command::Fetch{7, first + 3});
      commands.emplace_back(command::Fetch{7, first + 4});
      commands.emplace_back(command::Fetch{7, 2});
      commands.emplace_back(ReleaseOf({first, first + 1, first + 2, first + 3, first + 4}));
    }
    EXPECT_GT(Compare(commands, 1), 30);
    const Seen seen = Send(commands, true, 1);
    EXPECT_EQ(FloatOf(seen.values.back().substr(0, 4)), 60.0f);
    ASSERT_FALSE(seen.errors.empty());
    EXPECT_NE(seen.errors[0].find("labels below 3"), std::string::npos) << seen.errors[0];
  }
}

// Whenever it comes, a window is carried out or it is not.
TEST_F(WindowsAtLimitsTest, WhatIsCancelledIsDoneOrNot) {
  const SessionLimits limits = WithWindows({});
  const uint32_t seed = std::random_device()();
  printf("seed %u\n", seed);
  std::mt19937 random(seed);
  int64_t windows = 0;
  for (int round = 0; round < 30; ++round) {
    Reset(limits);
    Run({UploadOf(1, std::vector<float>(10000, 0.0f), {10000}),
         UploadOf(2, std::vector<float>(10000, 0.0f), {10000})});
    std::vector<Command> batch;
    for (Handle i = 0; i < 40; ++i) {
      const Handle first = 100 + 10 * i;
      batch.emplace_back(Op("tanh", {A(1)}, {first}));
      batch.emplace_back(Op("exp", {A(first)}, {first + 1}));
      batch.emplace_back(Op("add_", {A(1), S(1.0)}, {}));
      batch.emplace_back(Op("sin", {A(first + 1)}, {first + 2}));
      batch.emplace_back(Op("add_", {A(2), S(1.0)}, {}));
      batch.emplace_back(command::Fetch{7, first + 2});
      batch.emplace_back(ReleaseOf({first, first + 1, first + 2}));
    }
    // After so many windows, while the next one runs.
    const int64_t after = random() % 30;
    std::atomic<bool> done{false};
    std::thread canceller([&] {
      while (session_->counters().repeated_windows.value() < after && !done) {
      }
      session_->stop().Cancel(1);
    });
    session_->Execute(batch, &output_, 1);
    done = true;
    canceller.join();
    windows += session_->counters().repeated_windows.value();
    RootErrorPtr errors[2];
    const std::vector<float> a = Fetch(1, &errors[0]);
    const std::vector<float> b = Fetch(2, &errors[1]);
    EXPECT_TRUE(errors[0] != nullptr || errors[1] != nullptr || a == b);
    for (const RootErrorPtr& error : errors) {
      EXPECT_TRUE(error == nullptr || KindOf(error->status) == ErrorKind::kCancelled);
    }
  }
  EXPECT_GT(windows, 0);
}

}  // namespace
}  // namespace chx::server
