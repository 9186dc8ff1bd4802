// The CPU as a device: its memory, its threads and its table of kernels.
#ifndef CHX_SERVER_NATIVE_RUNTIME_DEVICE_H_
#define CHX_SERVER_NATIVE_RUNTIME_DEVICE_H_

#include <atomic>
#include <memory>
#include <string>

#include "server/engine/backend.h"
#include "server/engine/kernel.h"
#include "server/engine/slab_sharing.h"
#include "server/native/runtime/thread_pool.h"

namespace chx::server::native {

// Created by a backend's OpenDevice, owned by the engine. Thread-safe.
class NativeDevice : public Device, public SlabSharing {
 public:
  NativeDevice(std::string name, int threads, KernelTable kernels);

  const std::string& name() const override { return name_; }
  size_t memory_bytes() const override { return memory_bytes_; }
  const KernelTable& kernels() const override { return kernels_; }
  bool is_host() const override { return true; }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;
  absl::StatusOr<void*> AllocateSlab(size_t bytes) override;
  void FreeSlab(void* slab, size_t bytes) override;
  absl::StatusOr<SharedSlab> AllocateShared(size_t bytes) override;
  void FreeShared(const SharedSlab& slab, bool discard) override;

  ThreadPool& pool() { return pool_; }

 private:
  // Accounts for `bytes`, a multiple of the page, if there are as many left.
  bool TryReserve(size_t bytes);
  absl::Status Exhausted(size_t bytes) const;

  const std::string name_;
  const size_t memory_bytes_;
  std::atomic<size_t> used_bytes_{0};
  std::atomic<size_t> shared_slabs_{0};
  const KernelTable kernels_;
  ThreadPool pool_;
};

// Calls return when their work is done, so Synchronize has nothing to wait for.
class NativeStream : public Stream {
 public:
  explicit NativeStream(NativeDevice* device) : device_(device) {}

  NativeDevice& device() override { return *device_; }
  absl::Status CopyIn(void* dst, const void* src, size_t bytes) override;
  absl::Status CopyOut(void* dst, const void* src, size_t bytes) override;
  absl::Status Zero(void* dst, size_t bytes) override;
  absl::Status Synchronize() override;
  absl::Status RunBlocks(int64_t n, int64_t grain,
                         absl::FunctionRef<absl::Status(int64_t, int64_t)> run) override;

 private:
  NativeDevice* const device_;
};

// The threads for a kernel of this backend, whose streams are all NativeStreams.
inline ThreadPool& PoolOf(const KernelArgs& args) {
  return static_cast<NativeStream&>(args.stream).device().pool();
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_RUNTIME_DEVICE_H_
