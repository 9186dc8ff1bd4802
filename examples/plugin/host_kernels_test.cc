#include <string>

#include "gtest/gtest.h"
#include "ops/registry.h"
#include "server/engine/host_plugin.h"

namespace chx::server {
namespace {

absl::Status First(const KernelArgs&) { return absl::OkStatus(); }
absl::Status Second(const KernelArgs&) { return absl::OkStatus(); }

TEST(HostKernels, ReplacesWhatWasThere) {
  KernelTable table;
  table.Set("relu", First);
  table.Set("exp", First);
  HostKernels kernels(&table);
  EXPECT_EQ(kernels.Find("relu"), &First);
  EXPECT_TRUE(kernels.Set("relu", Second).ok());
  EXPECT_EQ(kernels.Find("relu"), &Second);
  EXPECT_EQ(table.Find(*OpRegistry::Global().Find("relu")), &Second);
  EXPECT_EQ(kernels.Find("exp"), &First);
}

TEST(HostKernels, SaysWhatHasNoKernel) {
  KernelTable table;
  HostKernels kernels(&table);
  EXPECT_EQ(kernels.Find("rellu"), nullptr);
  const auto says = [&](const char* op, Kernel kernel) {
    return std::string(kernels.Set(op, kernel).message());
  };
  EXPECT_EQ(says("rellu", First), "there is no operator 'rellu'");
  EXPECT_EQ(says("add_", First), "'add_' runs by the kernel of 'add'");
  EXPECT_EQ(says("reshape", First), "'reshape' runs without a kernel");
  EXPECT_EQ(says("zeros", First), "'zeros' runs without a kernel");
  EXPECT_EQ(says("relu", nullptr), "'relu' needs a kernel");
}

}  // namespace
}  // namespace chx::server
