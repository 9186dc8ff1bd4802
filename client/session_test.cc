#include "client/session.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "client/gradients.h"
#include "client/locations.h"
#include "client/modes.h"
#include "client/ops.h"
#include "client/testing/fake_daemon.h"
#include "ops/registry.h"

namespace chx {
namespace {

class SessionTest : public ::testing::Test {
 protected:
  void Connect() {
    session_ = nullptr;
    absl::StatusOr<Ref<Session>> session = Session::Connect(daemon_.address());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  void SetUp() override { Connect(); }

  Array X(Shape shape = {2, 3}, Dtype dtype = Dtype::kFloat32) {
    return zeros(*session_, Ints(shape.begin(), shape.end()), dtype);
  }
  template <typename C>
  std::vector<C> Sent() {
    EXPECT_TRUE(session_->Synchronize().ok());
    return daemon_.CommandsOf<C>();
  }

  FakeDaemon daemon_;
  Ref<Session> session_;
};

TEST_F(SessionTest, OperatorsBecomeCommands) {
  const Array x = X();
  const Array y = x + 2.0;
  EXPECT_EQ(y.shape(), Shape({2, 3}));
  const std::vector<command::ApplyOp> commands = Sent<command::ApplyOp>();
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].op, OpRegistry::Global().Find("zeros")->id + 1);
  EXPECT_EQ(commands[1].op, OpRegistry::Global().Find("add")->id + 1);
  ASSERT_EQ(commands[1].inputs.size(), 2u);
  EXPECT_EQ(commands[1].inputs[0].array(), commands[0].results[0]);
  EXPECT_TRUE(commands[1].inputs[1].scalar().is_float());
  EXPECT_EQ(commands[1].inputs[1].scalar().AsDouble(), 2.0);
  ASSERT_EQ(commands[1].results.size(), 1u);
  EXPECT_NE(commands[1].results[0], commands[0].results[0]);
}

TEST_F(SessionTest, ScalarsMayComeFirst) {
  const Array y = 1.0 - X();
  ASSERT_TRUE(y.ok()) << y.status();
  const std::vector<command::ApplyOp> commands = Sent<command::ApplyOp>();
  EXPECT_TRUE(commands.back().inputs[0].scalar().is_float());
  EXPECT_TRUE(commands.back().inputs[1].is_array());
}

TEST_F(SessionTest, ErrorsComeAtOnceAndAreInherited) {
  const Array bad = X({2, 3}) + X({4});
  EXPECT_EQ(KindOf(bad.status()), ErrorKind::kDimension);
  const Array after = exp(bad) * 2.0;
  EXPECT_EQ(after.status(), bad.status());
  EXPECT_EQ(after.Item().status(), bad.status());
  EXPECT_EQ(Backward(after), bad.status());
  EXPECT_EQ(Sent<command::ApplyOp>().size(), 2u);  // the two zeros
}

TEST_F(SessionTest, HandlesAreReleasedAfterTheirLastUse) {
  Array x = X();
  const Handle handle = x.body()->handle;
  const Array y = x + 1.0;
  x = y;
  EXPECT_TRUE(session_->Synchronize().ok());
  size_t last_use = 0;
  size_t release = 0;
  const std::vector<Command> commands = daemon_.Commands();
  for (size_t i = 0; i < commands.size(); ++i) {
    if (const auto* apply = std::get_if<command::ApplyOp>(&commands[i])) {
      for (const HandleOperand& input : apply->inputs) {
        if (input.array() == handle) last_use = i;
      }
    }
    if (const auto* released = std::get_if<command::Release>(&commands[i])) {
      if (absl::c_linear_search(released->handles, handle)) release = i;
    }
  }
  EXPECT_GT(last_use, 0u);
  EXPECT_GT(release, last_use);
}

TEST_F(SessionTest, ReleasesAreSentWithoutFurtherCalls) {
  Array x = X();
  ASSERT_TRUE(session_->Synchronize().ok());
  usleep(60000);  // the flusher sleeps by now
  x = Array();
  EXPECT_TRUE(daemon_.WaitFor<command::Release>(1));
}

TEST_F(SessionTest, CommandsAreSentWithoutAReader) {
  usleep(60000);
  Array x = X();
  EXPECT_TRUE(daemon_.WaitFor<command::ApplyOp>(1));
  usleep(60000);
  x.RequireGrad();
  EXPECT_TRUE(daemon_.WaitFor<command::RequireGrad>(1));
}

TEST_F(SessionTest, BatchesStayBelowTheDaemonsLimit) {
  daemon_.limits.set_max_batch_bytes(64 << 10);
  daemon_.limits.set_max_inline_bytes(1 << 10);
  Connect();
  std::vector<Array> arrays;
  for (int i = 0; i < 60000; ++i) arrays.push_back(X());
  arrays.clear();  // releases by the thousand
  ASSERT_TRUE(session_->Synchronize().ok());
  size_t released = 0;
  for (const command::Release& command : daemon_.CommandsOf<command::Release>()) {
    released += command.handles.size();
  }
  EXPECT_EQ(released, 60000u);
  for (size_t size : daemon_.BatchSizes()) EXPECT_LE(size, 64u << 10);
}

TEST_F(SessionTest, BatchesThatWereSetAsideAreSentWithoutAReader) {
  daemon_.limits.set_max_inflight_commands(20);  // so that 10 commands are set aside
  Connect();
  std::vector<Array> arrays;
  for (int i = 0; i < 10; ++i) arrays.push_back(X());
  ASSERT_TRUE(session_->Synchronize().ok());
  usleep(60000);  // the flusher sleeps by now
  for (Array& array : arrays) array.RequireGrad();
  EXPECT_TRUE(daemon_.WaitFor<command::RequireGrad>(10));
}

TEST_F(SessionTest, InlineUploadsCarryTheirData) {
  const float values[] = {1, 2, 3};
  const Array x = Array::FromHost(*session_, values, {3}, Dtype::kFloat32);
  ASSERT_TRUE(x.ok());
  const std::vector<command::Upload> commands = Sent<command::Upload>();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].result, x.body()->handle);
  EXPECT_EQ(commands[0].data.size(), sizeof(values));
  EXPECT_EQ(std::memcmp(commands[0].data.data(), values, sizeof(values)), 0);
}

TEST_F(SessionTest, ItemReadsEveryDtype) {
  daemon_.answer = [](const Command&, v1::FetchedValue* value) {
    value->set_data(std::string("\x00\xc0", 2));  // -2 as float16
  };
  EXPECT_EQ(*X({}, Dtype::kFloat16).Item(), -2.0);
  daemon_.answer = [](const Command&, v1::FetchedValue* value) {
    value->set_data(std::string("\xfe", 1));
  };
  EXPECT_EQ(*X({}, Dtype::kInt8).Item(), -2.0);
  EXPECT_EQ(*X({1, 1}, Dtype::kUint8).Item(), 254.0);
  EXPECT_EQ(KindOf(X({2}).Item().status()), ErrorKind::kDimension);
}

TEST_F(SessionTest, ARootCauseIsToldInFull) {
  daemon_.answer = [](const Command&, v1::FetchedValue* value) {
    v1::Error* error = value->mutable_error();
    error->set_kind(static_cast<uint32_t>(ErrorKind::kIndex));
    error->set_message("[take] expects indices below 3, got 7");
    error->set_inputs("float32(3,), int64(1,)");
    error->set_location("train.py:12");
  };
  const absl::Status status = X({}).Item().status();
  EXPECT_EQ(KindOf(status), ErrorKind::kIndex);
  EXPECT_EQ(status.message(),
            "[take] expects indices below 3, got 7\n  inputs: float32(3,), int64(1,)\n"
            "  at: train.py:12");
}

TEST_F(SessionTest, CheckedOperatorsFailAtTheCall) {
  daemon_.fetch_bytes = 0;
  EXPECT_TRUE(linalg::inv(X({20, 20})).ok());
  // What is large is not fetched: an empty view of it is.
  const std::vector<command::ApplyOp> applied = Sent<command::ApplyOp>();
  EXPECT_EQ(applied.back().op, OpRegistry::Global().Find("getitem")->id + 1);
  EXPECT_EQ(Sent<command::Fetch>().back().handle, applied.back().results[0]);
  daemon_.answer = [](const Command&, v1::FetchedValue* value) {
    v1::Error* error = value->mutable_error();
    error->set_kind(static_cast<uint32_t>(ErrorKind::kChainerx));
    error->set_message("[solve] expects matrices that are not singular");
  };
  for (const int64_t n : {2, 20}) {
    const Array inverse = linalg::inv(X({n, n}));
    EXPECT_EQ(KindOf(inverse.status()), ErrorKind::kChainerx);
    EXPECT_EQ(inverse.status().message(), "[solve] expects matrices that are not singular");
    EXPECT_FALSE(linalg::eigh(X({n, n})).front().ok());
  }
}

TEST_F(SessionTest, AWrongAmountOfDataIsAnError) {
  daemon_.fetch_bytes = 3;
  EXPECT_FALSE(X({}).Item().ok());
}

TEST_F(SessionTest, LocationsAreDefinedOnceAndBeforeTheirUse) {
  const uint32_t location = InternLocation("train.py:7");
  EXPECT_EQ(InternLocation("train.py:7"), location);
  SetLocation(location);
  const Array x = X();
  const Array y = x + 1.0;
  SetLocation(0);
  const Array z = y + 1.0;
  ASSERT_TRUE(session_->Synchronize().ok());
  const std::vector<Command> commands = daemon_.Commands();
  ASSERT_GE(commands.size(), 4u);
  EXPECT_EQ(std::get<command::DefineLocation>(commands[0]).text, "train.py:7");
  EXPECT_EQ(std::get<command::ApplyOp>(commands[1]).location, location);
  EXPECT_EQ(std::get<command::ApplyOp>(commands[2]).location, location);
  EXPECT_EQ(std::get<command::ApplyOp>(commands[3]).location, 0u);
}

TEST_F(SessionTest, ModesAreDefinedBeforeTheirUseAndOnce) {
  const Array x = X();
  for (int i = 0; i < 2; ++i) {
    NoBackpropMode scope;
    const Array y = x + 1.0;
  }
  EXPECT_EQ(Sent<command::DefineMode>().size(), 1u);
  const std::vector<command::ApplyOp> applied = daemon_.CommandsOf<command::ApplyOp>();
  const command::DefineMode mode = daemon_.CommandsOf<command::DefineMode>()[0];
  EXPECT_FALSE(mode.record_by_default);
  EXPECT_EQ(applied[0].mode, 0);
  EXPECT_EQ(applied[1].mode, mode.mode);
  EXPECT_EQ(applied[2].mode, mode.mode);
}

TEST_F(SessionTest, EveryModeIsUnderstoodHoweverManyThereWere) {
  const Array x = X();
  std::vector<BackpropId> ids;
  for (BackpropId id = 1; id <= 6000; ++id) {
    NoBackpropMode scope(absl::MakeConstSpan(&id, 1));
    const Array y = x + 1.0;
  }
  ASSERT_TRUE(session_->Synchronize().ok());
  absl::flat_hash_map<uint16_t, BackpropId> modes;
  BackpropId expected = 1;
  for (const Command& command : daemon_.Commands()) {
    if (const auto* define = std::get_if<command::DefineMode>(&command)) {
      ASSERT_EQ(define->entries.size(), 1u);
      modes[define->mode] = define->entries[0].backprop_id;
    }
    const auto* apply = std::get_if<command::ApplyOp>(&command);
    if (apply == nullptr || apply->mode == 0) continue;
    EXPECT_EQ(modes[apply->mode], expected++);
  }
  EXPECT_EQ(expected, 6001u);
  EXPECT_LT(modes.size(), 4096u);
}

TEST_F(SessionTest, RandomNumbersNeverShareABlock) {
  session_->Seed(5);
  ASSERT_TRUE(session_->Random("random_normal", {10}, 0, 1, Dtype::kFloat32, 0).ok());
  ASSERT_TRUE(session_->Random("random_uniform", {4}, 0, 1, Dtype::kFloat32, 0).ok());
  session_->Seed(5);
  ASSERT_TRUE(session_->Random("random_normal", {10}, 0, 1, Dtype::kFloat32, 0).ok());
  const std::vector<command::ApplyOp> commands = Sent<command::ApplyOp>();
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_EQ(commands[0].attrs[4].AsInt(), 5);
  EXPECT_EQ(commands[0].attrs[5].AsInt(), 0);
  EXPECT_GE(commands[1].attrs[5].AsInt(), 10);
  EXPECT_EQ(commands[2].attrs[5].AsInt(), 0);
}

TEST_F(SessionTest, ArraysOfTwoSessionsDontMix) {
  const Array x = X();
  const Ref<Session> first = session_;
  FakeDaemon other;
  const Ref<Session> second = *Session::Connect(other.address());
  Array y = zeros(*second, {2, 3});
  EXPECT_EQ(KindOf((x + y).status()), ErrorKind::kContext);
  y.RequireGrad();
  EXPECT_EQ(KindOf(y.SetGrad(x)), ErrorKind::kContext);
  ArrayBody* const output = y.body().get();
  EXPECT_EQ(KindOf(first->gradients().Backward(absl::MakeConstSpan(&output, 1), {})),
            ErrorKind::kContext);
  EXPECT_EQ(KindOf(first->gradients().RequireGrad(output, 0)), ErrorKind::kContext);
}

TEST_F(SessionTest, OperatorsThatTheDaemonLacksAreRefusedByName) {
  daemon_.known_ops = OpRegistry::Global().Find("exp")->id;  // and none from there on
  Connect();
  const absl::Status status = exp(X()).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kNotImplemented);
  EXPECT_NE(status.message().find("[exp]"), absl::string_view::npos) << status;
}

TEST_F(SessionTest, AfterCloseCallsFail) {
  Array x = X({});
  EXPECT_TRUE(session_->Close().ok());
  EXPECT_TRUE(daemon_.closed());
  EXPECT_EQ(KindOf((x + 1.0).status()), ErrorKind::kConnection);
  EXPECT_EQ(KindOf(x.Item().status()), ErrorKind::kConnection);
  EXPECT_EQ(KindOf(session_->Synchronize()), ErrorKind::kConnection);
  EXPECT_TRUE(session_->Close().ok());
}

TEST_F(SessionTest, AForkedChildIsToldToConnectAgain) {
  Array x = X({});
  ASSERT_TRUE(session_->Synchronize().ok());
  const pid_t child = fork();
  if (child == 0) {
    const bool told = KindOf((x + 1.0).status()) == ErrorKind::kConnection &&
                      KindOf(x.Item().status()) == ErrorKind::kConnection &&
                      KindOf(session_->Synchronize()) == ErrorKind::kConnection &&
                      KindOf(session_->Flush()) == ErrorKind::kConnection && session_->Close().ok();
    x = Array();
    session_ = nullptr;
    _exit(told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(session_->Synchronize().ok());  // the parent's goes on
  EXPECT_FALSE(daemon_.closed());
}

}  // namespace
}  // namespace chx
