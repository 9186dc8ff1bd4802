// Arrays in memory that another process maps: here a second mapping stands for the client's.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

class ShareTest : public SessionTest {
 protected:
  ShareTest() { Open(64 << 20); }
  ~ShareTest() override {
    for (const auto& [data, bytes] : mapped_) munmap(data, bytes);
  }

  void Open(int64_t memory_bytes) {
    SessionLimits limits;
    limits.memory_bytes = memory_bytes;
    session_ = std::make_unique<Session>(&devices_, limits, SessionResources{true});
    output_.Clear();
  }

  // The first element, through a mapping of its own.
  template <typename T>
  T* Map(const SharedBlock& block) {
    int64_t bytes = 0;
    const absl::StatusOr<int> fd = session_->segments().Duplicate(block.segment, &bytes);
    EXPECT_TRUE(fd.ok()) << fd.status();
    EXPECT_GE(static_cast<uint64_t>(bytes), block.offset + block.bytes);
    void* const data =
        mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    close(*fd);
    mapped_.emplace_back(data, static_cast<size_t>(bytes));
    return reinterpret_cast<T*>(static_cast<char*>(data) + block.offset + block.array_offset);
  }

  static ArraySpec Floats(std::vector<int64_t> shape) {
    return ArraySpec(Dtype::kFloat32, Shape(absl::MakeConstSpan(shape)));
  }

  std::vector<std::pair<void*, size_t>> mapped_;
};

TEST_F(ShareTest, ViewsMoveAlong) {
  Upload(1, {1, 2, 3, 4, 5, 6}, {2, 3});
  Run({Op("transpose", {A(1)}, {2}, {AttrValue()})});
  const auto block = Export(1);
  ASSERT_TRUE(block.ok()) << block.status();
  float* const data = Map<float>(*block);
  EXPECT_EQ(std::vector<float>(data, data + 6), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  data[1] = 20;
  EXPECT_EQ(Fetch(2), (std::vector<float>{1, 4, 20, 5, 3, 6}));
  Run({Op("add_", {A(2), S(Scalar(1.0))}, {})});
  EXPECT_EQ(data[1], 21);
  const auto again = Export(2);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->segment, block->segment);
  EXPECT_EQ(again->offset, block->offset);
  EXPECT_EQ(again->strides, Strides({4, 12}));
}

TEST_F(ShareTest, ReadsCopyWhatIsPrivateOrNotInOrder) {
  Upload(1, {1, 2, 3, 4}, {2, 2});
  auto block = ShareCopy(1, 9);
  ASSERT_TRUE(block.ok() && block->copied);
  EXPECT_EQ(Map<float>(*block)[3], 4);
  EXPECT_EQ(Fetch(9), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_FALSE(ShareCopy(1, 9).ok());  // in use
  ASSERT_TRUE(Export(1).ok());
  block = ShareCopy(1, 10);
  ASSERT_TRUE(block.ok());
  EXPECT_FALSE(block->copied);
  Run({Op("transpose", {A(1)}, {2}, {AttrValue()})});
  block = ShareCopy(2, 11);
  ASSERT_TRUE(block.ok() && block->copied);
  EXPECT_EQ(Map<float>(*block)[1], 3);
}

TEST_F(ShareTest, NewArraysAreTheClientsToFillAndAliasesShareThem) {
  const auto block = NewShared(1, Floats({4}));
  ASSERT_TRUE(block.ok());
  float* const data = Map<float>(*block);
  for (int i = 0; i < 4; ++i) data[i] = static_cast<float>(i);
  EXPECT_EQ(Fetch(1), (std::vector<float>{0, 1, 2, 3}));
  ArraySpec reversed = Floats({4});
  reversed.offset = 12;
  reversed.strides = Strides({-4});
  ASSERT_TRUE(Alias(2, 1, reversed).ok());
  Run({ReleaseOf({1}), Op("multiply_", {A(2), S(Scalar(2.0))}, {})});
  EXPECT_EQ(Fetch(2), (std::vector<float>{6, 4, 2, 0}));
  EXPECT_EQ(data[3], 6);
  EXPECT_FALSE(Alias(3, 1, reversed).ok());  // 1 is released
  reversed.strides = Strides({4});
  EXPECT_FALSE(NewShared(2, Floats({4})).ok());
  // The block has 64 bytes: 12 + 15 * 4 is beyond.
  ArraySpec beyond = Floats({15});
  beyond.offset = 12;
  EXPECT_EQ(KindOf(Alias(3, 2, beyond)), ErrorKind::kValue);
}

// An upload is copied out of shared memory once, and not for each operator on it.
TEST_F(ShareTest, UploadedIndicesBecomePrivateWhenTheyAreUsed) {
  const ArraySpec spec(Dtype::kInt64, Shape({3}));
  const auto block = NewShared(1, spec);
  ASSERT_TRUE(block.ok());
  int64_t* const indices = Map<int64_t>(*block);
  std::copy_n(std::vector<int64_t>{2, 0, 1}.begin(), 3, indices);
  Upload(2, {10, 20, 30}, {3});
  const auto take = [&](Handle y) {
    Run({Op("take", {A(2), A(1)}, {y}, {AttrValue(int64_t{0}), AttrValue()})});
    return Fetch(y);
  };
  EXPECT_EQ(take(3), (std::vector<float>{30, 10, 20}));
  indices[0] = 1;
  EXPECT_EQ(take(4), (std::vector<float>{30, 10, 20}));
  // What the client wants to see is shared again, and stays.
  const auto again = Export(1);
  ASSERT_TRUE(again.ok());
  int64_t* const seen = Map<int64_t>(*again);
  EXPECT_EQ(std::vector<int64_t>(seen, seen + 3), (std::vector<int64_t>{2, 0, 1}));
  seen[0] = 1;
  EXPECT_EQ(take(5), (std::vector<float>{20, 10, 20}));
  seen[0] = 0;
  EXPECT_EQ(take(6), (std::vector<float>{10, 10, 20}));
}

TEST_F(ShareTest, UploadsThatAreUsedAgainAndAgainBecomePrivate) {
  const auto block = NewShared(1, Floats({2}));
  const auto read = NewShared(2, Floats({2}));
  ASSERT_TRUE(block.ok() && read.ok());
  float* const data = Map<float>(*block);
  float* const seen = Map<float>(*read);
  data[0] = data[1] = seen[0] = seen[1] = 1;
  ASSERT_TRUE(ShareCopy(2, 9).ok());  // this one stays where the client reads it
  Handle next = 10;
  const auto sum = [&] {
    Run({Op("add", {A(1), A(2)}, {next})});
    return Fetch(next++)[0];
  };
  for (int i = 2; i < 5; ++i) {
    data[0] = static_cast<float>(i);
    EXPECT_EQ(sum(), static_cast<float>(i + 1));
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sum(), 5);
  data[0] = 100;
  EXPECT_EQ(sum(), 5);
  seen[0] = 2;
  EXPECT_EQ(sum(), 6);
}

// Where there is no room for a copy it stays where it is.
TEST_F(ShareTest, UploadsThatAreUsedOftenMayHaveNoRoomToMove) {
  Open(5 << 20);
  const auto block = NewShared(1, Floats({768 << 10}));
  ASSERT_TRUE(block.ok());
  float* const data = Map<float>(*block);
  data[0] = 1;
  for (Handle next = 10; next < 30; ++next) {
    Run({Op("amax", {A(1)}, {next}, {AttrValue(), AttrValue(false)})});
    data[0] = static_cast<float>(next);
    EXPECT_EQ(Fetch(next)[0], next == 10 ? 1.0f : static_cast<float>(next - 1));
  }
}

// A client may be reading it when the operator runs.
TEST_F(ShareTest, UploadsThatAreReadStay) {
  const auto block = NewShared(1, ArraySpec(Dtype::kInt64, Shape({2})));
  ASSERT_TRUE(block.ok());
  int64_t* const indices = Map<int64_t>(*block);
  indices[0] = indices[1] = 0;
  const auto read = ShareCopy(1, 9);
  ASSERT_TRUE(read.ok() && !read->copied);
  Upload(2, {10, 20}, {2});
  Run({Op("take", {A(2), A(1)}, {3}, {AttrValue(int64_t{0}), AttrValue()})});
  indices[1] = 1;
  Run({Op("take", {A(2), A(1)}, {4}, {AttrValue(int64_t{0}), AttrValue()})});
  EXPECT_EQ(Fetch(3), (std::vector<float>{10, 10}));
  EXPECT_EQ(Fetch(4), (std::vector<float>{10, 20}));
}

TEST_F(ShareTest, ASessionThatIsNotOnThisHostSharesNothing) {
  Reset(SessionLimits());
  Upload(1, {1, 2}, {2});
  EXPECT_EQ(KindOf(Export(1).status()), ErrorKind::kMemory);
  EXPECT_EQ(KindOf(NewShared(2, Floats({4})).status()), ErrorKind::kMemory);
  EXPECT_EQ(Fetch(1), (std::vector<float>{1, 2}));
  EXPECT_EQ(session_->segments().size(), 0u);
}

TEST_F(ShareTest, TheQuotaIsCheckedFirst) {
  Open(5 << 20);
  Run({Op("full", {}, {1},
          {AttrValue(Ints({768 << 10})), AttrValue(Scalar(1.0)), AttrValue(Dtype::kFloat32)})});
  EXPECT_EQ(KindOf(Export(1).status()), ErrorKind::kMemory);
  EXPECT_EQ(KindOf(NewShared(2, Floats({1 << 20})).status()), ErrorKind::kMemory);
  EXPECT_EQ(session_->segments().size(), 0u);
  EXPECT_LE(session_->stats().memory_bytes, 5 << 20);
  Run({Op("sum", {A(1)}, {3}, {AttrValue(), AttrValue(false), AttrValue()})});
  EXPECT_EQ(Fetch(3), (std::vector<float>{768 << 10}));
}

TEST_F(ShareTest, MemoryKeepsItsSegmentUntilItIsGivenBack) {
  const auto first = NewShared(1, Floats({4 << 20}));
  ASSERT_TRUE(first.ok());
  float* const data = Map<float>(*first);
  data[0] = 5;
  Run({ReleaseOf({1})});
  const auto second = NewShared(2, Floats({4 << 20}));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->segment, first->segment);
  Run({ReleaseOf({2})});
  // 16 MiB of 64 have to go for this one; the client, who still maps them, sees zeros.
  ASSERT_TRUE(NewShared(3, Floats({14 << 20})).ok());
  EXPECT_EQ(data[0], 0);
  int64_t bytes = 0;
  EXPECT_FALSE(session_->segments().Duplicate(first->segment, &bytes).ok());
  Run({ReleaseOf({3})});
  const auto fourth = NewShared(4, Floats({4 << 20}));
  ASSERT_TRUE(fourth.ok());
  EXPECT_GT(fourth->segment, first->segment);
}

TEST_F(ShareTest, SegmentsAreBounded) {
  Open(int64_t{1} << 40);
  Handle handle = 1;
  absl::Status status;
  while (status.ok() && handle < 5000) {
    status = NewShared(handle++, Floats({65 << 10})).status();
  }
  EXPECT_EQ(KindOf(status), ErrorKind::kMemory);
  EXPECT_EQ(session_->segments().size(), Segments::kMaxSegments / 2);
  Upload(9000, {1}, {1});
  EXPECT_TRUE(Export(9000).ok());  // for which there is room still
}

TEST_F(ShareTest, ErrorsAreTheArraysOwn) {
  Upload(1, {1, 2}, {2});
  Run({Op("add", {A(1), A(77)}, {2})});
  const auto block = Export(2);
  EXPECT_EQ(KindOf(block.status()), ErrorKind::kValue);
  EXPECT_TRUE(session_->UnreadErrors().empty());
}

// Positions are checked before they are used: what is checked must be what is used.
TEST_F(ShareTest, AWriterCannotChangeIndicesAfterTheCheck) {
  constexpr int64_t kCount = 1 << 14;
  ArraySpec spec(Dtype::kInt64, Shape({kCount}));
  const auto block = NewShared(1, spec);
  ASSERT_TRUE(block.ok());
  int64_t* const indices = Map<int64_t>(*block);
  std::fill(indices, indices + kCount, 0);
  ASSERT_TRUE(Export(1).ok());  // stays where the writer sees it
  Upload(2, {1, 2, 3, 4}, {4});
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop.load()) {
      // Volatile: each write is to happen.
      volatile int64_t* const at = indices;
      for (int64_t i = 0; i < kCount; ++i) at[i] = int64_t{1} << 40;
      for (int64_t i = 0; i < kCount; ++i) at[i] = i % 4;
    }
  });
  Handle next = 10;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < end) {
    const Handle taken = next++;
    const Handle order = next++;
    Run({Op("take", {A(2), A(1)}, {taken}, {AttrValue(int64_t{0}), AttrValue()}),
         Op("argsort", {A(1)}, {order}, {AttrValue(int64_t{0})}), ReleaseOf({taken, order})});
    output_.Clear();
  }
  stop = true;
  writer.join();
  std::fill(indices, indices + kCount, 3);
  Run({Op("take", {A(2), A(1)}, {5}, {AttrValue(int64_t{0}), AttrValue()}),
       Op("sum", {A(5)}, {6}, {AttrValue(), AttrValue(false), AttrValue()})});
  EXPECT_EQ(Fetch(6), (std::vector<float>{4 * kCount}));
}

// index_put writes its first input: that one is never copied.
TEST_F(ShareTest, InPlaceOperatorsWriteSharedIntegers) {
  const auto block = NewShared(1, ArraySpec(Dtype::kInt64, Shape({4})));
  ASSERT_TRUE(block.ok());
  int64_t* const data = Map<int64_t>(*block);
  for (int i = 0; i < 4; ++i) data[i] = i;
  ASSERT_TRUE(Export(1).ok());
  Run({Op("multiply_", {A(1), A(1)}, {})});
  EXPECT_EQ(std::vector<int64_t>(data, data + 4), (std::vector<int64_t>{0, 1, 4, 9}));
  const auto indices = NewShared(2, ArraySpec(Dtype::kInt64, Shape({4})));
  ASSERT_TRUE(indices.ok());
  int64_t* const at = Map<int64_t>(*indices);
  for (int i = 0; i < 4; ++i) at[i] = 3 - i;
  Run({Op("index_put", {A(1), A(2), A(2)}, {})});
  EXPECT_EQ(LastError(), "");
  EXPECT_EQ(std::vector<int64_t>(data, data + 4), (std::vector<int64_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace chx::server
