// Ranks on GPUs in host memory, and an NCCL that is there, too.
#ifndef CHX_TESTS_CUDA_NCCL_FIXTURE_H_
#define CHX_TESTS_CUDA_NCCL_FIXTURE_H_

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/cuda/runtime/cuda_backend.h"
#include "server/cuda/testing/fake_cuda.h"
#include "server/cuda/testing/fake_nccl.h"
#include "tests/session/ranks_fixture.h"
#include "tests/session/reduced_models.h"

namespace chx::server::cuda {

// With devices cuda:0 to cuda:3, and native:0 after them. `Base`: RanksTest, or made of it.
template <typename Base>
class OnGpus : public Base {
 protected:
  static constexpr int kGpus = 4;
  static constexpr uint16_t kHost = kGpus;

  OnGpus() : Base("cuda:0,cuda:1,cuda:2,cuda:3,native:0", NewGpus()) {
    fake_.next_init = 0;
    fake_.next_collective = 0;
    fake_.stalls = false;
    fake_.destroyed = fake_.aborted = fake_.parts = 0;
  }
  ~OnGpus() override {
    this->ranks_.clear();
    EXPECT_EQ(fake_.communicators, 0);
  }

  static std::unique_ptr<Backend> NewGpus() {
    for (const char* const library : {"CUBLAS", "CUBLASLT", "CUDNN", "CUSOLVER"}) {
      setenv(absl::StrCat("CHXD_", library).c_str(), "off", 1);
    }
    ResetFakeCuda();
    TheFakeCuda().devices = kGpus;
    std::string error;
    std::unique_ptr<Backend> backend(ChxCreateBackend(kBackendAbi, &error));
    EXPECT_NE(backend, nullptr) << error;
    return backend;
  }
  static FakeNccl& OpenFake() {
    void* const library = dlopen(std::getenv("CHX_FAKE_NCCL"), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    return *reinterpret_cast<ChxFakeNcclFunction*>(dlsym(library, "ChxFakeNccl"))();
  }

  // That group 1 works, and by how many parts of collectives of NCCL.
  void ExpectSums(int parts) {
    const int before = fake_.parts;
    const auto size = static_cast<float>(this->ranks_.size());
    this->All([size](Rank& rank) {
      const auto sum = rank.Read(rank.Call("all_reduce", 1, {rank.New({1, 2})}));
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, Values({size, 2 * size}));
    });
    EXPECT_EQ(fake_.parts - before, parts);
  }

  // The same of a backward pass of each rank that reduces kBuckets buckets meanwhile.
  static constexpr int kBuckets = 3;
  void ExpectMeans(int parts) {
    const int before = fake_.parts;
    const auto size = static_cast<int>(this->ranks_.size());
    this->All([size](Rank& rank) {
      const Model model = ModelOf(rank, 5, static_cast<float>(rank.rank() + 1), {0, 1, 2, 3, 4});
      rank.Do({PassOf(rank, size, model)});
      const float mean = static_cast<float>(size + 1) / 2;
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(GradOf(rank, model.w[i]), Values({mean * static_cast<float>(i + 1)}));
      }
    });
    EXPECT_EQ(fake_.parts - before, parts);
  }

  // That the last rank, which is stopped while devices do not get on, ends that at all ranks.
  void StopLastRank() {
    fake_.aborted = 0;
    fake_.stalls = true;
    const int last = static_cast<int>(this->ranks_.size()) - 1;
    std::thread ending([this] {
      absl::SleepFor(absl::Milliseconds(200));
      this->ranks_.back()->End();
    });
    this->All([last](Rank& rank) {
      const Handle x = rank.New({1});
      const Handle y = rank.Call("all_reduce", 1, {x});
      if (rank.rank() == last) return;
      const std::string error = rank.Error(y);
      const std::string stopped = absl::StrCat("rank ", last, " was stopped in all_reduce");
      EXPECT_TRUE(absl::StrContains(error, stopped)) << error;
      EXPECT_EQ(*rank.Read(x), Values({1}));
    });
    ending.join();
    EXPECT_EQ(fake_.aborted, last + 1);
    fake_.stalls = false;
  }

  FakeNccl& fake_ = OpenFake();
};

class GpuRanksTest : public OnGpus<RanksTest> {
 protected:
  // Group 1, whose rank i has its arrays on devices[i].
  void FormOn(const std::vector<uint16_t>& devices) {
    MakeRanks(static_cast<int>(devices.size()));
    for (size_t i = 0; i < devices.size(); ++i) ranks_[i]->set_device(devices[i]);
    All([](Rank& rank) { EXPECT_EQ(rank.Join(1), absl::OkStatus()); });
  }
  // Each on a GPU of its own.
  void FormOnGpus(int size) {
    std::vector<uint16_t> devices;
    for (int i = 0; i < size; ++i) devices.push_back(static_cast<uint16_t>(i));
    FormOn(devices);
  }
};

}  // namespace chx::server::cuda

#endif  // CHX_TESTS_CUDA_NCCL_FIXTURE_H_
