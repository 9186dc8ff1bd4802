#include "server/native/native_backend.h"

#include <cblas.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/engine/host_cpus.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/runtime/device.h"

namespace chx::server {
namespace {

class NativeBackend : public Backend {
 public:
  explicit NativeBackend(int threads) : threads_(threads) {}

  const std::string& name() const override { return name_; }
  int device_count() const override { return kNativeDevices; }
  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(int index) override {
    if (index < 0 || index >= kNativeDevices) {
      return DeviceError("there is no native:", index, ", only ", kNativeDevices, " devices");
    }
    KernelTable kernels;
    native::RegisterKernels(kernels);
    return std::unique_ptr<Device>(std::make_unique<native::NativeDevice>(
        absl::StrCat(name_, ":", index), threads_, std::move(kernels)));
  }

 private:
  const std::string name_ = "native";
  const int threads_;
};

}  // namespace

int NativeThreads(NativeOptions options) {
  return options.threads > 0 ? options.threads : HostCpus();
}

std::unique_ptr<Backend> CreateNativeBackend(NativeOptions options) {
  // Matrix products are cut into pieces for our own threads, which sessions share fairly; OpenBLAS
  // would take a global lock and wake its threads for every product.
  openblas_set_num_threads(1);
  return std::make_unique<NativeBackend>(NativeThreads(options));
}

}  // namespace chx::server
