#include "server/cuda/kernels/register_kernels.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace chx::server::cuda {
namespace {

TEST(AllKernels, HasEveryOperator) {
  EXPECT_EQ(AllKernels().Missing(), std::vector<std::string>());
}

}  // namespace
}  // namespace chx::server::cuda
