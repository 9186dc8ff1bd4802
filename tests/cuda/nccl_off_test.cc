// Ranks on GPUs where there is no NCCL.
#include "tests/cuda/nccl_fixture.h"

namespace chx::server::cuda {
namespace {

class NcclOffTest : public GpuRanksTest {};

TEST_F(NcclOffTest, ArraysPassThroughTheHost) {
  FormOnGpus(3);
  All([](Rank& rank) { CheckEachCollective(rank, 3); });
  ExpectSums(0);
  ExpectMeans(0);
}

}  // namespace
}  // namespace chx::server::cuda
