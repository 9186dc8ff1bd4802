#include "server/native/host_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/runtime/device.h"

namespace chx::server {
namespace {

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
    KernelTable kernels;
    native::RegisterKernels(kernels);
    HostKernels replaceable(&kernels);
    if (const absl::Status status = plugin_.set_kernels(&replaceable); !status.ok()) {
      return MakeError(
          KindOf(status),
          absl::StrCat("plug-in '", name_, "' cannot set its kernels: ", status.message()));
    }
    return std::unique_ptr<Device>(std::make_unique<native::NativeDevice>(
        absl::StrCat(name_, ":", index), threads_, std::move(kernels)));
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
