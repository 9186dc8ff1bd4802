#include "server/native/host_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/native/device.h"

namespace chx::server {
namespace {

// Memory, threads and streams of a device of native, as native's kernels expect them.
class HostDevice : public native::NativeDevice {
 public:
  HostDevice(std::string name, int threads)
      : NativeDevice(std::move(name), threads), kernels_(NativeDevice::kernels()) {}

  const KernelTable& kernels() const override { return kernels_; }
  absl::Status SetKernels(const HostPlugin& plugin) {
    HostKernels kernels(&kernels_);
    return plugin.set_kernels(&kernels);
  }

 private:
  KernelTable kernels_;
};

class HostBackend : public Backend {
 public:
  HostBackend(std::string name, const HostPlugin& plugin, NativeOptions options)
      : name_(std::move(name)), plugin_(plugin), threads_(NativeThreads(options)) {}

  const std::string& name() const override { return name_; }
  int device_count() const override { return kNativeDevices; }
  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(int index) override {
    if (index < 0 || index >= kNativeDevices) {
      return DeviceError("there is no ", name_, ":", index, ", only ", kNativeDevices, " devices");
    }
    auto device = std::make_unique<HostDevice>(absl::StrCat(name_, ":", index), threads_);
    const absl::Status status = device->SetKernels(plugin_);
    if (status.ok()) return std::unique_ptr<Device>(std::move(device));
    return MakeError(KindOf(status), absl::StrCat("plug-in '", name_,
                                                  "' cannot set its kernels: ", status.message()));
  }

 private:
  const std::string name_;
  const HostPlugin& plugin_;
  const int threads_;
};

}  // namespace

std::unique_ptr<Backend> CreateHostBackend(std::string name, const HostPlugin& plugin,
                                           NativeOptions options) {
  return std::make_unique<HostBackend>(std::move(name), plugin, options);
}

}  // namespace chx::server
