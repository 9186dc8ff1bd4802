// Opens libchxd_cuda.so as the daemon does: this program exports Abseil and the engine to it.
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/cuda/runtime/cuda_backend.h"
#include "server/engine/devices.h"

namespace chx::server {
namespace {

class PluginTest : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(std::getenv("CHX_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <typename Function>
  Function* Get(const char* name) {
    auto* const function = reinterpret_cast<Function*>(dlsym(library_, name));
    EXPECT_NE(function, nullptr) << name;
    return function;
  }

  void* library_ = nullptr;
};

TEST_F(PluginTest, RefusesAnotherInterface) {
  std::string error;
  const auto create = Get<decltype(ChxCreateBackend)>(kBackendEntryPoint);
  EXPECT_EQ(create(kBackendAbi + 1, &error), nullptr);
  EXPECT_EQ(error, absl::StrCat("made for backend interface ", kBackendAbi,
                                ", but the daemon has interface ", kBackendAbi + 1));
}

TEST_F(PluginTest, HasEveryKernel) {
  const auto table = Get<decltype(ChxCudaKernelTable)>("ChxCudaKernelTable");
  EXPECT_EQ(table()->Missing(), std::vector<std::string>());
}

TEST_F(PluginTest, FindsCublasOrSaysThatItIsMissing) {
  std::string error;
  Get<decltype(ChxCudaBlasError)>("ChxCudaBlasError")(&error);
  if (!error.empty()) {
    EXPECT_NE(error.find("no cuBLAS 12 or 13 was found"), error.npos);
  }
}

// The same for what the plug-in can do without; a function that it looks for in vain would make a
// library that is there look too old.
TEST_F(PluginTest, FindsOtherLibrariesOrSaysThatTheyAreMissing) {
  std::string error;
  Get<decltype(ChxCudaDnnError)>("ChxCudaDnnError")(&error);
  if (!error.empty()) {
    EXPECT_NE(error.find("no cuDNN 9 was found"), error.npos);
  }
  EXPECT_EQ(error.find("too old"), error.npos) << error;
  Get<decltype(ChxCudaSolverError)>("ChxCudaSolverError")(&error);
  if (!error.empty()) {
    EXPECT_NE(error.find("no cuSOLVER was found"), error.npos);
  }
  EXPECT_EQ(error.find("too old"), error.npos) << error;
  Get<decltype(ChxCudaNcclError)>("ChxCudaNcclError")(&error);
  if (!error.empty()) {
    EXPECT_NE(error.find("no NCCL 2.18 was found"), error.npos);
  }
  EXPECT_EQ(error.find("too old"), error.npos) << error;
}

// What the real cuDNN makes of sizes, lengths and kinds of networks; they run on a GPU only.
TEST_F(PluginTest, DescribesRecurrentNetworksOrSaysThatCudnnIsMissing) {
  std::string missing;
  Get<decltype(ChxCudaDnnError)>("ChxCudaDnnError")(&missing);
  std::string error;
  Get<decltype(ChxCudaRnnError)>("ChxCudaRnnError")(&error);
  EXPECT_EQ(error, missing);
}

// Without a driver, or without a GPU, the reason; with one, a device that can be opened.
TEST_F(PluginTest, OpensADeviceOrSaysWhyNot) {
  std::string error;
  const auto create = Get<decltype(ChxCreateBackend)>(kBackendEntryPoint);
  const std::unique_ptr<Backend> backend(create(kBackendAbi, &error));
  if (backend == nullptr) {
    EXPECT_TRUE(error.find("no NVIDIA driver") != error.npos ||
                error.find("no GPU can be used") != error.npos)
        << error;
    return;
  }
  EXPECT_EQ(backend->name(), "cuda");
  EXPECT_FALSE(backend->OpenDevice(backend->device_count()).ok());
  Devices devices;
  const absl::Status status = devices.Open("cuda:0", {backend.get()});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace chx::server
