#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "server/engine/host_cpus.h"
#include "server/engine/host_memory.h"
#include "server/engine/process_memory.h"

namespace chx::server {
namespace {

constexpr int64_t kMiB = 1 << 20;

class HostLimitsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string whole = root_ + path;
    ASSERT_EQ(std::system(("mkdir -p " + whole.substr(0, whole.rfind('/'))).c_str()), 0);
    std::ofstream(whole) << text;
  }
  const std::string root_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(HostLimitsTest, TheTightestGroupOfVersion2Counts) {
  const int64_t machine = HostMemoryBytes(root_);
  EXPECT_GT(machine, 100 * kMiB);
  Write("/proc/self/cgroup", "0::/system.slice/chxd.service/child\n");
  Write("/sys/fs/cgroup/system.slice/chxd.service/child/memory.max", "max\n");
  EXPECT_EQ(HostMemoryBytes(root_), machine);
  Write("/sys/fs/cgroup/system.slice/chxd.service/memory.max", "52428800\n");
  EXPECT_EQ(HostMemoryBytes(root_), 50 * kMiB);
  Write("/sys/fs/cgroup/system.slice/memory.max", "31457280\n");
  EXPECT_EQ(HostMemoryBytes(root_), 30 * kMiB);
}

TEST_F(HostLimitsTest, AContainersOwnMountCounts) {
  Write("/proc/self/cgroup", "0::/../../elsewhere\n");
  Write("/sys/fs/cgroup/memory.max", "52428800\n");
  EXPECT_EQ(HostMemoryBytes(root_), 50 * kMiB);
}

TEST_F(HostLimitsTest, Version1Counts) {
  Write("/proc/self/cgroup", "9:cpu,cpuacct:/a\n8:memory:/docker/abc\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "52428800\n");
  EXPECT_EQ(HostMemoryBytes(root_), 50 * kMiB);
}

TEST(DefaultMemoryTest, LeavesAReserve) {
  EXPECT_EQ(DefaultMemoryLimit(10000 * kMiB), 8744 * kMiB);
  EXPECT_GT(DefaultMemoryLimit(100 * kMiB), 70 * kMiB);
  EXPECT_GT(HeldProcessBytes(), kMiB / 8);
}

TEST_F(HostLimitsTest, TheTightestCpuQuotaCounts) {
  const int machine = HostCpus(root_);
  EXPECT_GE(machine, 1);
  Write("/proc/self/cgroup", "0::/kubepods.slice/pod\n");
  Write("/sys/fs/cgroup/kubepods.slice/pod/cpu.max", "max 100000\n");
  EXPECT_EQ(HostCpus(root_), machine);
  Write("/sys/fs/cgroup/kubepods.slice/cpu.max", "100000000 100000\n");  // 1000 cores
  EXPECT_EQ(HostCpus(root_), machine);
  Write("/sys/fs/cgroup/kubepods.slice/pod/cpu.max", "50000 100000\n");
  EXPECT_EQ(HostCpus(root_), 1);
}

TEST_F(HostLimitsTest, CpuQuotasAreRoundedUp) {
  if (HostCpus(root_) < 2) GTEST_SKIP() << "this machine has one core";
  Write("/sys/fs/cgroup/cpu.max", "100001 100000\n");
  EXPECT_EQ(HostCpus(root_), 2);
  Write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(HostCpus(root_), 1);
}

TEST_F(HostLimitsTest, CpuQuotasOfVersion1Count) {
  Write("/proc/self/cgroup", "9:cpu,cpuacct:/docker/abc\n");
  const int machine = HostCpus(root_);
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(HostCpus(root_), machine);
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "30000\n");
  EXPECT_EQ(HostCpus(root_), 1);
}

}  // namespace
}  // namespace chx::server
