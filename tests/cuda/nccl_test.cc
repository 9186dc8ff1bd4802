// Collectives between GPUs by NCCL: on fakes, what the daemon does with it.
#include <cstring>

#include "absl/strings/match.h"
#include "server/collectives/device_exchange.h"
#include "tests/cuda/nccl_fixture.h"

namespace chx::server::cuda {
namespace {

using absl::StrContains;

// An array of bytes of any dtype.
Handle NewOf(Rank& rank, Dtype dtype, const std::vector<uint8_t>& bytes) {
  command::Upload upload;
  upload.result = rank.NewHandle();
  upload.dtype = dtype;
  upload.device = rank.device();
  upload.shape = {static_cast<int64_t>(bytes.size()) / ItemSize(dtype)};
  upload.data = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  rank.Do({upload});
  return upload.result;
}

// Small numbers of the dtype, which all reductions compute exactly.
template <typename T>
std::vector<uint8_t> BytesOf(std::vector<T> values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::vector<uint8_t> Numbers(Dtype dtype, int rank) {
  const auto a = static_cast<int8_t>(rank + 1);
  switch (dtype) {
    case Dtype::kBool:
      return {static_cast<uint8_t>(rank % 2), 0, 1};
    case Dtype::kInt16:
      return BytesOf<int16_t>({a, -2, 300});
    case Dtype::kInt32:
      return BytesOf<int32_t>({a, -2, 300});
    case Dtype::kInt64:
      return BytesOf<int64_t>({a, -2, int64_t{1} << 20});
    case Dtype::kFloat16:
      return BytesOf<uint16_t>({0x3c00, 0xc000, 0x4400});  // 1, -2, 4
    case Dtype::kBfloat16:
      return BytesOf<uint16_t>({0x3f80, 0xc000, 0x4080});  // the same
    case Dtype::kFloat32:
      return BytesOf<float>({static_cast<float>(a), -2, 0.5F});
    case Dtype::kFloat64:
      return BytesOf<double>({static_cast<double>(a), -2, 0.5});
    case Dtype::kInt8:
    case Dtype::kUint8:
      break;
  }
  return {static_cast<uint8_t>(a), 2, 200};
}

class NcclTest : public GpuRanksTest {};

TEST_F(NcclTest, EachGivesWhatItSays) {
  for (const int size : {1, 2, 3, 4}) {
    fake_.parts = 0;
    FormOnGpus(size);
    All([size](Rank& rank) { CheckEachCollective(rank, size); });
    // All but those of floats' max and min, and of arrays without elements.
    EXPECT_EQ(fake_.parts, 10 * size);
    EXPECT_EQ(fake_.communicators, size);
  }
}

TEST_F(NcclTest, ReductionsGiveWhatTheHostGives) {
  constexpr int kSize = 2;
  for (int number = 0; number < kNumDtypes; ++number) {
    const auto dtype = static_cast<Dtype>(number);
    if (dtype == Dtype::kFloat16) continue;  // which the fake does not have
    for (int64_t reduction = 0; reduction < 5; ++reduction) {
      const bool compares = reduction == 2 || reduction == 3;
      if (dtype == Dtype::kBool && !compares) continue;
      std::string results[2][kSize];
      for (const bool on_gpus : {false, true}) {
        if (on_gpus) {
          FormOnGpus(kSize);
        } else {
          FormOn(std::vector<uint16_t>(kSize, kHost));
        }
        fake_.parts = 0;
        All([&](Rank& rank) {
          const Handle x = NewOf(rank, dtype, Numbers(dtype, rank.rank()));
          const auto y = rank.session().ReadArray(rank.Call("all_reduce", 1, {x}, {reduction}));
          ASSERT_TRUE(y.ok()) << y.status();
          results[on_gpus ? 1 : 0][rank.rank()] = y->data;
        });
        const bool by_nccl = compares ? !IsFloat(dtype) && dtype != Dtype::kInt16
                                      : dtype != Dtype::kInt16 || reduction == 1;
        EXPECT_EQ(fake_.parts, on_gpus && by_nccl ? kSize : 0)
            << DtypeName(dtype) << " " << reduction;
      }
      for (int rank = 0; rank < kSize; ++rank) {
        EXPECT_EQ(results[0][rank], results[1][rank]) << DtypeName(dtype) << " " << reduction;
      }
    }
  }
}

TEST_F(NcclTest, RanksThatDifferAllLearnHow) {
  FormOnGpus(2);
  All([](Rank& rank) {
    rank.set_line(absl::StrCat("train.py:", rank.rank() + 10));
    const Handle x = rank.New(rank.rank() == 1 ? Values{1, 2} : Values{1});
    const std::string shapes = rank.Error(rank.Call("all_reduce", 1, {x}));
    EXPECT_TRUE(
        StrContains(shapes, "all_reduce(float32(2,), reduction=sum) at rank 1 (train.py:11)"))
        << shapes;
    const std::string operators =
        rank.Error(rank.Call(rank.rank() == 1 ? "all_gather" : "all_reduce", 1, {rank.New({1})}));
    EXPECT_TRUE(StrContains(operators, "all_gather(float32(1,)) at rank 1 (train.py:11)"))
        << operators;
    Handle bad = rank.New({1});
    if (rank.rank() == 1) bad = rank.Call("matmul", 0, {bad, rank.New({1, 2})});  // wrong shapes
    const std::string error = rank.Error(rank.Call("all_reduce", 1, {bad}));
    EXPECT_TRUE(StrContains(error, "[matmul]")) << error;
  });
  EXPECT_EQ(fake_.parts, 0);
  ExpectSums(2);
}

// All ranks have to come to the same decision, in each call.
TEST_F(NcclTest, ArraysThatAreElsewherePassThroughTheHost) {
  FormOnGpus(2);
  ranks_[1]->set_device(kHost);
  ExpectSums(0);
  EXPECT_EQ(fake_.communicators, 0);
  ranks_[1]->set_device(1);
  ExpectSums(2);
  ranks_[1]->set_device(2);
  ExpectSums(0);
  ranks_[0]->set_device(kHost);
  ExpectSums(0);
  ranks_[0]->set_device(0);
  ranks_[1]->set_device(1);
  ExpectSums(2);
}

TEST_F(NcclTest, RanksOnOneGpuPassThroughTheHost) {
  FormOn({1, 1});
  ExpectSums(0);
  ranks_[0]->set_device(0);
  ExpectSums(2);
  ranks_[0]->set_device(1);
  ExpectSums(0);
  TheFakeCuda().one_gpu = true;  // known to CUDA as two devices
  std::string error;
  std::unique_ptr<Backend> twice(ChxCreateBackend(kBackendAbi, &error));
  Devices devices;
  ASSERT_TRUE(devices.Open("cuda:0,cuda:1,native:0", {twice.get(), backend_.get()}).ok());
  ranks_.clear();
  for (int i = 0; i < 2; ++i) {
    ranks_.push_back(std::make_unique<Rank>(&devices, groups_.get(), limits_, "lab", i, 2));
    ranks_.back()->set_device(static_cast<uint16_t>(i));
  }
  All([](Rank& rank) { EXPECT_EQ(rank.Join(1), absl::OkStatus()); });
  ExpectSums(0);
  ranks_.clear();
}

TEST_F(NcclTest, WithoutACommunicatorArraysPassThroughTheHost) {
  fake_.next_init = 1;
  FormOnGpus(2);
  ExpectSums(0);
  EXPECT_EQ(fake_.communicators, 0);
  ExpectSums(0);  // it is not tried again
  FormOnGpus(2);
  ExpectSums(2);
}

TEST_F(NcclTest, AnErrorOfNcclBreaksTheGroup) {
  FormOnGpus(2);
  ExpectSums(2);
  fake_.next_collective = 1;
  All([](Rank& rank) {
    const Handle x = rank.New({1});
    const std::string error = rank.Error(rank.Call("all_reduce", 1, {x}));
    EXPECT_TRUE(StrContains(error, "has failed: cuda: all_reduce: a fake result")) << error;
    EXPECT_EQ(*rank.Read(x), Values({1}));
  });
  EXPECT_EQ(fake_.aborted, 2);
  FormOnGpus(2);
  ExpectSums(2);
}

TEST_F(NcclTest, ARankThatIsStoppedEndsWhatHasBegun) {
  for (const bool connected : {false, true}) {
    FormOnGpus(3);
    if (connected) ExpectSums(3);
    StopLastRank();
    FormOnGpus(2);
    ExpectSums(2);
  }
}

TEST_F(NcclTest, WhatDoesNotBeginEndsInTime) {
  UseTimeout(std::chrono::milliseconds(200));
  for (const bool connected : {false, true}) {
    FormOnGpus(2);
    if (connected) ExpectSums(2);
    fake_.stalls = true;
    All([](Rank& rank) {
      const std::string error = rank.Error(rank.Call("all_reduce", 1, {rank.New({1})}));
      EXPECT_TRUE(StrContains(error, "the ranks' devices did not finish all_reduce within 200ms"))
          << error;
    });
    fake_.stalls = false;
  }
}

TEST_F(NcclTest, ARankThatDoesNotComeOrLeavesIsNamed) {
  UseTimeout(std::chrono::milliseconds(200));
  FormOnGpus(3);
  ExpectSums(3);
  All([](Rank& rank) {
    if (rank.rank() == 1) return;
    const Handle y = rank.Call("all_gather", 1, {rank.New({1})});
    EXPECT_TRUE(StrContains(rank.Error(y), "rank 1 did not come to all_gather within 200ms"))
        << rank.Error(y);
  });
  UseTimeout(std::chrono::seconds(30));
  FormOnGpus(2);
  ExpectSums(2);
  // Its result is the other rank's to read, whatever becomes of it.
  const Handle x = ranks_[0]->New({1});
  Handle y = 0;
  std::thread other([&] { ranks_[1]->Call("all_reduce", 1, {ranks_[1]->New({2})}); });
  y = ranks_[0]->Call("all_reduce", 1, {x});
  other.join();
  ranks_.pop_back();
  EXPECT_EQ(*ranks_[0]->Read(y), Values({3}));
  const Handle z = ranks_[0]->Call("all_reduce", 1, {x});
  EXPECT_TRUE(StrContains(ranks_[0]->Error(z), "rank 1 has left")) << ranks_[0]->Error(z);
}

// What is the same device for all groups is bounded.
TEST_F(NcclTest, OnlySoManyGroupsHaveCommunicators) {
  MakeRanks(1);
  Rank& rank = *ranks_[0];
  const auto sum = [&rank](int64_t group) {
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", group, {rank.New({1})})), Values({1}));
  };
  constexpr int kMost = DeviceExchange::kMostCommunicators;
  for (int64_t group = 1; group <= kMost + 1; ++group) {
    EXPECT_EQ(rank.Join(group, absl::StrCat("g", group)), absl::OkStatus());
    sum(group);
  }
  EXPECT_EQ(fake_.communicators, kMost);
  EXPECT_EQ(fake_.parts, kMost);
  rank.Do({command::LeaveGroup{1}});
  EXPECT_EQ(fake_.communicators, kMost - 1);
  EXPECT_EQ(rank.Join(100, "more"), absl::OkStatus());
  sum(100);
  EXPECT_EQ(fake_.communicators, kMost);
}

// Anybody could connect to NCCL's sockets elsewhere.
TEST_F(NcclTest, SocketsAreTheHostsOwn) { EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "lo"); }

TEST_F(NcclTest, BackwardPassesMeetToo) {
  FormOnGpus(2);
  All([](Rank& rank) { CheckBackward(rank); });
  EXPECT_EQ(fake_.parts, 4);
}

}  // namespace
}  // namespace chx::server::cuda
