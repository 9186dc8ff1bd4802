// Windows that a stream repeats run as plans, and nobody can tell: the same stream goes to a
// session that recognises windows and to one that does not.
#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <utility>

#include "base/sanitizers.h"
#include "server/session/step_commands.h"
#include "tests/session/random_step.h"
#include "tests/session/windows_fixture.h"

namespace chx::server {
namespace {

constexpr uint32_t kLoops = kSanitized ? 20 : 200;
constexpr uint32_t kLongLoops = kSanitized ? 4 : 24;

// A training loop: random steps, fetches, releases that come late, graphs that are used again.
class RandomLoop {
 public:
  // `operators`: of each step, about; 0: few.
  explicit RandomLoop(uint32_t seed, int operators = 0)
      : seed_(seed), operators_(operators), random_(seed) {}

  template <typename Upload>
  std::vector<Command> Make(uint16_t (*id)(const std::string&), Upload upload) {
    const auto values = [this] {
      std::vector<float> floats(9);
      for (float& value : floats) value = static_cast<float>(random_() % 2000) / 1000 - 1;
      return floats;
    };
    for (Handle handle = 1; handle <= 4; ++handle) commands_.emplace_back(upload(handle, values()));
    commands_.emplace_back(command::RequireGrad{1});
    commands_.emplace_back(command::RequireGrad{2});
    const bool uploads = Pick(2) == 0;
    const int noise = Pick(3) == 0 ? 4 : 40;  // what is not the same in each iteration
    const int iterations = 24;
    Handle argument = 5;
    if (!uploads) commands_.emplace_back(upload(argument, values()));
    for (int i = 0; i < iterations; ++i) {
      const Handle first = 1000 * static_cast<Handle>(i + 1);
      if (uploads) {
        argument = first;
        commands_.emplace_back(upload(argument, values()));
        alive_.push_back(argument);
        if (seed_ % 5 == 0) commands_.emplace_back(command::RequireGrad{argument});
      }
      RandomStep step(seed_, operators_);
      const std::vector<Command> made = step.Make(id, first + 1, argument);
      const int quiet = noise * 4 * (1 + operators_ / 10);
      for (const Command& command : made) {
        commands_.push_back(command);
        const auto* const apply = std::get_if<command::ApplyOp>(&command);
        if (apply != nullptr)
          alive_.insert(alive_.end(), apply->results.begin(), apply->results.end());
        if (Pick(12) == 0) ReleaseSome(first);
        if (Pick(quiet) == 0) Look();
      }
      last_ = step.output();
      if (Pick(noise) == 0) Look();
      if (Pick(noise) == 0) Backward();
      if (Pick(3) == 0) ReleaseSome(first + 1000);
    }
    for (Handle handle : alive_) Fetch(handle);
    for (Handle handle : {1, 2}) {
      commands_.emplace_back(command::GetGrad{handle, 0, 900000 + handle});
      Fetch(900000 + handle);
    }
    for (Handle handle : {1, 2, 3, 4}) Fetch(handle);
    return commands_;
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  void Fetch(Handle handle) { commands_.emplace_back(command::Fetch{7, handle}); }
  // Something that no window has: a value, a gradient, or what the graph of an array is.
  void Look() {
    if (alive_.empty()) return;
    const Handle handle = alive_[static_cast<size_t>(Pick(static_cast<int>(alive_.size())))];
    switch (Pick(3)) {
      case 0:
        Fetch(handle);
        break;
      case 1:
        commands_.emplace_back(command::DumpGraph{7, handle, 0});
        break;
      default:
        commands_.emplace_back(command::GetGrad{1, 0, next_});
        Fetch(next_++);
        break;
    }
  }
  // From an array of an iteration before.
  void Backward() {
    command::Backward backward;
    backward.outputs = {last_};
    if (std::find(alive_.begin(), alive_.end(), last_) != alive_.end()) {
      commands_.emplace_back(backward);
    }
  }
  void ReleaseSome(Handle below) {
    command::Release release;
    for (size_t i = 0; i < alive_.size();) {
      if (alive_[i] < below && Pick(3) != 0) {
        release.handles.push_back(alive_[i]);
        alive_.erase(alive_.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    if (!release.handles.empty()) commands_.emplace_back(release);
  }

  const uint32_t seed_;
  const int operators_;
  std::mt19937 random_;
  std::vector<Command> commands_;
  std::vector<Handle> alive_;
  Handle last_ = 0;
  Handle next_ = 800000;
};

TEST_F(RepeatedWindowsTest, RandomLoopsAreEqualToTheLastBit) {
  const uint32_t first_seed = std::random_device()();
  printf("seed %u\n", first_seed);
  int with_windows = 0;
  for (uint32_t seed = first_seed; seed < first_seed + kLoops && !HasFailure(); ++seed) {
    data_.clear();
    const std::vector<Command> commands =
        RandomLoop(seed).Make(WireId, [this](Handle handle, const std::vector<float>& values) {
          return UploadOf(handle, values, {3, 3});
        });
    with_windows += Compare(commands, seed) > 0 ? 1 : 0;
  }
  printf("%d of %u loops with windows\n", with_windows, kLoops);
  // A third of many; of few, any.
  EXPECT_GT(with_windows, kLoops < 100 ? 0 : static_cast<int>(kLoops) * 3 / 20);
}

// Of hundreds of operators, in batches that have all of an iteration and ones that do not.
TEST_F(RepeatedWindowsTest, LongRandomLoopsAreEqualToTheLastBit) {
  const uint32_t first_seed = std::random_device()();
  printf("seed %u\n", first_seed);
  int with_windows = 0;
  for (uint32_t seed = first_seed; seed < first_seed + kLongLoops && !HasFailure(); ++seed) {
    data_.clear();
    const int operators = 100 + static_cast<int>((seed - first_seed) * 288 / kLongLoops);
    const std::vector<Command> commands =
        RandomLoop(seed, operators)
            .Make(WireId, [this](Handle handle, const std::vector<float>& values) {
              return UploadOf(handle, values, {3, 3});
            });
    const size_t batch = seed % 3 == 0 ? 700 : 5000;
    const Seen eager = SendBatches(commands, false, batch);
    const Seen windows = SendBatches(commands, true, batch);
    EXPECT_EQ(eager.errors, windows.errors) << "seed " << seed;
    EXPECT_TRUE(eager.values == windows.values) << "seed " << seed;
    with_windows += windows.windows > 0 ? 1 : 0;
  }
  printf("%d of %u loops with windows\n", with_windows, kLongLoops);
  EXPECT_GE(with_windows, static_cast<int>(kLongLoops) / 8);
}

// Handles that are in use, unknown, or of something else: what a client may send by mistake, or
// not.
TEST_F(RepeatedWindowsTest, DamagedLoopsFailAsTheyWould) {
  const uint32_t first_seed = std::random_device()();
  printf("seed %u\n", first_seed);
  int with_windows = 0;
  for (uint32_t seed = first_seed; seed < first_seed + kLoops && !HasFailure(); ++seed) {
    data_.clear();
    std::vector<Command> commands =
        RandomLoop(seed).Make(WireId, [this](Handle handle, const std::vector<float>& values) {
          return UploadOf(handle, values, {3, 3});
        });
    std::mt19937 random(seed);
    for (int i = 0; i < 3; ++i) {
      const size_t at = commands.size() / 2 + random() % (commands.size() / 2);
      const Handle other =
          random() % 3 == 0 ? 1 + random() % 5 : 1000 * (1 + random() % 24) + random() % 30;
      if (auto* const apply = std::get_if<command::ApplyOp>(&commands[at])) {
        if (random() % 2 == 0 && !apply->results.empty()) {
          apply->results[0] = other;
        } else {
          apply->inputs[0] = HandleOperand(other);
        }
      } else if (auto* const release = std::get_if<command::Release>(&commands[at])) {
        release->handles[0] = other;
      } else if (random() % 2 == 0) {
        commands.insert(commands.begin() + static_cast<ptrdiff_t>(at), ReleaseOf({other}));
      }
    }
    with_windows += Compare(commands, seed) > 0 ? 1 : 0;
  }
  EXPECT_GT(with_windows, kLoops < 100 ? 0 : static_cast<int>(kLoops) * 3 / 40);
}

// What is released in a window makes room in it.
TEST_F(RepeatedWindowsTest, WindowsTakeNoMemoryThatThereIsNot) {
  SessionLimits limits;
  limits.memory_bytes = 24 << 20;
  std::vector<Command> commands;
  commands.emplace_back(UploadOf(1, std::vector<float>(1 << 18, 0.5f), {1 << 18}));
  Handle next = 100;
  for (int i = 0; i < 12; ++i) {
    Handle last = 1;
    for (int j = 0; j < 40; ++j) {
      commands.emplace_back(Op("tanh", {A(last)}, {next}));
      if (last != 1) commands.emplace_back(ReleaseOf({last}));
      last = next++;
    }
    commands.emplace_back(
        Op("sum", {A(last)}, {next}, {AttrValue(), AttrValue(false), AttrValue()}));
    commands.emplace_back(command::Fetch{7, next});
    commands.emplace_back(ReleaseOf({last, next++}));
  }
  const Seen eager = Send(commands, false, 1, limits);
  const Seen windows = Send(commands, true, 1, limits);
  EXPECT_EQ(eager.errors, std::vector<std::string>());
  EXPECT_EQ(windows.errors, std::vector<std::string>());
  EXPECT_EQ(eager.values, windows.values);
}

class TrainingLoopTest : public RepeatedWindowsTest {
 protected:
  // y = x w, a loss, its gradient and an update, `times` times; handles from 100 on. What an
  // iteration has made is released after the next one.
  std::vector<Command> Loop(int times, bool fetches = true) {
    std::vector<Command> commands = Begin();
    Handle next = 100;
    std::vector<Handle> made;
    for (int i = 0; i < times; ++i) {
      const std::vector<Handle> before = std::exchange(made, {});
      for (int j = 0; j < 5; ++j) made.push_back(next++);
      AddStep("tanh", made, &commands);
      if (!before.empty()) commands.emplace_back(ReleaseOf(before));
      if (fetches) commands.emplace_back(command::Fetch{7, made[2]});
    }
    last_ = made;
    return commands;
  }
  // Of these results: the loss is made[2].
  static void AddStep(const std::string& activation, const std::vector<Handle>& made,
                      std::vector<Command>* commands) {
    commands->emplace_back(Op("dot", {A(1), A(2)}, {made[0]}));
    commands->emplace_back(Op(activation, {A(made[0])}, {made[1]}));
    commands->emplace_back(
        Op("sum", {A(made[1])}, {made[2]}, {AttrValue(), AttrValue(false), AttrValue()}));
    commands->emplace_back(BackwardOf({made[2]}));
    commands->emplace_back(command::GetGrad{2, 0, made[3]});
    commands->emplace_back(command::SetGrad{2, 0, 0});
    commands->emplace_back(Op("multiply", {A(made[3]), S(0.01)}, {made[4]}));
    commands->emplace_back(Op("subtract_", {A(3), A(made[4])}, {}));
  }
  // x, and w with a view of it without a graph, in which it is updated.
  std::vector<Command> Begin() {
    std::vector<Command> commands;
    commands.emplace_back(UploadOf(1, {1, 2, 3, 4, 5, 6}, {2, 3}));
    commands.emplace_back(UploadOf(2, {0.1f, -0.2f, 0.3f}, {3, 1}));
    commands.emplace_back(command::RequireGrad{2});
    commands.emplace_back(command::DefineMode{1, false, {}});
    command::ApplyOp view = OpByDefault("reshape", {A(2)}, {3}, {AttrValue(Ints{3, 1})});
    view.mode = 1;
    commands.emplace_back(view);
    return commands;
  }
  std::vector<Handle> last_;  // what the last iteration has made
};

TEST_F(TrainingLoopTest, RunsAsWindows) {
  EXPECT_GT(Compare(Loop(40), 1), 20);
  EXPECT_GT(Compare(Loop(200, /*fetches=*/false), 1), 100);
}

// Two steps in turns, as of a GAN, each in a batch of its own: no batch has the whole period.
TEST_F(TrainingLoopTest, StepsThatBatchesSeparateAreWindowsOfTheirOwn) {
  std::vector<Command> commands = Begin();
  const size_t begin = commands.size();
  size_t size = 0;
  Handle next = 100;
  std::vector<Handle> made;
  for (int i = 0; i < 60; ++i) {
    const size_t first = commands.size();
    const std::vector<Handle> before = std::exchange(made, {});
    for (int j = 0; j < 5; ++j) made.push_back(next++);
    AddStep(i % 2 == 0 ? "tanh" : "exp", made, &commands);
    commands.emplace_back(ReleaseOf(before));
    size = commands.size() - first;
  }
  commands.emplace_back(command::Fetch{7, 3});
  commands.insert(commands.begin(), size - begin, ReleaseOf({}));  // its batch is as long
  const Seen eager = SendBatches(commands, false, size);
  const Seen windows = SendBatches(commands, true, size);
  EXPECT_TRUE(eager == windows);
  EXPECT_EQ(eager.windows, 0);
  EXPECT_GT(windows.windows, 20);
}

TEST_F(TrainingLoopTest, GraphsAreThereWhenSomebodyAsks) {
  std::vector<Command> commands = Loop(30);
  const Handle loss = last_[2];
  commands.emplace_back(command::DumpGraph{7, loss, 0});
  commands.emplace_back(command::DumpGraph{7, last_[1], 0});
  commands.emplace_back(ReleaseOf({last_[0], last_[1]}));
  commands.emplace_back(BackwardOf({loss}, /*double_backprop=*/true));
  commands.emplace_back(GetGradOf(2, 5000));
  commands.emplace_back(command::Fetch{7, 5000});
  commands.emplace_back(command::DumpGraph{7, 5000, 0});
  EXPECT_GT(Compare(commands, 1), 10);
}

// A condition is saved with its nodes, which no gradient goes through.
TEST_F(TrainingLoopTest, ValuesThatAreSavedHaveGraphs) {
  std::vector<Command> commands = Begin();
  for (Handle i = 0; i < 30; ++i) {
    const Handle first = 100 + 10 * i;
    commands.emplace_back(Op("tanh", {A(2)}, {first}));
    commands.emplace_back(Op("tanh", {A(first)}, {first + 1}));
    commands.emplace_back(Op("where", {A(first + 1), A(2), A(2)}, {first + 2}));
    commands.emplace_back(
        Op("sum", {A(first + 2)}, {first + 3}, {AttrValue(), AttrValue(false), AttrValue()}));
    commands.emplace_back(command::Fetch{7, first + 3});
    if (i == 28) commands.emplace_back(command::DumpGraph{7, first + 3, 0});
    commands.emplace_back(ReleaseOf({first, first + 1}));
    if (i == 29) commands.emplace_back(BackwardOf({first + 3}));
  }
  commands.emplace_back(GetGradOf(2, 5000));
  commands.emplace_back(command::Fetch{7, 5000});
  EXPECT_GT(Compare(commands, 1), 10);
}

TEST_F(TrainingLoopTest, GraphsEndWithTheirScope) {
  std::vector<Command> commands = Begin();
  commands.emplace_back(command::NewBackpropId{5});
  commands.emplace_back(In(5, command::RequireGrad{1}));
  std::vector<Handle> all;
  for (Handle i = 0; i < 30; ++i) {
    const Handle first = 100 + 10 * i;
    commands.emplace_back(Op("tanh", {A(1)}, {first}));
    commands.emplace_back(Op("tanh", {A(first)}, {first + 1}));
    commands.emplace_back(Op("tanh", {A(first + 1)}, {first + 2}));
    commands.emplace_back(Op("tanh", {A(first + 2)}, {first + 3}));
    commands.emplace_back(command::Fetch{7, first + 3});
    for (Handle j = 0; j < 4; ++j) all.push_back(first + j);
  }
  commands.emplace_back(command::ReleaseBackpropId{5});
  for (Handle handle : all) commands.emplace_back(Op("add_", {A(handle), S(1.0)}, {}));
  for (Handle handle : all) commands.emplace_back(command::Fetch{7, handle});
  EXPECT_GT(Compare(commands, 1), 10);
}

// Of a window whose other results are released, an array keeps what its own graph needs.
TEST_F(TrainingLoopTest, AGraphKeepsNoMoreThanItNeeds) {
  for (const bool recognize : {false, true}) {
    std::vector<Command> commands;
    commands.emplace_back(UploadOf(1, std::vector<float>(1 << 14, 0.5f), {1 << 14}));
    commands.emplace_back(command::RequireGrad{1});
    for (Handle i = 0; i < 400; ++i) {
      const Handle first = 100 + 10 * i;
      commands.emplace_back(
          Op("sum", {A(1)}, {first}, {AttrValue(), AttrValue(false), AttrValue()}));
      for (Handle j = 1; j < 6; ++j) {
        commands.emplace_back(Op("tanh", {A(j == 1 ? 1 : first + j - 1)}, {first + j}));
      }
      commands.emplace_back(command::Fetch{7, first});
      commands.emplace_back(ReleaseOf({first + 1, first + 2, first + 3, first + 4, first + 5}));
    }
    // Of what all iterations make, a quarter.
    SessionLimits limits;
    limits.memory_bytes = 32 << 20;
    const Seen seen = Send(commands, recognize, 1, limits);
    EXPECT_EQ(seen.windows > 0, recognize);
    EXPECT_EQ(seen.errors, std::vector<std::string>());
  }
}

TEST_F(TrainingLoopTest, NothingIsHeldThatTheClientHasReleased) {
  std::vector<int64_t> left;
  for (const bool recognize : {false, true}) {
    std::vector<Command> commands = Loop(40);
    commands.emplace_back(ReleaseOf(last_));
    commands.emplace_back(ReleaseOf({1, 2, 3}));
    const Seen seen = Send(commands, recognize, 1);
    EXPECT_EQ(seen.windows > 0, recognize);
    while (session_->GiveBackCaches(nullptr)) {
    }
    EXPECT_EQ(session_->account()->used_for(MemoryUse::kArrays), 0);
  }
}

TEST_F(TrainingLoopTest, WhatIsDefinedAnewCounts) {
  std::vector<Command> commands = Loop(30);
  // From here on nothing records: the backward pass has nothing to do.
  commands.emplace_back(command::DefineMode{0, false, {}});
  const std::vector<Command> more = Loop(20);
  for (size_t i = Begin().size(); i < more.size(); ++i) {
    Command command = more[i];
    const auto rename = [](Handle handle) { return handle >= 100 ? handle + 100000 : handle; };
    std::visit(
        [&rename](auto& c) {
          ForEachUse(c, [&rename](Handle& handle) { handle = rename(handle); });
        },
        command);
    if (auto* const apply = std::get_if<command::ApplyOp>(&command)) {
      for (Handle& result : apply->results) result = rename(result);
    } else if (auto* const get = std::get_if<command::GetGrad>(&command)) {
      get->result = rename(get->result);
    } else if (auto* const release = std::get_if<command::Release>(&command)) {
      for (Handle& handle : release->handles) handle = rename(handle);
    } else if (auto* const fetch = std::get_if<command::Fetch>(&command)) {
      fetch->handle = rename(fetch->handle);
    }
    commands.push_back(command);
  }
  Compare(commands, 1);
}

// The labels are part of a loop; in one iteration there is one that no class has.
TEST_F(RepeatedWindowsTest, AnErrorCostsWhatItWouldCost) {
  std::vector<Command> commands;
  commands.emplace_back(UploadOf(1, {1, 2, 3, 4, 5, 6}, {2, 3}));
  commands.emplace_back(UploadOf(2, {0, 0, 0}, {3}));
  const std::vector<int64_t> good = {2, 0};
  const std::vector<int64_t> bad = {7, 0};
  for (Handle i = 0; i < 40; ++i) {
    const Handle first = 100 + 10 * i;
    command::Upload labels;
    labels.result = first;
    labels.dtype = Dtype::kInt64;
    labels.shape = {2};
    const std::vector<int64_t>& values = i == 30 ? bad : good;
    labels.data = {reinterpret_cast<const char*>(values.data()), sizeof(int64_t) * 2};
    commands.emplace_back(labels);
    commands.emplace_back(Op("tanh", {A(1)}, {first + 1}));
    commands.emplace_back(Op("multiply", {A(first + 1), S(2.0)}, {first + 2}));
    commands.emplace_back(
        OpByDefault("softmax_cross_entropy", {A(first + 2), A(first)}, {first + 3}));
    commands.emplace_back(
        Op("sum", {A(first + 3)}, {first + 4}, {AttrValue(), AttrValue(false), AttrValue()}));
    // This one has nothing to do with the labels.
    commands.emplace_back(Op("add_", {A(2), S(1.0)}, {}));
    commands.emplace_back(command::Fetch{7, first + 4});
    commands.emplace_back(ReleaseOf({first, first + 1, first + 2, first + 3, first + 4}));
  }
  commands.emplace_back(command::Fetch{7, 2});
  EXPECT_GT(Compare(commands, 1), 20);
  const Seen seen = Send(commands, true, 1);
  float sum = 0;
  std::memcpy(&sum, seen.values.back().data(), sizeof(sum));
  EXPECT_EQ(sum, 40.0f);
  ASSERT_EQ(seen.errors.size(), 1u);
  EXPECT_NE(seen.errors[0].find("labels below 3"), std::string::npos) << seen.errors[0];
}

// A number that varies, and memory that is short.
TEST_F(RepeatedWindowsTest, SeedsVary) {
  std::vector<Command> commands;
  commands.emplace_back(UploadOf(1, {1, 2, 3, 4, 5, 6, 7, 8}, {8}));
  for (Handle i = 0; i < 40; ++i) {
    const Handle first = 100 + 10 * i;
    commands.emplace_back(Op("tanh", {A(1)}, {first}));
    commands.emplace_back(OpByDefault("full", {}, {first + 1},
                                      {AttrValue(Ints{8}), AttrValue(Scalar(0.5 * double(i)))}));
    commands.emplace_back(Op("add", {A(first), A(first + 1)}, {first + 2}));
    commands.emplace_back(Op("multiply_", {A(1), S(0.5)}, {}));
    commands.emplace_back(command::Fetch{7, first + 2});
    commands.emplace_back(ReleaseOf({first, first + 1, first + 2}));
  }
  EXPECT_GT(Compare(commands, 1), 20);
}

}  // namespace
}  // namespace chx::server
