// Programs of random operators on arrays of a size that is fused, run by their commands and by
// plans.
#ifndef CHX_TESTS_SESSION_FUSION_FIXTURE_H_
#define CHX_TESTS_SESSION_FUSION_FIXTURE_H_

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/basic_index.h"
#include "ops/registry.h"
#include "server/native/native_backend.h"
#include "tests/session/session_fixture.h"

namespace chx::server {

struct Value {
  Dtype dtype = Dtype::kFloat32;
  std::string bytes;
};

// Of one element.
inline uint64_t BitsAt(const std::string& bytes, size_t at, size_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + at, width);
  return bits;
}

inline bool IsNan(Dtype dtype, uint64_t bits) {
  if (dtype == Dtype::kFloat16) return (bits & 0x7fffU) > 0x7c00U;
  if (dtype == Dtype::kBfloat16) return (bits & 0x7fffU) > 0x7f80U;
  if (dtype == Dtype::kFloat32) return (bits & 0x7fffffffU) > 0x7f800000U;
  return dtype == Dtype::kFloat64 && (bits & ~(uint64_t{1} << 63)) > uint64_t{0x7ff} << 52;
}

// Empty: they are equal.
inline std::string Difference(const Value& a, const Value& b) {
  if (a.dtype != b.dtype || a.bytes.size() != b.bytes.size()) return "another dtype or size";
  const auto width = static_cast<size_t>(ItemSize(a.dtype));
  for (size_t at = 0; at < a.bytes.size(); at += width) {
    const uint64_t x = BitsAt(a.bytes, at, width);
    const uint64_t y = BitsAt(b.bytes, at, width);
    if (x != y && !(IsNan(a.dtype, x) && IsNan(a.dtype, y))) {
      return absl::StrCat("element ", at / width, " of ", a.bytes.size() / width, ": ",
                          absl::Hex(x), " and ", absl::Hex(y));
    }
  }
  return "";
}

// Commands on arguments 1, 2, ... that have values of their own, made at random.
struct Example {
  struct Argument {
    Dtype dtype;
    Ints shape;  // of what is uploaded
    std::string bytes;
    int slice = 0;  // the argument is [..., ::slice] of it, if not 0
  };
  std::vector<Argument> arguments;
  std::vector<Command> commands;
  std::vector<Handle> outputs;
};

class FusionTest : public SessionTest {
 protected:
  static constexpr Handle kRecorded = 10000;  // handles of arguments in a recording
  static constexpr Handle kRun = 20000;

  FusionTest() : seed_(SeedOfTest()), rng_(seed_) {
    std::cout << "CHX_TEST_SEED=" << seed_ << "\n";
  }

  ~FusionTest() override { session_ = nullptr; }  // before its devices

  static uint64_t SeedOfTest() {
    const char* const given = std::getenv("CHX_TEST_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  }

  int64_t Random(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng_);
  }
  template <typename T>
  const T& OneOf(const std::vector<T>& values) {
    return values[static_cast<size_t>(Random(0, static_cast<int64_t>(values.size()) - 1))];
  }

  // A session on a device with so many threads.
  void Open(int threads) {
    session_ = nullptr;
    devices_of_ = std::make_unique<Devices>();
    backend_of_ = CreateNativeBackend({threads});
    CHECK_OK(devices_of_->Open("native:0", {backend_of_.get()}));
    session_ = std::make_unique<Session>(devices_of_.get(), SessionLimits());
    output_.Clear();
  }

  std::string RandomBytes(Dtype dtype, int64_t n) {
    std::string bytes;
    const auto add = [&bytes](auto value) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    static constexpr double kSpecials[] = {0.0, -0.0, 1.0, INFINITY, -INFINITY, NAN, 1e30, 1e-40};
    for (int64_t i = 0; i < n; ++i) {
      const double x = Random(0, 99) == 0 ? kSpecials[Random(0, 7)]
                                          : static_cast<double>(Random(-4000, 4000)) / 1000;
      if (dtype == Dtype::kFloat32) {
        add(static_cast<float>(x));
      } else if (dtype == Dtype::kFloat64) {
        add(x);
      } else if (IsNarrowFloat(dtype)) {
        add(static_cast<uint16_t>(Random(0, 0xffff)));
      } else if (dtype == Dtype::kInt32) {
        add(static_cast<int32_t>(Random(-9, 9)));
      } else {
        add(static_cast<uint8_t>(Random(0, dtype == Dtype::kBool ? 1 : 255)));
      }
    }
    return bytes;
  }

  Example::Argument RandomArgument(Dtype dtype, Ints shape) {
    Example::Argument argument{dtype, std::move(shape), "", 0};
    if (!argument.shape.empty() && Random(0, 3) == 0) {
      argument.slice = static_cast<int>(Random(0, 1) == 0 ? 2 : -1);
      argument.shape.back() *= std::abs(argument.slice);
    }
    int64_t n = 1;
    for (int64_t d : argument.shape) n *= d;
    argument.bytes = RandomBytes(dtype, n);
    return argument;
  }

  // As handles first + 1, first + 2, ...
  std::vector<Handle> Bind(const Example& example, Handle first) {
    std::vector<Handle> handles;
    for (const Example::Argument& argument : example.arguments) {
      const Handle handle = first + handles.size() + 1;
      const Handle uploaded = argument.slice == 0 ? handle : handle + 1000;
      Run({command::Upload{uploaded, argument.dtype, 0, argument.shape, argument.bytes}});
      if (argument.slice != 0) {
        IndexBuilder index;
        for (size_t d = 1; d < argument.shape.size(); ++d) index.Slice({}, {}, {});
        Run({Op("getitem", {A(uploaded)}, {handle}, {index.Slice({}, {}, argument.slice).Build()}),
             ReleaseOf({uploaded})});
      }
      handles.push_back(handle);
    }
    EXPECT_TRUE(output_.errors.empty()) << LastError();
    return handles;
  }

  std::vector<Value> FetchAll(const std::vector<Handle>& handles) {
    std::vector<Value> values;
    for (Handle handle : handles) {
      absl::StatusOr<Session::HostCopy> copy = session_->ReadArray(handle);
      if (copy.ok()) {
        values.push_back({copy->dtype, std::move(copy->data)});
      } else {
        ADD_FAILURE() << copy.status();
      }
    }
    return values;
  }

  // The command with arguments and results of other numbers.
  static Command Renamed(Command command, Handle first) {
    const auto rename = [&](Handle& handle) {
      if (handle != 0) handle += first;
    };
    if (auto* const apply = std::get_if<command::ApplyOp>(&command)) {
      for (HandleOperand& input : apply->inputs) {
        if (input.is_array()) input = A(input.array() + first);
      }
      for (Handle& result : apply->results) rename(result);
    } else {
      for (Handle& handle : std::get<command::Release>(command).handles) rename(handle);
    }
    return command;
  }

  static std::vector<Handle> Shifted(std::vector<Handle> handles, Handle first) {
    for (Handle& handle : handles) handle += first;
    return handles;
  }

  // The outputs, and the arguments afterwards.
  std::vector<Value> RunEagerly(const Example& example) {
    Open(1);
    std::vector<Handle> all = Bind(example, 0);
    Run(example.commands);
    EXPECT_TRUE(output_.errors.empty()) << LastError();
    all.insert(all.begin(), example.outputs.begin(), example.outputs.end());
    return FetchAll(all);
  }

  // What a run gives, after the recording and a run with the same values.
  std::vector<Value> RunRecorded(const Example& example, int threads) {
    Open(threads);
    const std::vector<Handle> recorded = Bind(example, kRecorded);
    std::vector<Command> commands;
    for (const Command& command : example.commands) commands.push_back(Renamed(command, kRecorded));
    Run({command::BeginProgram{1, List(recorded)}});
    Run(commands);
    Run({command::EndProgram{9, 1, List(Shifted(example.outputs, kRecorded)), {}}});
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.error == nullptr ? value.data : std::string(value.error->status.message()), "");
    std::vector<Value> found;
    for (Handle first : {kRun, 2 * kRun}) {
      const std::vector<Handle> arguments = Bind(example, first);
      std::vector<Handle> all;
      for (size_t i = 0; i < example.outputs.size(); ++i) all.push_back(first + 5000 + i);
      command::RunProgram run;
      run.program = 1;
      run.arguments = List(arguments);
      run.results = List(all);
      Run({run});
      EXPECT_TRUE(output_.errors.empty()) << LastError();
      all.insert(all.end(), arguments.begin(), arguments.end());
      found = FetchAll(all);
    }
    return found;
  }

  void Check(const Example& example) {
    const std::vector<Value> wanted = RunEagerly(example);
    for (int threads : {1, 2}) {
      const std::vector<Value> found = RunRecorded(example, threads);
      ASSERT_EQ(found.size(), wanted.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(Difference(wanted[i], found[i]), "") << "value " << i << ", threads " << threads;
      }
    }
  }

  // Replaces *command by one that computes what an earlier one has, if there is one at hand.
  bool Repeat(const std::vector<Command>& commands, const std::vector<Handle>& live,
              Command* command) {
    if (commands.empty()) return false;
    const Command& earlier = OneOf(commands);
    const auto* const apply = std::get_if<command::ApplyOp>(&earlier);
    if (apply == nullptr || apply->results.empty()) return false;
    for (const HandleOperand& input : apply->inputs) {
      if (input.is_array() && std::find(live.begin(), live.end(), input.array()) == live.end()) {
        return false;
      }
    }
    *command = earlier;
    return true;
  }

  // Results of rows or of everything, which may be operands again.
  virtual Command RandomReduction(Handle x, Handle result) {
    const int64_t kind = Random(0, 9);
    if (kind == 0) return OpByDefault("sum", {A(x)}, {result});
    if (kind == 1) return OpByDefault("sum", {A(x)}, {result}, {AttrValue(Ints{0})});
    if (kind < 4) {
      const std::string op = OneOf<std::string>({"softmax", "log_softmax"});
      return OpByDefault(op, {A(x)}, {result}, {AttrValue(Ints{-1})});
    }
    const bool keepdims = Random(0, 5) > 0;
    const Ints axes = Random(0, 3) == 0 ? Ints{-1, -2} : Ints{-1};
    const std::string op = OneOf<std::string>(
        {"sum", "sum", "mean", "amax", "amin", "logsumexp", "prod", "any", "argmax", "var"});
    if (op == "argmax") return OpByDefault(op, {A(x)}, {result}, {AttrValue(-1), keepdims});
    return OpByDefault(op, {A(x)}, {result}, {AttrValue(axes), keepdims});
  }

  // Operators at random on arrays that are broadcast to `shape`. Calls that are an error are left
  // out.
  Example RandomExample(const Ints& shape);

  const uint64_t seed_;
  std::mt19937_64 rng_;
  std::unique_ptr<Backend> backend_of_;
  std::unique_ptr<Devices> devices_of_;
};

inline Example FusionTest::RandomExample(const Ints& shape) {
  Example example;
  const std::vector<Dtype> dtypes = {Dtype::kFloat32, Dtype::kFloat32,  Dtype::kFloat64,
                                     Dtype::kFloat16, Dtype::kBfloat16, Dtype::kInt32,
                                     Dtype::kBool};
  Ints row = shape;
  Ints column = shape;
  if (!row.empty()) {
    row.erase(row.begin(), row.end() - 1);
    column.back() = 1;
  }
  const bool mixed = Random(0, 2) == 0;
  for (const Ints& of : {shape, shape, shape, row, column, Ints()}) {
    example.arguments.push_back(RandomArgument(mixed ? OneOf(dtypes) : Dtype::kFloat32, of));
  }
  std::vector<const OpDef*> pure;
  std::vector<const OpDef*> writing;
  for (const auto& op : OpRegistry::Global().ops()) {
    if (op->kind != OpKind::kKernel) continue;
    if (op->elementwise) pure.push_back(op.get());
    if (!op->in_place_of.empty()) writing.push_back(op.get());
  }
  Open(1);
  std::vector<Handle> live = Bind(example, 0);
  Handle next = 100;
  const int64_t calls = Random(4, 25);
  std::vector<Handle> made;
  while (next < 100 + static_cast<Handle>(calls)) {
    const int64_t kind = Random(0, 9);
    const OpDef& op = kind == 0 ? *OneOf(writing) : *OneOf(pure);
    std::vector<HandleOperand> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool scalar = i > 0 && op.inputs[i].scalar && Random(0, 3) == 0;
      inputs.push_back(scalar ? S(static_cast<double>(Random(-3, 3)) / 2) : A(OneOf(live)));
    }
    Command command = OpByDefault(op.name, inputs, {});
    auto& apply = std::get<command::ApplyOp>(command);
    const bool reduces = kind == 1 || kind == 3;
    if (reduces) command = RandomReduction(OneOf(live), next);
    if (kind == 2) command = OpByDefault("copy", {A(OneOf(live))}, {next});
    if (kind > 2 && !reduces) apply.results.push_back(next);
    if (kind > 7 && Repeat(example.commands, live, &command)) apply.results = {next};
    // What fails is tried on copies: it may have written.
    const size_t errors = output_.errors.size();
    if (kind == 0) {
      Run({OpByDefault("copy", {inputs[0]}, {9000})});
      command::ApplyOp trial = apply;
      trial.inputs[0] = A(9000);
      Run({trial, ReleaseOf({9000})});
    }
    if (output_.errors.size() == errors) Run({command});
    if (output_.errors.size() > errors) {
      if (kind > 0) Run({ReleaseOf({next})});
      continue;
    }
    example.commands.push_back(command);
    if (kind > 0) {
      made.push_back(next);
      live.push_back(next);
    }
    ++next;
    // Its memory may be the next one's.
    if (made.size() > 3 && Random(0, 1) == 0) {
      const size_t gone = static_cast<size_t>(Random(0, static_cast<int64_t>(made.size()) - 2));
      Run({ReleaseOf({made[gone]})});
      example.commands.push_back(ReleaseOf({made[gone]}));
      live.erase(std::find(live.begin(), live.end(), made[gone]));
      made.erase(made.begin() + static_cast<int64_t>(gone));
    }
  }
  for (Handle handle : made) {
    if (handle == made.back() || Random(0, 3) == 0) example.outputs.push_back(handle);
  }
  output_.Clear();
  return example;
}

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_FUSION_FIXTURE_H_
