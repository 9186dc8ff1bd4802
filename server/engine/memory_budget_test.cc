#include "server/engine/memory_budget.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>
#include <vector>

#include "ops/error.h"
#include "server/engine/heap_trimmer.h"
#include "server/engine/host_memory.h"

namespace chx::server {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(MemoryBudgetTest, AccountsTogetherNeverPassTheDaemonsLimit) {
  MemoryBudget budget(100 * kMiB);
  // Their limits together are more than the daemon has.
  const auto a = std::make_shared<MemoryAccount>(60 * kMiB, &budget);
  const auto b = std::make_shared<MemoryAccount>(60 * kMiB, &budget);
  EXPECT_FALSE(a->TryCharge(61 * kMiB, MemoryUse::kArrays));
  EXPECT_TRUE(a->TryCharge(60 * kMiB, MemoryUse::kArrays));
  EXPECT_FALSE(b->TryCharge(41 * kMiB, MemoryUse::kArrays));
  EXPECT_NE(b->Exhausted(41 * kMiB).message().find("the daemon"), std::string::npos);
  EXPECT_NE(a->Exhausted(1).message().find("the session"), std::string::npos);
  EXPECT_EQ(KindOf(a->Exhausted(1)), ErrorKind::kMemory);
  EXPECT_EQ(b->used(), 0);
  EXPECT_TRUE(b->TryCharge(40 * kMiB, MemoryUse::kRecords));
  EXPECT_EQ(budget.used(), 100 * kMiB);
  a->Release(60 * kMiB, MemoryUse::kArrays);
  EXPECT_EQ(budget.used(), 40 * kMiB);
}

TEST(MemoryBudgetTest, MemoryOfOtherDevicesIsNotTheHosts) {
  MemoryBudget budget(kMiB);
  MemoryAccount account(10 * kMiB, &budget);
  EXPECT_TRUE(account.TryCharge(9 * kMiB, MemoryUse::kDeviceArrays));
  EXPECT_EQ(budget.used(), 0);
  EXPECT_FALSE(account.TryCharge(2 * kMiB, MemoryUse::kDeviceArrays));  // the session's limit
  // Copies on their way are not under the session's limit, but under the daemon's.
  EXPECT_TRUE(account.TryCharge(kMiB, MemoryUse::kTransfers));
  EXPECT_EQ(account.used(), 9 * kMiB);
  EXPECT_EQ(account.held(), 10 * kMiB);
  EXPECT_FALSE(account.TryCharge(1, MemoryUse::kTransfers));
}

TEST(MemoryBudgetTest, AnAccountGivesBackWhatIsLeft) {
  MemoryBudget budget(kMiB);
  {
    MemoryAccount account(kMiB, &budget);
    account.TryCharge(1000, MemoryUse::kFixed);
    account.Charge(2 * kMiB, MemoryUse::kRecords);  // cannot be refused
    EXPECT_GT(budget.used(), budget.limit());
    EXPECT_FALSE(account.TryCharge(1, MemoryUse::kRecords));
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudgetTest, AChargeOutlivesItsSession) {
  MemoryBudget budget(kMiB);
  auto account = std::make_shared<MemoryAccount>(kMiB, &budget);
  MemoryCharge charge = *MemoryCharge::Of(account, 1000);
  EXPECT_EQ(MemoryCharge::Of(account, kMiB).status().code(), absl::StatusCode::kResourceExhausted);
  account = nullptr;
  MemoryCharge moved = std::move(charge);
  EXPECT_EQ(budget.used(), 1000);
  moved = MemoryCharge();
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudgetTest, WhatTheProcessReallyHoldsCounts) {
  int64_t resident = 10 * kMiB;
  int trims = 0;
  int64_t after_trim = 95 * kMiB;
  HeapWatch heap;
  heap.resident = [&] { return resident; };
  heap.trim = [&] {
    ++trims;
    resident = after_trim;
    return true;
  };
  MemoryBudget budget(100 * kMiB, heap);
  EXPECT_TRUE(budget.TryCharge(2 * kMiB));
  resident = 99 * kMiB;  // by what no estimate knew of
  EXPECT_TRUE(budget.TryCharge(2 * kMiB));
  EXPECT_EQ(trims, 1);
  after_trim = 99 * kMiB;
  EXPECT_FALSE(budget.TryCharge(6 * kMiB));
  EXPECT_EQ(trims, 2);
  EXPECT_EQ(budget.used(), 4 * kMiB);
}

TEST(MemoryMeterTest, TakesRoomInLargePiecesAndNeverMoreThanThereIs) {
  MemoryBudget budget(kMiB);
  const auto account = std::make_shared<MemoryAccount>(kMiB, &budget);
  {
    MemoryMeter meter(account);
    EXPECT_TRUE(meter.TryCharge(100));
    EXPECT_EQ(account->used(), MemoryMeter::kChunk);
    int64_t charged = 100;
    while (meter.TryCharge(1000)) charged += 1000;
    EXPECT_GT(charged, kMiB - 1000);
    EXPECT_LE(account->used(), kMiB);
    // Released records can be had again, at once.
    meter.Release(1000);
    EXPECT_TRUE(meter.Reserve(1000));
    meter.Charge(1000);
    EXPECT_FALSE(meter.TryCharge(1000));
    meter.Charge(5000);
    EXPECT_GT(account->used(), kMiB);
    meter.Release(charged + 5000);
    EXPECT_LE(account->used(), 2 * MemoryMeter::kChunk);
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryMeterTest, ReclaimsBeforeItRefuses) {
  const auto account = std::make_shared<MemoryAccount>(kMiB);
  account->Charge(kMiB, MemoryUse::kArrays);
  MemoryMeter meter(account);
  EXPECT_FALSE(meter.TryCharge(10));
  meter.set_reclaim([&] {
    account->Release(kMiB / 2, MemoryUse::kArrays);
    return true;
  });
  EXPECT_TRUE(meter.TryCharge(10));
}

TEST(MemoryMeterTest, SessionsOfManyThreadsShareABudget) {
  MemoryBudget budget(10 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      const auto account = std::make_shared<MemoryAccount>(4 * kMiB, &budget);
      MemoryMeter meter(account);
      for (int i = 0; i < 200; ++i) {
        int64_t charged = 0;
        while (meter.TryCharge(30000)) charged += 30000;
        EXPECT_LE(budget.used(), budget.limit());
        meter.Release(charged);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0);
}

TEST(HeapTrimmerTest, ItEndsWhateverItIsDoing) {
  for (int i = 0; i < 20; ++i) {
    HeapTrimmer trimmer;
    trimmer.Freed(3 * kMiB);
    if (i % 2 == 0) trimmer.Freed(3 * kMiB);
    EXPECT_TRUE(i % 2 == 0 || trimmer.Trim());
  }
}

TEST(MemoryBudgetTest, AGuaranteeIsKeptFreeAndServed) {
  MemoryBudget budget(100 * kMiB);
  MemoryAccount a(80 * kMiB, &budget);
  ASSERT_TRUE(a.Guarantee(40 * kMiB));
  EXPECT_EQ(budget.used(), 40 * kMiB);
  MemoryAccount b(80 * kMiB, &budget);
  EXPECT_FALSE(b.Guarantee(61 * kMiB));  // not all could be kept
  EXPECT_TRUE(b.TryCharge(60 * kMiB, MemoryUse::kArrays));
  EXPECT_TRUE(b.beyond_guarantee());
  // The daemon is at its limit; what is guaranteed is there all the same.
  EXPECT_FALSE(b.TryCharge(1, MemoryUse::kRecords));
  EXPECT_TRUE(a.TryCharge(30 * kMiB, MemoryUse::kArrays));
  EXPECT_TRUE(a.TryCharge(10 * kMiB, MemoryUse::kRecords));
  EXPECT_FALSE(a.beyond_guarantee());
  EXPECT_EQ(budget.used(), 100 * kMiB);
  EXPECT_FALSE(a.TryCharge(1, MemoryUse::kRecords));
  // Beyond it comes from what others leave.
  b.Release(20 * kMiB, MemoryUse::kArrays);
  EXPECT_TRUE(a.TryCharge(20 * kMiB, MemoryUse::kArrays));
  EXPECT_TRUE(a.beyond_guarantee());
  a.Release(50 * kMiB, MemoryUse::kArrays);
  EXPECT_EQ(budget.used(), 80 * kMiB);  // 40 guaranteed, 40 of b
}

TEST(MemoryBudgetTest, AnAccountsEndGivesItsGuaranteeBack) {
  MemoryBudget budget(100 * kMiB);
  {
    MemoryAccount account(80 * kMiB, &budget);
    ASSERT_TRUE(account.Guarantee(40 * kMiB));
    ASSERT_TRUE(account.TryCharge(50 * kMiB, MemoryUse::kArrays));
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudgetTest, AGroupsAccountsTogetherNeverPassItsLimit) {
  MemoryBudget budget(100 * kMiB);
  const auto group = std::make_shared<MemoryGroup>("vision", std::vector<std::string>{"native:0"});
  group->host().set_limit(50 * kMiB);
  MemoryAccount a(80 * kMiB, &budget, group);
  MemoryAccount b(80 * kMiB, &budget, group);
  EXPECT_TRUE(a.TryCharge(30 * kMiB, MemoryUse::kArrays));
  EXPECT_FALSE(b.TryCharge(21 * kMiB, MemoryUse::kRecords));
  EXPECT_NE(b.Exhausted(21 * kMiB).message().find("the tenant 'vision'"), std::string::npos);
  EXPECT_EQ(KindOf(b.Exhausted(21 * kMiB)), ErrorKind::kMemory);
  EXPECT_TRUE(b.TryCharge(20 * kMiB, MemoryUse::kTransfers));
  EXPECT_EQ(group->host().used(), 50 * kMiB);
  EXPECT_EQ(budget.used(), 50 * kMiB);
  EXPECT_TRUE(a.TryCharge(30 * kMiB, MemoryUse::kDeviceArrays));  // not the host's
  a.Release(30 * kMiB, MemoryUse::kArrays);
  group->host().set_limit(10 * kMiB);  // less than there is
  EXPECT_FALSE(a.TryCharge(1, MemoryUse::kRecords));
  b.Release(20 * kMiB, MemoryUse::kTransfers);
  EXPECT_TRUE(a.TryCharge(10 * kMiB, MemoryUse::kRecords));
}

TEST(MemoryBudgetTest, ReliefIsAskedForWhomItHelps) {
  MemoryBudget budget(100 * kMiB);
  const auto group = std::make_shared<MemoryGroup>("vision", std::vector<std::string>());
  group->host().set_limit(50 * kMiB);
  std::vector<const MemoryGroup*> asked;
  budget.set_relief([&](const MemoryGroup* of) {
    asked.push_back(of);
    return false;
  });
  MemoryAccount account(60 * kMiB, &budget, group);
  EXPECT_FALSE(account.Relieve(61 * kMiB));  // its own limit
  EXPECT_FALSE(account.Relieve(51 * kMiB));
  EXPECT_FALSE(account.Relieve(50 * kMiB));
  EXPECT_EQ(asked, (std::vector<const MemoryGroup*>{group.get(), nullptr}));
}

TEST(MemoryBudgetTest, GuaranteesAndLimitsHoldWithManyThreads) {
  MemoryBudget budget(64 * kMiB);
  const auto group = std::make_shared<MemoryGroup>("vision", std::vector<std::string>());
  group->host().set_limit(56 * kMiB);
  {
    MemoryAccount account(kMiB * 1024, &budget, group);
    MemoryAccount other(kMiB * 1024, &budget, group);
    ASSERT_TRUE(account.Guarantee(16 * kMiB));
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        MemoryAccount& mine = i % 2 == 0 ? account : other;
        for (int k = 0; k < 20000; ++k) {
          const int64_t bytes = (k * 37 + i) % 12 * kMiB;
          if (!mine.TryCharge(bytes, MemoryUse::kRecords)) continue;
          EXPECT_LE(budget.used(), 64 * kMiB);
          EXPECT_LE(group->host().used(), 56 * kMiB);
          mine.Release(bytes, MemoryUse::kRecords);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(budget.used(), 16 * kMiB);
    EXPECT_EQ(group->host().used(), 0);
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudgetTest, RoomIsLeftForOthers) {
  MemoryBudget budget(64 * kMiB);
  const auto group = std::make_shared<MemoryGroup>("lab", std::vector<std::string>{"gpu:0"});
  MemoryAccount account(1024 * kMiB, &budget, group);
  EXPECT_TRUE(account.LeavesRoom(32 * kMiB, 8));
  EXPECT_FALSE(account.LeavesRoom(33 * kMiB, 8)) << "the same again";
  EXPECT_FALSE(account.LeavesRoom(33 * kMiB, 2)) << "half of it";
  ASSERT_TRUE(account.TryCharge(54 * kMiB, MemoryUse::kAway));
  EXPECT_TRUE(account.LeavesRoom(2 * kMiB, 8));
  EXPECT_FALSE(account.LeavesRoom(3 * kMiB, 8)) << "an eighth";
  EXPECT_EQ(account.held(), 54 * kMiB);
  EXPECT_EQ(group->host().used(), 54 * kMiB);
  group->host().set_limit(56 * kMiB);
  EXPECT_FALSE(account.LeavesRoom(1 * kMiB, 8)) << "an eighth of the tenant's";
  account.Release(54 * kMiB, MemoryUse::kAway);
  EXPECT_EQ(group->host().used(), 0);
  // What is kept for the session alone is nobody else's.
  MemoryAccount sure(1024 * kMiB, &budget);
  ASSERT_TRUE(sure.Guarantee(60 * kMiB));
  EXPECT_TRUE(sure.LeavesRoom(60 * kMiB, 8));
  EXPECT_FALSE(sure.LeavesRoom(61 * kMiB, 8));
}

}  // namespace
}  // namespace chx::server
