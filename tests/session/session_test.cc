// What a client can do to its session, right and wrong.
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ops/error.h"
#include "server/trace/tracer.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using Floats = std::vector<float>;

TEST_F(SessionTest, RunsOperatorsInOrder) {
  Upload(1, {1, 2, 3, 4}, {2, 2});
  Run({Op("add", {A(1), S(1.0)}, {2}), Op("multiply", {A(2), A(2)}, {3}),
       Op("transpose", {A(3)}, {4}, {AttrValue()})});
  EXPECT_EQ(Fetch(4), (Floats{4, 16, 9, 25}));
  EXPECT_TRUE(output_.errors.empty());
}

// This client averages by operators of their own.
TEST_F(SessionTest, OperatorsOfOlderClientsDoWhatTheyDid) {
  Upload(1, {1, 2, 3, 4, 5, 6}, {1, 1, 6});
  const AttrValue ksize(Ints{3});
  const AttrValue stride(Ints{2});
  const AttrValue pad(Ints{1});
  Run({Op("pool_sum", {A(1)}, {2}, {ksize, stride, pad}),
       Op("pool_spread", {A(2)}, {3}, {AttrValue(Ints{1, 1, 6}), ksize, stride, pad})});
  EXPECT_EQ(Fetch(2), (Floats{3, 9, 15}));
  EXPECT_EQ(Fetch(3), (Floats{3, 12, 9, 24, 15, 15}));
}

TEST_F(SessionTest, MemoryOfAReleasedInputMayBeReusedByTheOutput) {
  Upload(1, {1, 2, 3, 4}, {4});
  Run({Op("add", {A(1), S(1.0)}, {2}), ReleaseOf({1}), Op("add", {A(2), S(1.0)}, {3}),
       ReleaseOf({2})});
  EXPECT_EQ(Fetch(3), (Floats{3, 4, 5, 6}));
  EXPECT_EQ(session_->stats().handles, 1);
}

TEST_F(SessionTest, AViewKeepsMemoryFromBeingReused) {
  Upload(1, {1, 2, 3, 4}, {4});
  Run({Op("reshape", {A(1)}, {2}, {AttrValue(Ints{2, 2})}), Op("add", {A(1), S(1.0)}, {3}),
       ReleaseOf({1})});
  EXPECT_EQ(Fetch(2), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(Fetch(3), (Floats{2, 3, 4, 5}));
}

TEST_F(SessionTest, AnErrorIsAValueThatIsInherited) {
  Upload(1, {1, 2}, {2});
  Upload(2, {1, 2, 3}, {3});
  command::ApplyOp bad = Op("add", {A(1), A(2)}, {3});
  bad.location = 5;
  Run({command::DefineLocation{5, "train.py:12"}, bad, Op("exp", {A(3)}, {4}),
       Op("exp", {A(1)}, {5})});
  RootErrorPtr error;
  Fetch(4, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(KindOf(error->status), ErrorKind::kDimension);
  EXPECT_EQ(error->op, "add");
  EXPECT_EQ(error->inputs, "float32(2,), float32(3,)");
  EXPECT_EQ(error->location, "train.py:12");
  EXPECT_EQ(Fetch(5).size(), 2u);                 // others don't notice
  EXPECT_TRUE(session_->UnreadErrors().empty());  // it has been read
}

TEST_F(SessionTest, APoisonedArrayOfAGraphCanBeReleased) {
  Upload(1, {1, 2}, {2});
  Upload(2, {1, 2, 3}, {3});
  Run({command::RequireGrad{1}, Op("add", {A(1), A(2)}, {3}), Op("add_", {A(1), A(3)}, {})});
  RootErrorPtr error;
  Fetch(1, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->op, "add");
  Run({ReleaseOf({1})});
  EXPECT_EQ(session_->stats().handles, 2);
}

TEST_F(SessionTest, BadHandlesAreClearErrors) {
  Upload(1, {1}, {1});
  Run({Op("exp", {A(99)}, {2})});
  EXPECT_EQ(LastError(), "[exp] expects a handle of this session, got 99");
  Run({Op("exp", {A(0)}, {3})});
  EXPECT_EQ(LastError(), "[exp] expects a handle of this session, got 0");
  Run({Op("exp", {A(1)}, {0})});
  EXPECT_EQ(LastError(), "[exp] expects a new handle for each output, got 0");
  Run({Op("exp", {A(1)}, {1})});
  EXPECT_EQ(LastError(), "[exp] expects a new handle for each output, got 1, which is in use");
  Run({Op("exp", {A(1)}, {5, 5})});
  EXPECT_EQ(output_.errors.size(), 5u);
  Run({ReleaseOf({42})});
  EXPECT_EQ(LastError(), "[release] expects a handle in use, got 42");
  EXPECT_EQ(Fetch(1), Floats{1});
}

TEST_F(SessionTest, BadOperatorsAndAttributesAreClearErrors) {
  Upload(1, {1}, {1});
  command::ApplyOp unknown = Op("exp", {A(1)}, {2});
  unknown.op = 60000;
  Run({unknown});
  EXPECT_EQ(LastError(), "expects an operator id agreed at Open, got 60000");
  Run({Op("reshape", {A(1)}, {3}, {AttrValue(2.0)})});
  EXPECT_EQ(LastError(), "[reshape] expects ints for 'newshape', got float");
  Run({Op("sum", {A(1)}, {4})});
  EXPECT_EQ(LastError(), "[sum] expects 3 attributes, got 0");
  Run({Op("add", {A(1)}, {5})});
  EXPECT_EQ(LastError(), "[add] expects 2 inputs, got 1");
  command::ApplyOp elsewhere =
      Op("zeros", {}, {6}, {AttrValue(Ints{2}), AttrValue(Dtype::kFloat32)});
  elsewhere.device = 9;
  Run({elsewhere});
  EXPECT_EQ(LastError(), "[device] expects a number below 1, got 9");
  command::ApplyOp mode = Op("exp", {A(1)}, {7});
  mode.mode = 3;
  Run({mode});
  EXPECT_EQ(LastError(), "[exp] expects a defined mode, got 3");
}

TEST_F(SessionTest, AbsurdSizesAreRefusedBeforeAllocation) {
  SessionLimits limits;
  limits.memory_bytes = 8 << 20;
  Reset(limits);
  const auto zeros = [](Handle handle, Ints shape) {
    return Op("zeros", {}, {handle}, {AttrValue(std::move(shape)), AttrValue(Dtype::kFloat32)});
  };
  Run({zeros(1, {int64_t{1} << 40, int64_t{1} << 40})});
  EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kDimension);
  Run({zeros(2, {int64_t{1} << 50})});
  EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kMemory);
  Run({zeros(3, {-5})});
  EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kDimension);
  Run({zeros(4, Ints(1000, 1))});
  EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kDimension);
  Run({zeros(5, {16})});
  EXPECT_EQ(Fetch(5), Floats(16, 0));
}

TEST_F(SessionTest, TheMemoryLimitHoldsAndFreedMemoryCounts) {
  SessionLimits limits;
  limits.memory_bytes = 17 << 20;  // four arrays, and the records of all
  Reset(limits);
  for (int round = 0; round < 5; ++round) {
    Handle handle = 1000 * (round + 1);
    std::vector<Handle> made;
    for (int i = 0; i < 10; ++i) {
      Run({Op("ones", {}, {++handle}, {AttrValue(Ints{1 << 20}), AttrValue(Dtype::kFloat32)})});
      made.push_back(handle);
    }
    EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kMemory);
    EXPECT_LE(session_->stats().memory_bytes, limits.memory_bytes);
    EXPECT_EQ(output_.errors.size(), 6u);  // four of 4 MiB fit
    output_.Clear();
    Run({ReleaseOf(made)});
  }
}

TEST_F(SessionTest, TheHandleLimitHolds) {
  SessionLimits limits;
  limits.max_handles = 10;
  Reset(limits);
  for (Handle handle = 1; handle <= 20; ++handle) {
    Run({Op("zeros", {}, {handle}, {AttrValue(Ints{}), AttrValue(Dtype::kFloat32)})});
  }
  EXPECT_EQ(session_->stats().handles, 10);
  EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kMemory);
}

TEST_F(SessionTest, InPlaceWritesAreSeenByViewsAndRefusedInGraphs) {
  Upload(1, {1, 2, 3, 4}, {4});
  Run({Op("reshape", {A(1)}, {2}, {AttrValue(Ints{2, 2})}), Op("add_", {A(1), S(1)}, {})});
  EXPECT_EQ(Fetch(2), (Floats{2, 3, 4, 5}));
  Run({command::RequireGrad{1}, Op("add_", {A(1), S(1)}, {})});
  EXPECT_EQ(LastError(), "In-place assignment to output array requiring grad is not allowed.");
  Upload(3, {1, 2, 3, 4}, {4});
  Run({Op("add_", {A(3), A(1)}, {})});
  EXPECT_EQ(LastError(),
            "In-place assignment that involves input arrays requiring grad is not allowed.");
}

TEST_F(SessionTest, OverlappingInPlaceOperandsAreReadBeforeTheyAreWritten) {
  Upload(1, {1, 2, 3, 4, 5}, {5});
  const auto slice = [](int64_t start, int64_t stop) {
    return AttrValue::Index({3 | 4 | 8, start, stop, 0});
  };
  Run({Op("getitem", {A(1)}, {2}, {slice(1, 5)}), Op("getitem", {A(1)}, {3}, {slice(0, 4)}),
       Op("add_", {A(2), A(3)}, {})});
  EXPECT_EQ(Fetch(1), (Floats{1, 3, 5, 7, 9}));
  Run({Op("broadcast_to", {A(1)}, {4}, {AttrValue(Ints{2, 5})}), Op("add_", {A(4), S(1)}, {})});
  EXPECT_NE(LastError().find("distinct in memory"), std::string::npos);
}

TEST_F(SessionTest, LargeValuesDoNotTravelInline) {
  SessionLimits limits;
  limits.max_inline_bytes = 64;
  Reset(limits);
  Run({Op("ones", {}, {1}, {AttrValue(Ints{100}), AttrValue(Dtype::kFloat32)})});
  RootErrorPtr error;
  Fetch(1, &error);
  ASSERT_NE(error, nullptr);
  absl::StatusOr<Session::HostCopy> copy = session_->ReadArray(1);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->data.size(), 400u);
}

TEST_F(SessionTest, WhatRanLastIsNamedByTheIdsThatWereAgreedOn) {
  const auto last = [this] {
    return session_->activity().Look(Activity::Clock::now()).last_command;
  };
  EXPECT_EQ(last(), "");
  session_->Inspect([](SessionState& session) { session.op_ids = {0, WireId("full")}; });
  command::ApplyOp first = Op("full", {}, {1}, {Ints{}, Scalar(1), Dtype::kFloat32});
  first.op = 1;
  Run({first});
  EXPECT_EQ(last(), "full");
  first.op = 2;
  Run({first});
  EXPECT_EQ(last(), "apply_op");
  Run({command::Fetch{7, 1}});
  EXPECT_EQ(last(), "fetch");
}

TEST_F(SessionTest, MetricsAndTracesShowTheSameWaitForATurn) {
  ComputeSlots slots(1);
  Tracer tracer(nullptr);
  SessionLimits limits;
  limits.compute_slots = &slots;
  limits.tracer = &tracer;
  Reset(limits);
  session_->SetName(1, "test");
  CHECK_OK(tracer.Start({0, std::chrono::seconds(60)}));
  ComputeSlots::Account other;
  const StopToken stop;
  auto turn = std::make_unique<ComputeSlots::Turn>(&slots, &other, &stop);
  std::thread waits([this] { Run({OpByDefault("ones", {}, {1}, {Ints{3}})}); });
  while (slots.waiting() == 0) std::this_thread::yield();
  constexpr std::chrono::milliseconds kHeld(5);
  std::this_thread::sleep_for(kHeld);
  turn = nullptr;
  waits.join();
  const std::chrono::nanoseconds waited(session_->counters().wait_nanoseconds.value());
  EXPECT_GE(waited, kHeld);
  const absl::StatusOr<TracePart> part = tracer.Read(100);
  ASSERT_TRUE(part.ok()) << part.status();
  ASSERT_EQ(part->sessions.size(), 1u);
  std::vector<std::chrono::nanoseconds> shown;
  for (const Span& span : part->sessions[0].spans) {
    if (span.kind == SpanKind::kWait) shown.emplace_back(span.end - span.begin);
  }
  EXPECT_EQ(shown, std::vector<std::chrono::nanoseconds>{waited});
}

// An operator may write to an input that is not used again. A read is a use, whatever its number.
TEST_F(SessionTest, ARequestsNumberMayBeThatOfItsArray) {
  for (const uint64_t request : {uint64_t{6}, uint64_t{7}}) {
    Upload(7, {1, 2, 3, 4}, {4});
    Run({Op("negative", {A(7)}, {8}), command::Fetch{request, 7}, ReleaseOf({7, 8})});
    float values[4] = {};
    ASSERT_EQ(output_.values.back().data.size(), sizeof(values));
    std::memcpy(values, output_.values.back().data.data(), sizeof(values));
    EXPECT_EQ(Floats(values, values + 4), (Floats{1, 2, 3, 4})) << request;
  }
}

TEST_F(SessionTest, AnUploadIsVisibleWhenItIsWhole) {
  const int64_t shape[] = {4};
  absl::StatusOr<Session::UploadSink> sink = session_->BeginUpload(1, Dtype::kFloat32, shape, 0);
  ASSERT_TRUE(sink.ok());
  const float values[] = {1, 2, 3, 4};
  const absl::string_view bytes(reinterpret_cast<const char*>(values), sizeof(values));
  CHECK_OK(sink->Write(bytes.substr(0, 8)));
  EXPECT_FALSE(sink->Finish().ok());
  CHECK_OK(sink->Write(bytes.substr(8)));
  EXPECT_FALSE(sink->Write("x").ok());
  CHECK_OK(sink->Finish());
  EXPECT_EQ(Fetch(1), (Floats{1, 2, 3, 4}));
}

}  // namespace
}  // namespace chx::server
