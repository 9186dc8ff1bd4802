// The base of tests that compare the results of two devices for random inputs.
#ifndef CHX_TESTS_CUDA_TWO_DEVICES_TEST_H_
#define CHX_TESTS_CUDA_TWO_DEVICES_TEST_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/engine/executor.h"

namespace chx::server {

// Device 0 of each backend. CHX_TEST_SEED repeats a run.
class TwoDevicesTest : public testing::Test {
 protected:
  TwoDevicesTest(std::unique_ptr<Backend> first, std::unique_ptr<Backend> second)
      : first_(std::move(first)), second_(std::move(second)) {
    const char* const given = std::getenv("CHX_TEST_SEED");
    const uint64_t seed =
        given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    RecordProperty("seed", std::to_string(seed));
    std::printf("CHX_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    rng_.seed(seed);
    const absl::Status status = devices_.Open(first_->name() + ":0," + second_->name() + ":0",
                                              {first_.get(), second_.get()});
    EXPECT_TRUE(status.ok()) << status;
    executor_ =
        std::make_unique<Executor>(&devices_, std::make_shared<MemoryAccount>(int64_t{1} << 30));
  }

  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng_);
  }

  std::mt19937_64 rng_;
  const std::unique_ptr<Backend> first_;
  const std::unique_ptr<Backend> second_;
  Devices devices_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_CUDA_TWO_DEVICES_TEST_H_
