#include "server/observability/metrics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/registry.h"

namespace chx::server {
namespace {

SessionCountersPtr Opened(Metrics* metrics, const std::string& tenant) {
  SessionCountersPtr counters = metrics->Open({tenant, "local"});
  counters->opened.Add();
  return counters;
}

OpId IdOf(const char* op) { return OpRegistry::Global().Find(op)->id; }

const SessionCounters& Of(const std::map<SessionLabels, std::unique_ptr<SessionCounters>>& sums,
                          const std::string& tenant) {
  return *sums.at({tenant, "local"});
}

TEST(OpGroups, AllOperatorsHaveTheirs) {
  const OpGroups& groups = OpGroups::Global();
  EXPECT_LT(groups.size(), OpGroups::kMax) << "groups would share a number";
  for (const auto& op : OpRegistry::Global().ops()) {
    EXPECT_EQ(groups.name(groups.GroupOf(op->id)), op->group) << op->name;
  }
}

TEST(KernelTimer, CountsEachAndMeasuresLargeOnes) {
  DeviceCounters counters;
  for (int i = 0; i < 100; ++i) const KernelTimer timer(&counters, IdOf("exp"), 8);
  const KernelTimer none(nullptr, IdOf("exp"), 8);
  const DeviceCounters::Group& math = counters.groups[OpGroups::Global().GroupOf(IdOf("exp"))];
  EXPECT_EQ(math.kernels.value(), 100);
  const int64_t before = math.nanoseconds.value();
  {
    const KernelTimer timer(&counters, IdOf("exp"), KernelTimer::kLargeBytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_GE(math.nanoseconds.value() - before, 2000000) << "each large one is measured";
}

// What is measured stands for what is not.
TEST(KernelTimer, TimeOfSmallOnesIsRightOnAverage) {
  DeviceCounters counters;
  constexpr int kKernels = 640;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kKernels; ++i) {
    const KernelTimer timer(&counters, IdOf("exp"), 8);
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - began;
  const int64_t estimate =
      counters.groups[OpGroups::Global().GroupOf(IdOf("exp"))].nanoseconds.value();
  // The clock was read for them, and no more than one in ten was measured: with this seed the gaps
  // are always the same.
  EXPECT_GT(estimate, kKernels * int64_t{20000} / 2);
  EXPECT_LT(estimate, 16 * taken.count());
}

TEST(Metrics, EndedSessionsStayInTheSums) {
  const auto metrics = std::make_shared<Metrics>(2);
  SessionCountersPtr a = Opened(metrics.get(), "vision");
  SessionCountersPtr b = Opened(metrics.get(), "vision");
  const SessionCountersPtr other = Opened(metrics.get(), "audio");
  a->commands.Add(3);
  b->commands.Add(4);
  other->commands.Add(5);
  a->devices[1].groups[2].kernels.Add(7);
  a->devices[1].live_bytes.Add(100);
  a->sent(Way::kShared).Add(11);
  a->errors[static_cast<int>(ErrorKind::kMemory)].Add();
  EXPECT_EQ(Of(metrics->Sum(), "vision").commands.value(), 7);
  EXPECT_EQ(Of(metrics->Sum(), "vision").devices[1].live_bytes.value(), 100);
  a->devices[1].live_bytes.Add(-100);
  a = nullptr;
  b = nullptr;
  const auto sums = metrics->Sum();
  EXPECT_EQ(Of(sums, "vision").commands.value(), 7);
  EXPECT_EQ(Of(sums, "vision").opened.value(), 2);
  EXPECT_EQ(Of(sums, "vision").devices[1].groups[2].kernels.value(), 7);
  EXPECT_EQ(Of(sums, "vision").devices[1].live_bytes.value(), 0);
  EXPECT_EQ(Of(sums, "vision").sent_bytes[static_cast<int>(Way::kShared)].value(), 11);
  EXPECT_EQ(Of(sums, "vision").errors[static_cast<int>(ErrorKind::kMemory)].value(), 1);
  EXPECT_EQ(Of(sums, "audio").commands.value(), 5);
}

TEST(Metrics, TenantsAreBounded) {
  const auto metrics = std::make_shared<Metrics>(1);
  std::vector<SessionCountersPtr> sessions;
  for (size_t i = 0; i < 2 * Metrics::kMaxTenants; ++i) {
    sessions.push_back(Opened(metrics.get(), absl::StrCat("tenant", i)));
  }
  const auto sums = metrics->Sum();
  EXPECT_EQ(sums.size(), Metrics::kMaxTenants + 1);
  EXPECT_EQ(Of(sums, "other").opened.value(), static_cast<int64_t>(Metrics::kMaxTenants));
}

TEST(Metrics, CountersOutliveIt) {
  auto metrics = std::make_shared<Metrics>(1);
  const SessionCountersPtr counters = Opened(metrics.get(), "a");
  metrics = nullptr;
  counters->commands.Add();
  EXPECT_EQ(counters->commands.value(), 1);
}

// Sums never go back, whatever begins, counts and ends meanwhile.
TEST(Metrics, SumsGrowBesideSessions) {
  const auto metrics = std::make_shared<Metrics>(1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> sessions;
  for (int i = 0; i < 3; ++i) {
    sessions.emplace_back([&] {
      while (!stop) {
        const SessionCountersPtr counters = Opened(metrics.get(), "a");
        for (int k = 0; k < 100; ++k) counters->commands.Add();
      }
    });
  }
  int64_t last = 0;
  for (int64_t opened = 0; opened < 300;) {
    const auto sums = metrics->Sum();
    if (sums.empty()) continue;
    const int64_t now = Of(sums, "a").commands.value();
    EXPECT_GE(now, last);
    last = now;
    opened = Of(sums, "a").opened.value();
  }
  stop = true;
  for (std::thread& thread : sessions) thread.join();
  const auto sums = metrics->Sum();
  EXPECT_EQ(Of(sums, "a").commands.value(), 100 * Of(sums, "a").opened.value());
}

TEST(Metrics, SlowCommandsAreTheLastOnes) {
  const auto metrics = std::make_shared<Metrics>(1);
  for (uint64_t i = 0; i < Metrics::kMaxSlowCommands + 5; ++i) {
    SlowCommand command;
    command.session = i;
    metrics->AddSlow(std::move(command));
  }
  const std::vector<SlowCommand> slow = metrics->SlowCommands();
  ASSERT_EQ(slow.size(), Metrics::kMaxSlowCommands);
  EXPECT_EQ(slow.front().session, Metrics::kMaxSlowCommands + 4);
}

}  // namespace
}  // namespace chx::server
