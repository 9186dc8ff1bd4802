#include "server/native/native_backend.h"

#include <cstring>
#include <memory>

#include "gtest/gtest.h"
#include "ops/error.h"

namespace chx::server {
namespace {

class NativeBackendTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = CreateNativeBackend({2});
  std::unique_ptr<Device> device_ = *backend_->OpenDevice(0);
};

TEST_F(NativeBackendTest, HasAKernelForEachOperator) {
  EXPECT_TRUE(device_->kernels().Missing().empty()) << device_->kernels().Missing()[0];
}

TEST_F(NativeBackendTest, Names) {
  EXPECT_EQ(backend_->name(), "native");
  EXPECT_EQ(backend_->device_count(), 4);
  EXPECT_EQ(device_->name(), "native:0");
  EXPECT_GT(device_->memory_bytes(), size_t{1} << 28);
  EXPECT_EQ((*backend_->OpenDevice(3))->name(), "native:3");
  EXPECT_EQ(KindOf(backend_->OpenDevice(4).status()), ErrorKind::kDevice);
  EXPECT_EQ(KindOf(backend_->OpenDevice(-1).status()), ErrorKind::kDevice);
}

TEST_F(NativeBackendTest, SlabsAreZeroedAndAligned) {
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{1} << 20, (size_t{5} << 20) + 1}) {
    for (int round = 0; round < 2; ++round) {
      char* const slab = static_cast<char*>(*device_->AllocateSlab(bytes));
      EXPECT_EQ(reinterpret_cast<size_t>(slab) % 256, 0u);
      for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(slab[i], 0);
      std::memset(slab, 0xff, bytes);
      device_->FreeSlab(slab, bytes);
    }
  }
}

TEST_F(NativeBackendTest, ExhaustedMemoryIsAnError) {
  const size_t all = device_->memory_bytes();
  for (const size_t bytes : {all + 1, SIZE_MAX, SIZE_MAX - 4096}) {
    EXPECT_EQ(KindOf(device_->AllocateSlab(bytes).status()), ErrorKind::kMemory);
  }
  // Address space only: nothing is written.
  void* const most = *device_->AllocateSlab(all / 4 * 3);
  EXPECT_EQ(KindOf(device_->AllocateSlab(all / 2).status()), ErrorKind::kMemory);
  device_->FreeSlab(most, all / 4 * 3);
  device_->FreeSlab(*device_->AllocateSlab(all / 2), all / 2);
}

TEST_F(NativeBackendTest, StreamsCopy) {
  std::unique_ptr<Stream> stream = *device_->NewStream();
  EXPECT_EQ(&stream->device(), device_.get());
  char* const slab = static_cast<char*>(*device_->AllocateSlab(16));
  char back[4] = {};
  ASSERT_TRUE(stream->CopyIn(slab, "abc", 4).ok());
  ASSERT_TRUE(stream->CopyOut(back, slab, 4).ok());
  EXPECT_STREQ(back, "abc");
  ASSERT_TRUE(stream->Zero(slab, 4).ok());
  ASSERT_TRUE(stream->CopyOut(back, slab, 4).ok());
  EXPECT_STREQ(back, "");
  EXPECT_TRUE(stream->CopyIn(nullptr, nullptr, 0).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
  device_->FreeSlab(slab, 16);
}

}  // namespace
}  // namespace chx::server
