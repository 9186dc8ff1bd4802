// What is said of a session's memory, and what makes room in it.
#include "tests/session/memory_fixture.h"

namespace chx::server {
namespace {

// As in a chain that is 2.3 KB an operator, which the listing did not show.
TEST_F(MemoryTest, TheListingShowsGraphsAndHandles) {
  Begin();
  const int64_t before = session_->stats().memory_bytes;
  for (Handle i = 1001; i <= 2000; ++i) {
    Run({Op("reshape", {A(i == 1001 ? 1 : i - 1)}, {i}, {AttrValue(Ints{1, 1})})});
  }
  ASSERT_TRUE(output_.errors.empty()) << LastError();
  const SessionStats stats = session_->stats();
  EXPECT_GT(stats.memory_bytes - before, 1000 * 2000);
  EXPECT_LT(stats.array_bytes, 2 << 20);
}

TEST_F(MemoryTest, WhatCouldNotBeBoundIsAnErrorOfMemory) {
  Begin();
  // All memory goes into one graph; then not even the table of handles can grow.
  Handle i = 1000;
  while (!OutOfMemory()) {
    ++i;
    Run({Op("reshape", {A(i == 1001 ? 1 : i - 1)}, {i}, {AttrValue(Ints{1, 1})})});
  }
  output_.Clear();
  for (Handle handle = 100000; handle < 120000; ++handle) {
    Run({Op("reshape", {A(3)}, {handle}, {AttrValue(Ints{1, 1})})});
    output_.Clear();
  }
  RootErrorPtr error;
  Fetch(119999, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(KindOf(error->status), ErrorKind::kMemory) << error->status;
  output_.Clear();
  // The client may release it, and all the others; then there is room again.
  std::vector<Handle> all = {119999};
  for (Handle handle = 1001; handle <= i; ++handle) all.push_back(handle);
  Run({ReleaseOf(all)});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  Run({Op("reshape", {A(1)}, {500000}, {AttrValue(Ints{1, 1})})});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  EXPECT_EQ(Fetch(500000), std::vector<float>{1});
}

TEST_F(MemoryTest, UnusedArraysMakeRoomForRecords) {
  Begin(int64_t{12} << 20);
  const AttrValue shape(Ints{1 << 20}), dtype(Dtype::kFloat32);
  Run({Op("zeros", {}, {10}, {shape, dtype}), Op("zeros", {}, {11}, {shape, dtype}),
       ReleaseOf({10, 11})});
  ASSERT_TRUE(output_.errors.empty()) << LastError();
  EXPECT_GT(session_->stats().array_bytes, 8 << 20);
  for (Handle i = 1001; i <= 3500; ++i) {
    Run({Op("reshape", {A(i == 1001 ? 1 : i - 1)}, {i}, {AttrValue(Ints{1, 1})})});
  }
  EXPECT_TRUE(output_.errors.empty()) << LastError();
}

TEST_F(MemoryTest, ManyElementsOfAViewAreNotCopiedOut) {
  Begin();
  Run({Op("broadcast_to", {A(1)}, {10}, {AttrValue(Ints{int64_t{1} << 50})})});
  ASSERT_TRUE(output_.errors.empty()) << LastError();
  EXPECT_EQ(session_->ReadArray(10).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(MemoryTest, ACopyOnItsWayToTheClientIsTheDaemons) {
  MemoryBudget budget(int64_t{24} << 20);
  SessionLimits limits;
  limits.memory_bytes = int64_t{20} << 20;
  const auto account = std::make_shared<MemoryAccount>(limits.memory_bytes, &budget);
  Session session(&devices_, limits, SessionResources{false, account});
  SessionOutput output;
  const AttrValue dtype(Dtype::kFloat32);
  std::vector<Command> commands = {Op("zeros", {}, {1}, {AttrValue(Ints{2 << 20}), dtype}),
                                   Op("zeros", {}, {2}, {AttrValue(Ints{2 << 20}), dtype})};
  session.Execute(commands, &output);
  ASSERT_TRUE(output.errors.empty());
  // More than the session's limit leaves, but not more than the daemon's.
  absl::StatusOr<Session::HostCopy> copy = session.ReadArray(1);
  EXPECT_EQ(copy.status().code(), absl::StatusCode::kResourceExhausted);  // 16 + 8 + records
  commands = {ReleaseOf({2})};
  session.Execute(commands, &output);
  commands = {Op("zeros", {}, {3}, {AttrValue(Ints{3 << 19}), dtype})};
  session.Execute(commands, &output);
  copy = session.ReadArray(3);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(account->used_for(MemoryUse::kTransfers), 6 << 20);
  copy = absl::UnknownError("");
  EXPECT_EQ(account->used_for(MemoryUse::kTransfers), 0);
}

}  // namespace
}  // namespace chx::server
