// Index arithmetic and launch configurations, which need no GPU.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/loops/reduce_plan.h"
#include "server/cuda/loops/rows.h"
#include "server/cuda/loops/thread_groups.h"

namespace chx::server::cuda {
namespace {

KernelTensor Dense(const Shape& shape) {
  KernelTensor tensor;
  tensor.shape = shape;
  tensor.strides = ContiguousStrides(shape, 4);
  return tensor;
}

TEST(Divider, DividesAtTheEndsOfItsRange) {
  std::mt19937_64 rng(7);
  std::vector<int64_t> divisors = {1,          2,
                                   3,          5,
                                   7,          641,
                                   65535,      65536,
                                   65537,      (1 << 30) - 1,
                                   1 << 30,    (1 << 30) + 1,
                                   2147483646, 2147483647};
  for (int i = 0; i < 200; ++i)
    divisors.push_back(static_cast<int64_t>(rng() >> (33 + i % 30)) + 1);
  for (const int64_t d : divisors) {
    const Divider narrow(d, int64_t{1} << 31);
    std::vector<int64_t> dividends = {0, 1, d - 1, d, d + 1, 2147483647, 2147483646};
    const int64_t largest = 2147483647 / d * d;
    dividends.push_back(largest);
    dividends.push_back(largest - 1);
    for (int i = 0; i < 200; ++i) dividends.push_back(static_cast<int64_t>(rng() >> 33));
    for (const int64_t n : dividends) {
      if (n < 0 || n > 2147483647) continue;
      ASSERT_EQ(narrow.Quotient(n), n / d) << n << " / " << d;
    }
    const Divider wide(d, int64_t{1} << 40);
    for (const int64_t n : {int64_t{1} << 39, (int64_t{1} << 31), (int64_t{1} << 40) - 1}) {
      ASSERT_EQ(wide.Quotient(n), n / d) << n << " / " << d;
    }
  }
}

TEST(DeviceNest, AgreesWithLoopNest) {
  kernels::LoopNest<2> nest;
  nest.Append(3, {4, 1000});
  nest.Append(1, {8, 8});
  nest.Append(5, {-100, 0});
  nest.Append(7, {12, 40});
  const DeviceNest<2> device(nest);
  ASSERT_EQ(device.size(), 105);
  for (int64_t i = 0; i < 105; ++i) {
    int64_t expected[2];
    int64_t got[2];
    nest.Offsets(i, expected);
    device.Offsets(i, got);
    EXPECT_EQ(got[0], expected[0]);
    EXPECT_EQ(got[1], expected[1]);
  }
}

TEST(DeviceNest, BeyondThirtyTwoBits) {
  kernels::LoopNest<1> nest;
  nest.Append(3, {1});
  nest.Append(int64_t{1} << 33, {16});
  const DeviceNest<1> device(nest);
  const int64_t last = 3 * (int64_t{1} << 33) - 1;
  EXPECT_EQ(device.Offset(last), nest.Offset(0, last));
}

TEST(ThreadGroups, GroupAndRankIdentifyAThread) {
  for (const bool by_columns : {false, true}) {
    for (int count = 1; count <= kThreads; count *= 2) {
      const ThreadGroups groups(count, by_columns);
      std::set<std::pair<int, int>> seen;
      for (int thread = 0; thread < kThreads; ++thread) {
        const int rank = groups.RankOf(thread);
        const int group = groups.GroupOf(thread);
        ASSERT_LT(rank, count);
        ASSERT_LT(group, groups.count());
        seen.insert({group, rank});
        EXPECT_EQ(groups.GroupOf(groups.First(thread)), group);
        EXPECT_EQ(groups.RankOf(groups.First(thread)), 0);
        for (int step = count / 2; step > 0; step /= 2) {
          if (rank >= step) continue;
          EXPECT_EQ(groups.RankOf(groups.Ahead(thread, step)), rank + step);
          EXPECT_EQ(groups.GroupOf(groups.Ahead(thread, step)), group);
          if (groups.WithinWarp(step)) {
            EXPECT_EQ(groups.Ahead(thread, step) / kWarp, thread / kWarp);
            EXPECT_EQ(groups.First(thread) / kWarp, thread / kWarp);
          }
        }
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(kThreads));
    }
  }
}

void ExpectCovers(const ReducePlan& plan) {
  EXPECT_GE(plan.splits, 1);
  EXPECT_GE(plan.splits * plan.split_size, plan.reduced.size);
  EXPECT_GE(plan.blocks_per_split * plan.groups.count(), plan.kept.size);
  EXPECT_LT((plan.blocks_per_split - 1) * plan.groups.count(), plan.kept.size);
}

TEST(ReducePlan, FullSumIsSplit) {
  const ReducePlan plan = PlanReduce(Dense({1 << 12, 1 << 12}), 3, false);
  ExpectCovers(plan);
  EXPECT_EQ(plan.reduced.ndim, 1);
  EXPECT_EQ(plan.groups.size(), kThreads);
  EXPECT_TRUE(plan.packed);
  EXPECT_EQ(plan.splits, 512);
  ExpectCovers(PlanCombine(plan.kept.size, plan.splits, 8));
}

TEST(ReducePlan, RowsAreReadAlongRows) {
  const ReducePlan plan = PlanReduce(Dense({100000, 10}), 2, false);
  ExpectCovers(plan);
  EXPECT_EQ(plan.groups.size(), 16);
  EXPECT_EQ(plan.groups.Ahead(0, 1), 1);
  EXPECT_EQ(plan.splits, 1);
}

TEST(ReducePlan, SplitsOfPacksBeginWithOne) {
  for (int64_t size = 4000; size < 5000000; size = size * 3 / 2 + 1) {
    const ReducePlan plan = PlanReduce(Dense({size}), 1, false);
    ExpectCovers(plan);
    EXPECT_TRUE(plan.packed);
    EXPECT_EQ(plan.split_size % 4, 0) << size;
  }
  EXPECT_TRUE(PlanReduce(Dense({100, 64}), 2, false).packed);
  EXPECT_FALSE(PlanReduce(Dense({100, 63}), 2, false).packed);  // rows are not aligned
}

TEST(ReducePlan, ColumnsAreReadAcross) {
  const ReducePlan plan = PlanReduce(Dense({10000, 256}), 1, false);
  ExpectCovers(plan);
  EXPECT_EQ(plan.groups.GroupOf(1), 1);  // the next thread has the next column
  EXPECT_GT(plan.splits, 1);
}

TEST(ReducePlan, OfNothing) {
  const ReducePlan plan = PlanReduce(Dense({4, 0}), 2, false);
  ExpectCovers(plan);
  EXPECT_EQ(plan.splits, 1);
  EXPECT_EQ(plan.reduced.size, 0);
}

// Has launches of at most 100 units of work.
class PausingStream : public KernelStream {
 public:
  Device& device() override { std::abort(); }
  absl::Status CopyIn(void*, const void*, size_t) override { return absl::OkStatus(); }
  absl::Status CopyOut(void*, const void*, size_t) override { return absl::OkStatus(); }
  absl::Status Zero(void*, size_t) override { return absl::OkStatus(); }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  void* handle() override { return nullptr; }
  absl::Status Launched() override { return absl::OkStatus(); }
  absl::Status Outcome(absl::string_view, int) override { return absl::OkStatus(); }
  absl::StatusOr<bool> IsDone() override { return true; }
  bool MakeRoom() override { return false; }
  Finding* finding() override { return nullptr; }
  absl::Status Gemm(const KernelArgs&, const GemmCall&) override { return absl::OkStatus(); }
  absl::StatusOr<bool> GemmWithBias(const KernelArgs&, const GemmCall&) override { return false; }
  Dnn* dnn() override { return nullptr; }
  Solver* solver() override { return nullptr; }
  int64_t max_launch_elements() const override { return 100; }
  absl::Status Pause() override {
    ++pauses;
    return pauses < stop_at ? absl::OkStatus() : absl::CancelledError("stopped");
  }

  int pauses = 0;
  int stop_at = 1000;
};

class NoScratch : public ScratchAllocator {
 public:
  absl::StatusOr<void*> Allocate(size_t) override { return absl::UnimplementedError("none"); }
};

struct CountCalls {
  std::vector<int>* calls;
  void operator()(int64_t i) const { ++(*calls)[i]; }
};

// Between two launches a command can be stopped, however much each element takes.
TEST(ForEach, CostlyElementsAreLaunchedInParts) {
  const OpDef op;
  for (const int64_t cost : {int64_t{0}, int64_t{1}, int64_t{30}, int64_t{100}, INT64_MAX}) {
    PausingStream stream;
    NoScratch scratch;
    const KernelArgs args{op, stream, scratch, {}, {}, {}};
    std::vector<int> calls(250);
    ASSERT_TRUE(ForEach(args, 250, CountCalls{&calls}, cost).ok());
    EXPECT_EQ(calls, std::vector<int>(250, 1)) << cost;
    EXPECT_EQ(stream.pauses, cost <= 1 ? 2 : cost == 30 ? 83 : 249) << cost;
    stream = PausingStream();
    stream.stop_at = 1;
    std::vector<int> begun(250);
    EXPECT_FALSE(ForEach(args, 250, CountCalls{&begun}, cost).ok());
    EXPECT_EQ(begun.back(), 0) << cost;
  }
}

// Adds up the numbers of a row's elements, and counts which thread has which.
template <typename Loop>
struct CountItems {
  using Acc = int64_t;
  struct Held {};
  Loop loop;
  std::vector<int>* calls;
  std::vector<int64_t>* sums;

  static Acc Combine(Acc a, Acc b) { return a + b; }
  Acc Gather(int64_t row, int rank, Held*) const {
    Acc sum = 0;
    for (int begin = 0; begin < loop.n(); begin = loop.Next(begin)) {
      loop.ForPacks(begin, rank, [&](int i, int at) {
        EXPECT_EQ(i % Loop::kPack, 0);
        EXPECT_EQ(at % Loop::kPack, 0);
        for (int j = at; j < at + Loop::kPack; ++j) {
          ++(*calls)[row * loop.n() + j];
          sum += j;
        }
      });
    }
    return sum;
  }
  void Finish(int64_t row, int, Held*, Acc sum) const { (*sums)[row] = sum; }
};

TEST(ForEachRow, ThreadsShareRows) {
  const OpDef op;
  constexpr int64_t kRows = 3;
  for (const int64_t n :
       {1, 3, 4, 10, 32, 64, 500, 1000, 2048, 2049, 4096, 4100, 8192, 8196, 20000}) {
    for (const uintptr_t address : {0, 4}) {
      PausingStream stream;
      NoScratch scratch;
      const KernelArgs args{op, stream, scratch, {}, {}, {}};
      std::vector<int> calls(kRows * n);
      std::vector<int64_t> sums(kRows);
      const auto run = [&](auto loop) {
        using Loop = decltype(loop);
        EXPECT_EQ(Loop::kPack, n % 4 == 0 && address == 0 ? 4 : 1) << n;
        EXPECT_EQ(Loop::kWhole, n <= kThreads * (Loop::kPack == 4 ? 32 : 8)) << n;
        EXPECT_EQ(loop.threads() * loop.rows(), kThreads);
        return ForEachRow(args, kRows, CountItems<Loop>{loop, &calls, &sums});
      };
      ASSERT_TRUE((VisitRowLoop<float, 32>(n, {reinterpret_cast<const void*>(address)}, run)).ok());
      EXPECT_EQ(calls, std::vector<int>(kRows * n, 1)) << n;
      EXPECT_EQ(sums, std::vector<int64_t>(kRows, n * (n - 1) / 2)) << n;
      EXPECT_EQ(stream.pauses, (kRows - 1) / std::max<int64_t>(1, 100 / n)) << n;
    }
  }
}

}  // namespace
}  // namespace chx::server::cuda
