// Values that pass through shared memory by commands; a second mapping stands for the client's.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

constexpr Handle kStage = 1000;
constexpr int64_t kStageBytes = 1 << 20;

class StageTest : public SessionTest {
 protected:
  StageTest() { Open(64 << 20); }
  ~StageTest() override { Unmap(); }

  void Open(int64_t memory_bytes) {
    Unmap();
    SessionLimits limits;
    limits.memory_bytes = memory_bytes;
    session_ = std::make_unique<Session>(&devices_, limits, SessionResources{true});
    output_.Clear();
    const auto block = NewShared(kStage, ArraySpec(Dtype::kUint8, Shape({kStageBytes})));
    ASSERT_TRUE(block.ok()) << block.status();
    stage_ = Map(block->segment) + block->offset;
  }
  void Unmap() {
    for (const auto& [data, bytes] : mapped_) munmap(data, bytes);
    mapped_.clear();
  }
  char* Map(uint32_t segment) {
    int64_t bytes = 0;
    const absl::StatusOr<int> fd = session_->segments().Duplicate(segment, &bytes);
    EXPECT_TRUE(fd.ok()) << fd.status();
    void* const data =
        mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    close(*fd);
    mapped_.emplace_back(data, static_cast<size_t>(bytes));
    return static_cast<char*>(data);
  }

  static command::UploadFrom From(Handle handle, std::vector<int64_t> shape, int64_t place,
                                  Handle stage = kStage) {
    return {handle, Dtype::kFloat32, 0, Ints(shape.begin(), shape.end()), stage, place};
  }
  static command::UploadPart Part(Handle handle, std::vector<int64_t> shape, int64_t place,
                                  int64_t begin, int64_t bytes) {
    return {handle, Dtype::kFloat32, 0,     Ints(shape.begin(), shape.end()),
            kStage, place,           begin, bytes};
  }
  static command::FetchInto Into(Handle handle, int64_t place, int64_t begin, int64_t bytes,
                                 Handle stage = kStage) {
    return {9, handle, stage, place, begin, bytes};
  }
  // Runs it; its message if it failed.
  std::string Answer(const Command& command, std::string* data = nullptr) {
    Run({command});
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.request_id, 9u);
    if (data != nullptr) *data = value.data;
    return value.error == nullptr ? "" : std::string(value.error->status.message());
  }
  std::vector<float> Staged(int64_t place, int count) const {
    std::vector<float> values(static_cast<size_t>(count));
    std::memcpy(values.data(), stage_ + place, values.size() * sizeof(float));
    return values;
  }
  void Fill(int64_t place, const std::vector<float>& values) {
    std::memcpy(stage_ + place, values.data(), values.size() * sizeof(float));
  }

  char* stage_ = nullptr;
  std::vector<std::pair<void*, size_t>> mapped_;
};

TEST_F(StageTest, UploadsAreCopiesInPrivateMemory) {
  Fill(64, {1, 2, 3, 4, 5, 6});
  Run({From(1, {2, 3}, 64), From(2, {0, 3}, kStageBytes)});
  Fill(64, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(LastError(), "");
  EXPECT_EQ(Fetch(1), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Fetch(2), std::vector<float>());
  EXPECT_EQ(session_->segments().size(), 1u);
}

TEST_F(StageTest, FetchesCopyAPartInCOrder) {
  Upload(1, {1, 2, 3, 4, 5, 6}, {2, 3});
  std::string data = "x";
  EXPECT_EQ(Answer(Into(1, 128, 0, 24), &data), "");
  EXPECT_EQ(data, "");
  EXPECT_EQ(Staged(128, 6), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Answer(Into(1, 64, 8, 12)), "");
  EXPECT_EQ(Staged(64, 4), (std::vector<float>{3, 4, 5, 0}));
  Run({Op("transpose", {A(1)}, {2}, {AttrValue()})});
  EXPECT_EQ(Answer(Into(2, kStageBytes - 64, 0, 24)), "");
  EXPECT_EQ(Staged(kStageBytes - 64, 6), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  Run({Into(2, 0, 0, 8)});
  EXPECT_EQ(KindOf(output_.values.back().error->status), ErrorKind::kNotImplemented);
}

TEST_F(StageTest, WhatIsSharedAlreadyIsNamed) {
  const auto block = NewShared(1, ArraySpec(Dtype::kFloat32, Shape({4})));
  ASSERT_TRUE(block.ok());
  ArraySpec tail(Dtype::kFloat32, Shape({2}));
  tail.offset = 8;
  ASSERT_TRUE(Alias(2, 1, tail).ok());
  std::string data;
  ASSERT_EQ(Answer(Into(2, 0, 0, 8), &data), "");
  const auto place = DecodeSegmentOffset(data);
  ASSERT_TRUE(place.ok()) << place.status();
  const float value = 7;
  std::memcpy(Map(place->segment) + place->offset, &value, sizeof(value));
  EXPECT_EQ(Fetch(1)[2], 7);
  // The stage itself too: a request for nothing, which is how a client learns how far things are.
  EXPECT_EQ(Answer(Into(kStage, 0, 0, 0), &data), "");
  EXPECT_FALSE(data.empty());
}

TEST_F(StageTest, NothingBeyondTheStageOrTheArrayIsTouched) {
  Upload(1, {1, 2, 3, 4}, {4});
  Upload(2, {1}, {1});
  constexpr int64_t kBig = INT64_MAX;
  for (const auto& [place, begin, bytes] :
       std::vector<std::array<int64_t, 3>>{{kStageBytes, 0, 16},
                                           {kStageBytes + 64, 0, 0},
                                           {kBig - 63, 0, 16},
                                           {-64, 0, 16},
                                           {8, 0, 16},
                                           {0, 0, 17},
                                           {0, 1, 16},
                                           {0, 17, 0},
                                           {0, kBig, 1},
                                           {0, 1, kBig},
                                           {0, -1, 4},
                                           {0, 0, -1}}) {
    EXPECT_NE(Answer(Into(1, place, begin, bytes)), "") << place << " " << begin << " " << bytes;
  }
  EXPECT_EQ(std::count(stage_, stage_ + kStageBytes, 0), kStageBytes);
  EXPECT_NE(Answer(Into(1, 0, 0, 16, 2)), "");   // private
  EXPECT_NE(Answer(Into(1, 0, 0, 16, 77)), "");  // nobody's
  EXPECT_NE(Answer(Into(77, 0, 0, 16)), "");
  Handle next = 100;
  const auto refused = [&](const command::UploadFrom& command) {
    output_.Clear();
    Run({command});
    EXPECT_EQ(output_.errors.size(), 1u);
    EXPECT_EQ(output_.errors.empty() ? 0 : output_.errors[0].handle, command.result);
  };
  refused(From(next++, {4}, kStageBytes));
  refused(From(next++, {4}, -64));
  refused(From(next++, {4}, 4));
  refused(From(next++, {kStageBytes / 4}, 64));
  refused(From(next++, {kBig, kBig}, 0));
  refused(From(next++, {-1}, 0));
  refused(From(next++, {1}, 0, 2));
  refused(From(next++, {1}, 0, 77));
  refused(From(next++, {1}, 0, 0));
  output_.Clear();
  Run({From(1, {1}, 0)});  // in use
  EXPECT_EQ(output_.errors.size(), 1u);
  EXPECT_EQ(Fetch(1), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_NE(Answer(Into(1, 0, 0, 0, 0)), "");
}

TEST_F(StageTest, PartsMakeAnArray) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  std::memcpy(stage_, values.data(), 32);
  Run({Part(1, {2, 4}, 0, 0, 12), Part(1, {2, 4}, 0, 12, 20)});
  EXPECT_EQ(Fetch(1), (std::vector<float>{1, 2, 3, 1, 2, 3, 4, 5}));
  Run({Part(1, {2, 4}, 0, 32, 0), Part(1, {2, 4}, 0, 4, 4)});  // in any order, and none
  EXPECT_EQ(Fetch(1), (std::vector<float>{1, 1, 3, 1, 2, 3, 4, 5}));
}

TEST_F(StageTest, PartsThatDoNotFitAreErrorsOfTheArray) {
  constexpr int64_t kBig = int64_t{1} << 62;
  Handle next = 10;
  for (const auto& [begin, bytes] : std::vector<std::pair<int64_t, int64_t>>{
           {16, 4}, {12, 5}, {-4, 4}, {4, -1}, {kBig, kBig}, {4, kStageBytes}}) {
    const Handle array = next++;
    output_.Clear();
    Run({Part(array, {4}, 0, 0, 4), Part(array, {4}, 0, begin, bytes),
         Op("negative", {A(array)}, {next++})});
    EXPECT_GE(output_.errors.size(), 1u) << begin << " " << bytes;
    EXPECT_NE(Answer(Into(array, 0, 0, 16)), "");
  }
  output_.Clear();
  Run({Part(next, {4}, 0, 0, 20)});  // the first part, and longer than the array
  EXPECT_NE(Answer(Into(next++, 0, 0, 16)), "");
  output_.Clear();
  Run({Part(next, {kBig, kBig}, 0, 0, 4), Part(next, {4}, 0, 4, 4)});
  EXPECT_EQ(output_.errors.size(), 1u);  // the second part has nothing to add
  output_.Clear();
  Run({Part(next + 1, {4}, 0, 4, 4)});  // nobody's
  EXPECT_EQ(output_.errors.size(), 1u);
  output_.Clear();
  Run({Part(kStage, {4}, 0, 4, 4)});  // the client sees it
  EXPECT_EQ(output_.errors.size(), 1u);
}

// Views of shared memory are no stages unless they are contiguous: their bounds are their own.
TEST_F(StageTest, AStageIsAsLongAsItsView) {
  ArraySpec part(Dtype::kUint8, Shape({128}));
  part.offset = kStageBytes - 128;
  ASSERT_TRUE(Alias(2, kStage, part).ok());
  part.strides = Strides({-1});
  part.offset = kStageBytes - 1;
  ASSERT_TRUE(Alias(3, kStage, part).ok());
  Upload(1, std::vector<float>(40, 5), {40});
  EXPECT_NE(Answer(Into(1, 0, 0, 160, 2)), "");
  EXPECT_EQ(Answer(Into(1, 64, 0, 64, 2)), "");
  EXPECT_EQ(Staged(kStageBytes - 64, 16), std::vector<float>(16, 5));
  EXPECT_NE(Answer(Into(1, 0, 0, 64, 3)), "");
}

TEST_F(StageTest, ErrorsAreTheArraysOwn) {
  Upload(1, {1, 2}, {2});
  Run({Op("add", {A(1), A(77)}, {2})});
  EXPECT_NE(Answer(Into(2, 0, 0, 8)), "");
  EXPECT_TRUE(session_->UnreadErrors().empty());
  Run({From(3, {4}, 4), Op("negative", {A(3)}, {4})});
  EXPECT_NE(Answer(Into(4, 0, 0, 16)), "");
  EXPECT_EQ(output_.values.back().error, output_.errors.back().error);
}

TEST_F(StageTest, UploadsCountAgainstTheQuota) {
  Open((3 << 20) + (512 << 10));  // with the records of them
  Handle next = 1;
  output_.Clear();
  while (output_.errors.empty() && next < 10) Run({From(next++, {1 << 18}, 0)});
  ASSERT_EQ(output_.errors.size(), 1u);
  EXPECT_EQ(KindOf(output_.errors[0].error->status), ErrorKind::kMemory);
  EXPECT_EQ(next, 4u);
  EXPECT_LE(session_->stats().array_bytes, 3 << 20);
}

// The client writes whenever it likes: what is copied is of one moment or another, and no check
// depends on it.
TEST_F(StageTest, AWriterChangesValuesOnly) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    volatile char* const at = stage_;
    while (!stop.load()) {
      for (int i = 0; i < 4096; ++i) at[i] = static_cast<char>(at[i] + 1);
    }
  });
  for (Handle next = 1; next < 400; next += 2) {
    Run({From(next, {1024}, 0), Op("negative", {A(next)}, {next + 1}),
         Into(next + 1, 4096, 0, 4096), ReleaseOf({next, next + 1})});
    EXPECT_EQ(output_.values.back().error, nullptr);
  }
  stop = true;
  writer.join();
  EXPECT_EQ(LastError(), "");
}

}  // namespace
}  // namespace chx::server
