// A session with more arrays than memory is written from where they are, and read again by one that
// has no more memory than it had.
#include <cstdlib>
#include <cstring>

#include "server/engine/spill_folder.h"
#include "tests/session/discrete_device.h"
#include "tests/session/session_fixture.h"
#include "tests/state/snapshots.h"

namespace chx::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kElements = int64_t{512} << 10;  // 2 MiB of float32
constexpr Handle kArrays = 24;

class SpilledStateTest : public SessionTest {
 protected:
  void TearDown() override { session_ = nullptr; }

  // Writes the session that `open` makes, and reads it into another one of them.
  template <typename Open>
  void GoesOn(const Open& open) {
    session_ = open();
    output_.Clear();
    for (Handle i = 1; i <= kArrays; ++i) {
      Run({Op("full", {}, {i},
              {Ints{kElements}, Scalar(static_cast<double>(i)), Dtype::kFloat32})});
    }
    Run({Op("reshape", {A(1)}, {100}, {AttrValue(Ints{2, kElements / 2})})});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
    EXPECT_GE(session_->stats().spilled_bytes, 30 * kMiB);
    const std::string data = SnapshotOf(session_.get());
    session_ = nullptr;  // its memory is the other's now
    session_ = open();
    const absl::Status status = Restore(data, session_.get());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GE(session_->stats().spilled_bytes, 30 * kMiB);
    Run({Op("add_", {A(100), S(0.5)}, {})});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
    for (Handle i = 1; i <= kArrays; ++i) {
      const absl::StatusOr<Session::HostCopy> copy = session_->ReadArray(i);
      ASSERT_TRUE(copy.ok()) << copy.status();
      std::vector<float> values(static_cast<size_t>(kElements));
      ASSERT_EQ(copy->data.size(), values.size() * sizeof(float));
      std::memcpy(values.data(), copy->data.data(), copy->data.size());
      const float expected = static_cast<float>(i) + (i == 1 ? 0.5f : 0.0f);
      EXPECT_EQ(values, std::vector<float>(static_cast<size_t>(kElements), expected)) << i;
    }
  }
};

TEST_F(SpilledStateTest, OfADeviceWithItsOwnMemory) {
  DiscreteBackend backend(16 * kMiB);
  Devices devices;
  CHECK_OK(devices.Open("discrete:0", {&backend}));
  GoesOn([&] {
    SessionLimits limits;
    limits.memory_bytes = 256 * kMiB;
    return std::make_unique<Session>(&devices, limits);
  });
  EXPECT_EQ(static_cast<DiscreteDevice&>(devices.at(0)).faults(), 0);
  session_ = nullptr;
}

TEST_F(SpilledStateTest, OfTheCpu) {
  const char* const given = std::getenv("TEST_TMPDIR");
  absl::StatusOr<std::unique_ptr<SpillFolder>> folder =
      SpillFolder::Open(given == nullptr ? "/var/tmp" : given, 256 * kMiB);
  if (!folder.ok()) folder = SpillFolder::Open("/var/tmp", 256 * kMiB);
  ASSERT_TRUE(folder.ok()) << folder.status();
  devices_.slot(0).spill = folder->get();
  GoesOn([&] {
    SessionLimits limits;
    limits.memory_bytes = 16 * kMiB;
    return std::make_unique<Session>(&devices_, limits);
  });
  session_ = nullptr;
  EXPECT_EQ((*folder)->used(), 0);
}

}  // namespace
}  // namespace chx::server
