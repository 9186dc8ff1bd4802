// A session with a folder for what it has no memory for computes what it would with more memory.
#include <sys/vfs.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "server/engine/spill_folder.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

constexpr int64_t kLimit = int64_t{16} << 20;
constexpr int64_t kElements = int64_t{512} << 10;  // 2 MiB of float32
constexpr int kArrays = 24;                        // three times the limit

// Some disks of the machines that run tests are memory.
std::string Folder() {
  for (const char* name : {"TEST_TMPDIR", "TMPDIR"}) {
    const char* const path = std::getenv(name);
    if (path != nullptr && SpillFolder::Open(path, 1).ok()) return path;
  }
  return "/var/tmp";
}

class SpillTest : public SessionTest {
 protected:
  void SetUp() override { Begin(int64_t{1} << 30); }

  void TearDown() override {
    session_ = nullptr;
    if (folder_ != nullptr) {
      EXPECT_EQ(folder_->used(), 0) << "a session leaves nothing behind";
    }
  }

  // A session whose spilled arrays may have `size` bytes; 0: there is no folder.
  void Begin(int64_t size) {
    session_ = nullptr;
    folder_ = size == 0 ? nullptr : *SpillFolder::Open(Folder(), size);
    devices_.slot(0).spill = folder_.get();
    SessionLimits limits;
    limits.memory_bytes = kLimit;
    Reset(limits);
  }

  std::vector<float> Random(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random_() % 1000);
    return values;
  }

  std::vector<float> Floats(Handle handle) {
    const absl::StatusOr<Session::HostCopy> copy = session_->ReadArray(handle);
    EXPECT_TRUE(copy.ok()) << copy.status();
    std::vector<float> values(copy.ok() ? copy->data.size() / sizeof(float) : 0);
    if (!values.empty()) std::memcpy(values.data(), copy->data.data(), copy->data.size());
    return values;
  }

  const unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  std::unique_ptr<SpillFolder> folder_;
};

TEST_F(SpillTest, ComputesAsWithMoreMemory) {
  SCOPED_TRACE(seed_);
  std::vector<std::vector<float>> expected(kArrays + 1);
  for (Handle i = 1; i <= kArrays; ++i) {
    expected[i] = Random(kElements);
    Upload(i, expected[i], {kElements});
  }
  EXPECT_GE(session_->stats().spilled_bytes, 2 * kLimit - (int64_t{2} << 20));
  EXPECT_LE(session_->stats().memory_bytes, kLimit + (int64_t{2} << 20));
  for (int step = 0; step < (kSanitized ? 80 : 200); ++step) {
    const Handle target = 1 + random_() % kArrays;
    const Handle source = 1 + random_() % kArrays;
    if (step % 3 == 0) {  // in place, wherever it lies
      Run({Op("add_", {A(target), S(1)}, {})});
      for (float& value : expected[target]) value += 1;
      continue;
    }
    const Handle result = 1000 + static_cast<Handle>(step);
    Run({Op("maximum", {A(target), A(source)}, {result}), ReleaseOf({target})});
    for (int64_t k = 0; k < kElements; ++k) {
      expected[target][k] = std::max(expected[target][k], expected[source][k]);
    }
    ASSERT_TRUE(output_.errors.empty()) << LastError();
    Run({Op("copy", {A(result)}, {target}), ReleaseOf({result})});
  }
  ASSERT_TRUE(output_.errors.empty()) << LastError();
  for (Handle i = 1; i <= kArrays; ++i) EXPECT_EQ(Floats(i), expected[i]) << i;
}

TEST_F(SpillTest, ViewsGoWithTheirArray) {
  const std::vector<float> values = Random(kElements);
  Upload(1, values, {kElements});
  Run({Op("reshape", {A(1)}, {2}, {AttrValue(Ints{2, kElements / 2})}),
       Op("transpose", {A(2)}, {3}, {AttrValue(Ints{1, 0})})});
  for (Handle i = 10; i < 10 + kArrays; ++i) Upload(i, Random(kElements), {kElements});
  EXPECT_GT(session_->stats().spilled_bytes, 0);
  Run({Op("add_", {A(1), S(7)}, {})});
  ASSERT_TRUE(output_.errors.empty()) << LastError();
  const std::vector<float> transposed = Floats(3);
  ASSERT_EQ(static_cast<int64_t>(transposed.size()), kElements);
  for (int64_t k = 0; k < kElements; ++k) {
    const int64_t row = k % 2;
    ASSERT_EQ(transposed[k], values[row * (kElements / 2) + k / 2] + 7) << k;
  }
}

TEST_F(SpillTest, ComesBackWhenThereIsRoom) {
  for (Handle i = 1; i <= kArrays; ++i) Upload(i, Random(kElements), {kElements});
  const int64_t spilled = session_->stats().spilled_bytes;
  ASSERT_GT(spilled, 0);
  std::vector<Handle> others;
  for (Handle i = 3; i <= kArrays; ++i) others.push_back(i);
  Run({ReleaseOf(others)});
  EXPECT_EQ(session_->stats().spilled_bytes, int64_t{4} << 20) << "the oldest two";
  Run({Op("add_", {A(1), S(1)}, {})});
  EXPECT_EQ(session_->stats().spilled_bytes, int64_t{2} << 20);
  Run({Op("add_", {A(2), S(1)}, {})});
  EXPECT_EQ(session_->stats().spilled_bytes, 0);
}

TEST_F(SpillTest, ItsLimitIsTheEnd) {
  Begin(int64_t{8} << 20);
  Handle i = 1;
  while (output_.errors.empty() && i < 100) {
    Run({Op("zeros", {}, {i++}, {AttrValue(Ints{kElements}), AttrValue(Dtype::kFloat32)})});
  }
  EXPECT_EQ(KindOf(output_.errors.at(0).error->status), ErrorKind::kMemory) << LastError();
  EXPECT_LE(folder_->used(), int64_t{8} << 20);
  EXPECT_GE(static_cast<int64_t>(i) * 2, 20);
  output_.Clear();
  Run({ReleaseOf({1, 2}),
       Op("zeros", {}, {200}, {AttrValue(Ints{kElements}), AttrValue(Dtype::kFloat32)})});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
}

TEST_F(SpillTest, WithoutAFolderTheLimitIsTheMemory) {
  Begin(0);
  for (Handle i = 1; i <= kArrays; ++i) {
    Run({Op("zeros", {}, {i}, {AttrValue(Ints{kElements}), AttrValue(Dtype::kFloat32)})});
  }
  ASSERT_FALSE(output_.errors.empty());
  EXPECT_EQ(KindOf(output_.errors[0].error->status), ErrorKind::kMemory);
}

TEST(SpillFolderTest, RefusesMemoryAndFoldersThatAreNotThere) {
  struct statfs system = {};
  if (statfs("/dev/shm", &system) == 0) {
    const auto spill = SpillFolder::Open("/dev/shm", 1 << 20);
    ASSERT_FALSE(spill.ok());
    EXPECT_NE(spill.status().message().find("in memory"), std::string::npos) << spill.status();
  }
  const auto missing = SpillFolder::Open("/no/such/folder", 1 << 20);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("/no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace chx::server
