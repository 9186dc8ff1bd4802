// A device whose memory is not the host's, as far as the engine can tell: native's kernels on slabs
// that nothing but its streams may touch. What is given an address outside of them, or of a slab
// that was given back, is counted, and such a slab cannot even be read. So no test passes on an
// array that the engine has moved away and not brought back.
#ifndef CHX_TESTS_SESSION_DISCRETE_DEVICE_H_
#define CHX_TESTS_SESSION_DISCRETE_DEVICE_H_

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "server/native/native_backend.h"

namespace chx::server {

// Thread-safe.
class DiscreteMemory {
 public:
  explicit DiscreteMemory(size_t limit) : limit_(limit) {}
  ~DiscreteMemory() {
    EXPECT_EQ(used(), 0u) << "slabs were not given back";
    for (const auto& [data, bytes] : dead_) munmap(data, bytes);
  }

  absl::StatusOr<void*> Allocate(size_t bytes) {
    MutexLock lock(&mutex_);
    if (bytes > limit_ - used_) return MemoryError("discrete:0 has no ", bytes, " bytes left");
    void* const data =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return MemoryError("mmap");
    used_ += bytes;
    live_[static_cast<char*>(data)] = bytes;
    return data;
  }
  void Free(void* data, size_t bytes) {
    MutexLock lock(&mutex_);
    live_.erase(static_cast<char*>(data));
    used_ -= bytes;
    // Its address is never anybody else's.
    mmap(data, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    dead_[static_cast<char*>(data)] = bytes;
  }
  bool Holds(const void* at, size_t bytes) {
    MutexLock lock(&mutex_);
    const char* const begin = static_cast<const char*>(at);
    auto slab = live_.upper_bound(const_cast<char*>(begin));
    if (slab == live_.begin()) return false;
    --slab;
    return begin + bytes <= slab->first + slab->second;
  }
  size_t used() {
    MutexLock lock(&mutex_);
    return used_;
  }

 private:
  Mutex mutex_;
  const size_t limit_;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<char*, size_t> live_ ABSL_GUARDED_BY(mutex_);
  std::map<char*, size_t> dead_ ABSL_GUARDED_BY(mutex_);
};

class DiscreteDevice : public Device {
 public:
  DiscreteDevice(std::unique_ptr<Device> native, size_t limit);

  const std::string& name() const override { return name_; }
  size_t memory_bytes() const override { return limit_; }
  const KernelTable& kernels() const override { return kernels_; }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;
  absl::StatusOr<void*> AllocateSlab(size_t bytes) override { return memory_.Allocate(bytes); }
  void FreeSlab(void* slab, size_t bytes) override { memory_.Free(slab, bytes); }

  // An error, and counted, unless all of it is this device's.
  absl::Status Check(const char* what, const void* at, size_t bytes) {
    if (bytes == 0 || memory_.Holds(at, bytes)) return absl::OkStatus();
    ++faults_;
    return DeviceError(what, " outside of the device's memory");
  }
  // The same for what must not be.
  absl::Status CheckHost(const char* what, const void* at, size_t bytes) {
    if (bytes == 0 || (at != nullptr && !memory_.Holds(at, 1))) return absl::OkStatus();
    ++faults_;
    return DeviceError(what, " of device memory for the host's");
  }
  int64_t faults() const { return faults_; }
  size_t used() { return memory_.used(); }
  // Called before each copy.
  std::function<void()> before_copy;

 private:
  const std::string name_ = "discrete:0";
  const std::unique_ptr<Device> native_;
  const size_t limit_;
  DiscreteMemory memory_;
  std::atomic<int64_t> faults_{0};
  KernelTable kernels_;
};

class DiscreteStream : public Stream {
 public:
  DiscreteStream(DiscreteDevice* device, std::unique_ptr<Stream> native)
      : device_(device), native_(std::move(native)) {}

  DiscreteDevice& device() override { return *device_; }
  Stream& native() {
    native_->set_settings(settings());
    return *native_;
  }
  absl::Status CopyIn(void* dst, const void* src, size_t bytes) override {
    if (device_->before_copy) device_->before_copy();
    CHX_RETURN_IF_ERROR(device_->Check("a copy to", dst, bytes));
    CHX_RETURN_IF_ERROR(device_->CheckHost("a copy from", src, bytes));
    return native_->CopyIn(dst, src, bytes);
  }
  absl::Status CopyOut(void* dst, const void* src, size_t bytes) override {
    if (device_->before_copy) device_->before_copy();
    CHX_RETURN_IF_ERROR(device_->Check("a copy from", src, bytes));
    CHX_RETURN_IF_ERROR(device_->CheckHost("a copy to", dst, bytes));
    return native_->CopyOut(dst, src, bytes);
  }
  absl::Status Zero(void* dst, size_t bytes) override {
    CHX_RETURN_IF_ERROR(device_->Check("zeros", dst, bytes));
    return native_->Zero(dst, bytes);
  }
  absl::Status Synchronize() override { return native_->Synchronize(); }

  // As a kernel of any operator.
  static absl::Status RunKernel(const KernelArgs& args) {
    auto& stream = static_cast<DiscreteStream&>(args.stream);
    for (const KernelTensor& tensor : args.inputs) CHX_RETURN_IF_ERROR(stream.Check(tensor));
    for (const KernelTensor& tensor : args.outputs) CHX_RETURN_IF_ERROR(stream.Check(tensor));
    Stream& native = stream.native();
    const Kernel kernel = native.device().kernels().Find(args.op);
    return kernel({args.op, native, args.scratch, args.inputs, args.outputs, args.attrs});
  }

 private:
  absl::Status Check(const KernelTensor& tensor) {
    if (!tensor.present || tensor.is_scalar || tensor.size() == 0) return absl::OkStatus();
    int64_t begin = 0;
    int64_t end = ItemSize(tensor.dtype);
    for (int i = 0; i < tensor.ndim(); ++i) {
      const int64_t reach = (tensor.shape[i] - 1) * tensor.strides[i];
      (reach < 0 ? begin : end) += reach;
    }
    return device_->Check("a kernel", tensor.data + begin, static_cast<size_t>(end - begin));
  }

  DiscreteDevice* const device_;
  const std::unique_ptr<Stream> native_;
};

inline DiscreteDevice::DiscreteDevice(std::unique_ptr<Device> native, size_t limit)
    : native_(std::move(native)), limit_(limit), memory_(limit) {
  const OpRegistry& registry = OpRegistry::Global();
  for (int i = 0; i < registry.size(); ++i) {
    const OpDef& op = registry.at(static_cast<OpId>(i));
    if (native_->kernels().Find(op) != nullptr) kernels_.Set(op.name, &DiscreteStream::RunKernel);
  }
}

inline absl::StatusOr<std::unique_ptr<Stream>> DiscreteDevice::NewStream() {
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Stream> native, native_->NewStream());
  return std::unique_ptr<Stream>(std::make_unique<DiscreteStream>(this, std::move(native)));
}

class DiscreteBackend : public Backend {
 public:
  explicit DiscreteBackend(size_t limit) : limit_(limit), native_(CreateNativeBackend({1})) {}

  const std::string& name() const override { return name_; }
  int device_count() const override { return 1; }
  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(int index) override {
    CHX_ASSIGN_OR_RETURN(std::unique_ptr<Device> native, native_->OpenDevice(index));
    return std::unique_ptr<Device>(std::make_unique<DiscreteDevice>(std::move(native), limit_));
  }

 private:
  const std::string name_ = "discrete";
  const size_t limit_;
  const std::unique_ptr<Backend> native_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_DISCRETE_DEVICE_H_
