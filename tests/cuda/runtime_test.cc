// Streams and devices on a CUDA runtime and a cuBLAS that compute nothing and fail when they are
// asked to. What a GPU does is not seen here.
#include <dlfcn.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ops/registry.h"
#include "server/cuda/runtime/cuda_backend.h"
#include "server/cuda/runtime/pinned_ranges.h"
#include "server/cuda/testing/fake_cublas.h"
#include "server/cuda/testing/fake_cuda.h"
#include "server/engine/executor.h"
#include "server/engine/turn_queue.h"

namespace chx::server::cuda {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class RuntimeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* const path = std::getenv("CHX_FAKE_CUBLAS");
    setenv("CHXD_CUBLAS", path, 1);
    setenv("CHXD_CUBLASLT", path, 1);
    setenv("CHXD_CUDNN", "off", 1);
    setenv("CHXD_CUSOLVER", "off", 1);
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    cublas_ = reinterpret_cast<ChxFakeCublasFunction*>(dlsym(library, "ChxFakeCublas"))();
  }

  void SetUp() override {
    ResetFakeCuda();
    *cublas_ = FakeCublas();
  }

  // Devices cuda:0 and cuda:1, and a session on them.
  void Open(int64_t memory = int64_t{1} << 30) {
    std::string error;
    backend_.reset(ChxCreateBackend(kBackendAbi, &error));
    ASSERT_NE(backend_, nullptr) << error;
    const absl::Status status = devices_.Open("cuda:0,cuda:1", {backend_.get()});
    ASSERT_TRUE(status.ok()) << status;
    executor_ = NewExecutor(memory);
  }
  std::unique_ptr<Executor> NewExecutor(int64_t memory) {
    return std::make_unique<Executor>(&devices_, std::make_shared<MemoryAccount>(memory));
  }

  Array Upload(Executor* executor, const std::vector<float>& values, DeviceId device = 0) {
    const ArraySpec spec(Dtype::kFloat32, {static_cast<int64_t>(values.size())}, device);
    Array array = *executor->Allocate(spec);
    const absl::Status status = executor->CopyIn(
        array, 0, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    EXPECT_TRUE(status.ok()) << status;
    return array;
  }
  absl::StatusOr<Array> Run(Executor* executor, const char* op,
                            const std::vector<const Array*>& arrays, const Attrs& attrs = {}) {
    const std::vector<ArrayOperand> inputs(arrays.begin(), arrays.end());
    RunOutputs outputs;
    const absl::Status status =
        executor->Run({*OpRegistry::Global().Find(op), inputs, attrs, 0}, &outputs);
    if (!status.ok()) return status;
    return outputs[0];
  }
  absl::StatusOr<Array> Square(Executor* executor) {
    const Array a = Upload(executor, {1, 2, 3, 4});
    Array matrix = a;
    matrix.spec = ArraySpec(Dtype::kFloat32, {2, 2}, 0);
    return Run(executor, "matmul", {&matrix, &matrix});
  }

  static FakeCublas* cublas_;
  std::unique_ptr<Backend> backend_;
  Devices devices_;
  std::unique_ptr<Executor> executor_;
};

FakeCublas* RuntimeTest::cublas_ = nullptr;

TEST_F(RuntimeTest, ALastingErrorIsTheDevicesLoss) {
  Open();
  const Array a = Upload(executor_.get(), {1, 2});
  const std::unique_ptr<Executor> other = NewExecutor(kMiB * 64);
  Upload(other.get(), {1});
  int noticed = 0;
  devices_.at(0).health().SetOnLost([&](const absl::Status&) { ++noticed; });
  TheFakeCuda().lasting = cudaErrorIllegalAddress;
  EXPECT_FALSE(executor_->CopyOut(a).ok());
  EXPECT_EQ(noticed, 1);
  EXPECT_TRUE(devices_.at(0).health().lost());
  EXPECT_FALSE(devices_.all_lost());  // nobody has used the other one
  // For everybody, also those who have done nothing wrong.
  const absl::Status status = other->Allocate(ArraySpec(Dtype::kFloat32, {1}, 0)).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kDevice);
  EXPECT_NE(status.message().find("cuda:0 is lost"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("a fake error"), absl::string_view::npos) << status;
  EXPECT_EQ(noticed, 1);
}

TEST_F(RuntimeTest, NothingOfALostDeviceIsDestroyed) {
  Open();
  Upload(executor_.get(), {1});
  ASSERT_TRUE(Square(executor_.get()).ok());
  TheFakeCuda().lasting = cudaErrorIllegalAddress;
  EXPECT_FALSE(executor_->Synchronize().ok());
  const int before = TheFakeCuda().destroyed;
  executor_ = nullptr;
  EXPECT_EQ(TheFakeCuda().destroyed, before);
  EXPECT_EQ(cublas_->destroyed, 0);
}

TEST_F(RuntimeTest, OtherErrorsAreOneCommands) {
  Open();
  const Array a = Upload(executor_.get(), {1, 2});
  TheFakeCuda().next = cudaErrorInvalidValue;
  EXPECT_FALSE(executor_->CopyOut(a).ok());
  EXPECT_FALSE(devices_.at(0).health().lost());
  EXPECT_TRUE(executor_->CopyOut(a).ok());
}

TEST_F(RuntimeTest, TheRuntimeIsConfiguredBeforeItsFirstCall) {
  unsetenv("CUDA_MODULE_LOADING");
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);  // the operator's word
  Open();
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "8");
}

TEST_F(RuntimeTest, SlabsStayMappedAndAreFilledBeforeOtherWork) {
  Open();
  EXPECT_EQ(TheFakeCuda().release_threshold, UINT64_MAX);
  Upload(executor_.get(), {1});
  EXPECT_EQ(TheFakeCuda().priority_of_fills, -5);
}

TEST_F(RuntimeTest, LibrariesAreOpenBeforeTheFirstProduct) {
  Open();
  const int created = cublas_->created;
  EXPECT_EQ(created, 2);  // of each device
  ASSERT_TRUE(Square(executor_.get()).ok());
  EXPECT_EQ(cublas_->created, created);
  EXPECT_EQ(cublas_->products, 1);
}

TEST_F(RuntimeTest, AHandleWithoutAStreamIsNotKept) {
  cublas_->next_set_stream = CUBLAS_STATUS_INTERNAL_ERROR;  // of the first device's
  Open();
  EXPECT_EQ(cublas_->destroyed, 1);
  cublas_->next_set_stream = CUBLAS_STATUS_INTERNAL_ERROR;
  EXPECT_FALSE(Square(executor_.get()).ok());
  EXPECT_EQ(cublas_->products, 0);
  EXPECT_TRUE(Square(executor_.get()).ok());
  EXPECT_EQ(cublas_->products, 1);
}

TEST_F(RuntimeTest, AFullDeviceMakesRoomForALibrary) {
  cublas_->next_create = CUBLAS_STATUS_ALLOC_FAILED;
  Open();
  TheFakeCuda().kept = 5;
  int asked = 0;
  devices_.at(0).set_relief([&] {
    ++asked;
    return true;
  });
  cublas_->next_create = CUBLAS_STATUS_ALLOC_FAILED;
  EXPECT_TRUE(Square(executor_.get()).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(TheFakeCuda().kept, 0);
}

TEST_F(RuntimeTest, AFullDeviceAsksOtherSessions) {
  TheFakeCuda().memory = 100 * kMiB;
  Open();
  const ArraySpec spec(Dtype::kUint8, {60 * kMiB}, 0);
  const std::unique_ptr<Executor> idle = NewExecutor(int64_t{1} << 30);
  ASSERT_TRUE(idle->Allocate(spec).ok());  // and freed: the pool keeps it
  EXPECT_EQ(KindOf(executor_->Allocate(spec).status()), ErrorKind::kMemory);
  Device* const device = &devices_.at(0);
  device->set_relief([&] { return idle->TryTrim(device); });
  EXPECT_TRUE(executor_->Allocate(spec).ok());
  device->set_relief(nullptr);
}

TEST_F(RuntimeTest, ProductsHaveAWorkspaceOfTheSession) {
  Open();
  ASSERT_TRUE(Square(executor_.get()).ok());
  EXPECT_EQ(cublas_->workspace_bytes, 32 * kMiB);
  EXPECT_GE(executor_->account()->used(), 32 * kMiB);
  const std::unique_ptr<Executor> small = NewExecutor(8 * kMiB);
  ASSERT_TRUE(Square(small.get()).ok());
  EXPECT_EQ(cublas_->workspace_bytes, 16 << 10);
}

TEST_F(RuntimeTest, ProductsAreExactUnlessTheSessionAllowsTf32) {
  Open();
  ASSERT_TRUE(Square(executor_.get()).ok());
  EXPECT_EQ(cublas_->compute, CUBLAS_COMPUTE_32F);
  Settings settings;
  settings.tf32 = true;
  executor_->Configure(settings);
  ASSERT_TRUE(Square(executor_.get()).ok());
  EXPECT_EQ(cublas_->compute, CUBLAS_COMPUTE_32F_FAST_TF32);
}

TEST_F(RuntimeTest, AProductAndItsBiasAreOneCall) {
  Open();
  Array x = Upload(executor_.get(), {1, 2, 3, 4});
  x.spec = ArraySpec(Dtype::kFloat32, {2, 2}, 0);
  const Array bias = Upload(executor_.get(), {5, 6});
  const Attrs attrs = {int64_t{1}};
  for (int calls = 1; calls <= 2; ++calls) {
    ASSERT_TRUE(Run(executor_.get(), "linear", {&x, &x, &bias}, attrs).ok());
    EXPECT_EQ(cublas_->biased_products, calls);
    EXPECT_EQ(cublas_->bias, bias.data());
    EXPECT_EQ(cublas_->workspace_bytes, 32 * kMiB);
    EXPECT_EQ(cublas_->choices, 1);  // and kept
  }
  EXPECT_EQ(cublas_->products, 0);
}

TEST_F(RuntimeTest, ABiasThatTheLibraryDeclinesIsAddedBefore) {
  Open();
  Array x = Upload(executor_.get(), {1, 2, 3, 4});
  x.spec = ArraySpec(Dtype::kFloat32, {2, 2}, 0);
  Array row = x;
  row.spec = ArraySpec(Dtype::kFloat32, {1, 2}, 0);
  const Array bias = Upload(executor_.get(), {5, 6});
  const auto run = [&](const Array& array) {
    return Run(executor_.get(), "linear", {&array, &x, &bias}, {int64_t{1}});
  };
  cublas_->has_algorithms = false;
  ASSERT_TRUE(run(x).ok());
  EXPECT_EQ(cublas_->products, 1);
  // It has an algorithm, but not for this. It is not asked again.
  cublas_->has_algorithms = true;
  cublas_->next_product = CUBLAS_STATUS_NOT_SUPPORTED;
  for (int products = 2; products <= 3; ++products) {
    ASSERT_TRUE(run(row).ok());
    EXPECT_EQ(cublas_->products, products);
  }
  EXPECT_EQ(cublas_->choices, 2);
  EXPECT_EQ(cublas_->biased_products, 0);
  // An error of the device is one.
  cublas_->next_product = CUBLAS_STATUS_EXECUTION_FAILED;
  Array column = x;
  column.spec = ArraySpec(Dtype::kFloat32, {2, 1}, 0);
  EXPECT_FALSE(Run(executor_.get(), "linear", {&column, &column, &bias}, {int64_t{1}}).ok());
}

TEST_F(RuntimeTest, WorkspacesAreSmallerBeforeHopper) {
  TheFakeCuda().compute_capability = 8;
  Open();
  ASSERT_TRUE(Square(executor_.get()).ok());
  EXPECT_EQ(cublas_->workspace_bytes, 4 * kMiB);
}

TEST_F(RuntimeTest, TheTimeOfKernelsIsMeasuredByEvents) {
  Open();
  TheFakeCuda().mark_micros = 400;  // a piece takes as long as its last mark
  std::vector<DeviceCounters> counters(2);
  const auto micros = [&] { return counters[0].busy_nanoseconds.value() / 1000; };
  auto executor = std::make_unique<Executor>(
      &devices_, std::make_shared<MemoryAccount>(int64_t{1} << 30), false, &counters);
  ASSERT_TRUE(Square(executor.get()).ok());
  executor->Flush();
  ASSERT_TRUE(executor->Synchronize().ok());
  EXPECT_EQ(micros(), 400);
  // Between two pieces it does nothing for the session.
  ASSERT_TRUE(Square(executor.get()).ok());
  ASSERT_TRUE(executor->Synchronize().ok());
  EXPECT_EQ(micros(), 800);
  ASSERT_TRUE(executor->Synchronize().ok());
  EXPECT_EQ(micros(), 800);
  EXPECT_EQ(counters[1].busy_nanoseconds.value(), 0);
  // A kernel of known length is a piece of its own if it is as long as one, else many are.
  TheFakeCuda().mark_micros = 0;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Square(executor.get()).ok());
    ASSERT_TRUE(executor->Synchronize().ok());
  }
  const int before = TheFakeCuda().marks;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Square(executor.get()).ok());
  // Uploads have marks of their own, one each.
  EXPECT_LE(TheFakeCuda().marks - before, 100 + 2);
  const int events = TheFakeCuda().events;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Square(executor.get()).ok());
    ASSERT_TRUE(executor->Synchronize().ok());
  }
  EXPECT_LE(TheFakeCuda().events, events + 2);  // they are used again
}

TEST_F(RuntimeTest, APieceThatIsNotDoneIsMeasuredLater) {
  Open();
  TheFakeCuda().mark_micros = 400;
  std::vector<DeviceCounters> counters(2);
  auto executor = std::make_unique<Executor>(
      &devices_, std::make_shared<MemoryAccount>(int64_t{1} << 30), false, &counters);
  const Array a = Upload(executor.get(), {1, 2});
  ASSERT_TRUE(Run(executor.get(), "exp", {&a}).ok());
  executor->Flush();
  TheFakeCuda().not_ready = 1;
  ASSERT_TRUE(executor->Synchronize().ok());
  EXPECT_EQ(counters[0].busy_nanoseconds.value(), 0);
  ASSERT_TRUE(executor->Synchronize().ok());
  EXPECT_EQ(counters[0].busy_nanoseconds.value(), 400000);
}

TEST_F(RuntimeTest, StreamsHaveTheirTenantsPriorities) {
  Open();
  // 0 is the lowest here, and -5 is for fills.
  for (const auto& [of_tenant, of_stream] : std::vector<std::pair<int, int>>{{-1, 0}, {1, -2}}) {
    TurnGroup group(1, of_tenant);
    TheFakeCuda().priority_of_streams = 7;
    for (int i = 0; i < 2; ++i) {  // then it is kept
      const std::unique_ptr<Executor> executor = NewExecutor(int64_t{1} << 30);
      executor->set_turn_group(&group);
      ASSERT_TRUE(Square(executor.get()).ok());
      EXPECT_EQ(TheFakeCuda().priority_of_streams, i == 0 ? of_stream : 7);
      TheFakeCuda().priority_of_streams = 7;
    }
  }
  TheFakeCuda().priority_of_streams = 7;
  ASSERT_TRUE(Square(executor_.get()).ok());
  EXPECT_EQ(TheFakeCuda().priority_of_streams, 7);  // the one of the device's start
}

TEST_F(RuntimeTest, AFindingIsForItsSession) {
  Open();
  const auto find = [this](Executor* executor) {
    const Array a = Upload(executor, {1, 2});
    const Array one = *Run(executor, "argmax", {&a}, {AttrValue(), AttrValue(false)});
    const Array two = *Run(executor, "add", {&one, &one});
    executor->set_origin(17);
    EXPECT_TRUE(Run(executor, "take", {&a, &two}, {AttrValue(0), AttrValue(0)}).ok());
  };
  find(executor_.get());
  ASSERT_TRUE(executor_->Synchronize().ok());
  const absl::optional<LateError> late = executor_->TakeLateError(0);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(OpRegistry::Global().at(late->op).name, "take");
  EXPECT_EQ(late->origin, 17u);
  EXPECT_EQ(KindOf(late->status), ErrorKind::kIndex);
  EXPECT_FALSE(executor_->TakeLateError(0).has_value());
  // Of one that has ended, whose stream the next one gets.
  std::unique_ptr<Executor> other = NewExecutor(kMiB * 64);
  find(other.get());
  other = NewExecutor(kMiB * 64);
  Upload(other.get(), {1});
  EXPECT_FALSE(other->TakeLateError(0).has_value());
}

TEST_F(RuntimeTest, SequencesAreGraphs) {
  Open();
  const Array a = Upload(executor_.get(), {1, 2, 3, 4});
  Array matrix = a;
  matrix.spec = ArraySpec(Dtype::kFloat32, {2, 2}, 0);
  int inside = 0;
  // Stands for kernels, which these fakes do not have.
  absl::StatusOr<std::unique_ptr<Sequence>> sequence = executor_->Capture(0, [&] {
    inside += TheFakeCuda().captures;
    return absl::OkStatus();
  });
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(TheFakeCuda().captures, 0);
  EXPECT_EQ(TheFakeCuda().graph_launches, 1);
  const OpId op = OpRegistry::Global().Find("exp")->id;
  ASSERT_TRUE(executor_->Repeat(0, sequence->get(), {op, op}).ok());
  EXPECT_EQ(TheFakeCuda().graph_launches, 2);
  EXPECT_EQ(TheFakeCuda().graphs, 1);
  sequence->reset();
  EXPECT_EQ(TheFakeCuda().graphs, 0);
}

TEST_F(RuntimeTest, WhatWaitsIsInNoSequence) {
  Open();
  const Array a = Upload(executor_.get(), {1, 2, 3, 4});
  const std::vector<std::function<absl::Status()>> calls = {
      [&] { return executor_->CopyOut(a).status(); }, [&] { return executor_->Synchronize(); },
      [&] { return executor_->CopyIn(a, 0, "abcd"); }};
  for (const auto& call : calls) {
    EXPECT_TRUE(absl::IsUnimplemented(executor_->Capture(0, call).status()));
    EXPECT_EQ(TheFakeCuda().captures, 0);
  }
  // Nor is what CUDA does not like.
  TheFakeCuda().next_capture = cudaErrorStreamCaptureInvalidated;
  EXPECT_TRUE(
      absl::IsUnimplemented(executor_->Capture(0, [] { return absl::OkStatus(); }).status()));
  EXPECT_EQ(TheFakeCuda().graph_launches, 0);
  EXPECT_EQ(TheFakeCuda().graphs, 0);
  // And then all is as before.
  EXPECT_TRUE(Square(executor_.get()).ok());
  EXPECT_TRUE(executor_->Synchronize().ok());
}

// Large values in pinned memory.
TEST_F(RuntimeTest, UploadsDoNotWaitForKernels) {
  Open();
  std::vector<float> values(5 * kMiB / 4 + 1);
  std::iota(values.begin(), values.end(), 0.0F);
  char* const memory = reinterpret_cast<char*>(values.data());
  const auto expect_equal = [&](const Array& a) {
    EXPECT_TRUE(*executor_->CopyOut(a) == std::string(memory, 4 * values.size()));
  };
  expect_equal(Upload(executor_.get(), values));
  EXPECT_EQ(TheFakeCuda().orders, 0);
  PinnedRanges::Global().Add(memory, 4 * values.size());
  const int64_t before = TheFakeCuda().used;
  expect_equal(Upload(executor_.get(), values));
  EXPECT_EQ(TheFakeCuda().orders, 3);  // parts of 2 MiB
  EXPECT_GE(TheFakeCuda().used, before + 32 * kMiB);
  for (int i = 0; i < 7; ++i) expect_equal(Upload(executor_.get(), values));
  EXPECT_EQ(TheFakeCuda().orders, 24);
  // Without memory for the parts.
  executor_ = NewExecutor(int64_t{1} << 30);
  const Array a = Upload(executor_.get(), std::vector<float>(values.size()));
  TheFakeCuda().memory = TheFakeCuda().used;
  const absl::Status status = executor_->CopyIn(a, 0, {memory, 4 * values.size()});
  EXPECT_TRUE(status.ok()) << status;
  expect_equal(a);
  EXPECT_EQ(TheFakeCuda().orders, 24);
  PinnedRanges::Global().Remove(memory);
}

TEST_F(RuntimeTest, ArraysGoFromOneDeviceToTheOther) {
  Open();
  const Array a = Upload(executor_.get(), {1, 2, 3});
  absl::StatusOr<Array> there = Run(executor_.get(), "to_device", {&a}, {AttrValue(int64_t{1})});
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->spec.device, 1);
  EXPECT_EQ(TheFakeCuda().peer_copies, 1);
  EXPECT_EQ(TheFakeCuda().orders, 2);  // after what came before, and before what comes next
  EXPECT_EQ(*executor_->CopyOut(*there), *executor_->CopyOut(a));
}

}  // namespace
}  // namespace chx::server::cuda
