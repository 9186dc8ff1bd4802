// How fast single kernels are, called as the engine calls them.
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "ops/registry.h"
#include "server/kernels/dispatch.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

TestArray Filled(Dtype dtype, const Shape& shape) {
  TestArray array(dtype, shape);
  kernels::VisitDtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* const data = reinterpret_cast<T*>(array.tensor().data);
    for (int64_t i = 0; i < array.size(); ++i) data[i] = kernels::Cast<T>((i % 17 - 8) / 8.0);
  });
  return array;
}

TestArray Like(const TestArray& array) { return TestArray(array.dtype(), array.shape()); }

// One call of a kernel again and again; `outputs` are written.
void Bench(benchmark::State& state, const char* name, const std::vector<TestArray>& inputs,
           const std::vector<TestArray>& outputs, const Attrs& attrs, double bytes, double flops,
           int threads) {
  KernelRunner runner(threads);
  const OpDef& op = *OpRegistry::Global().Find(name);
  std::vector<KernelTensor> tensors;
  for (const TestArray& input : inputs) tensors.push_back(input.tensor());
  std::vector<KernelTensor> written;
  for (const TestArray& output : outputs) written.push_back(output.tensor());
  for (auto _ : state) {
    benchmark::DoNotOptimize(runner.Call(op, tensors, written, attrs));
  }
  const double calls = static_cast<double>(state.iterations());
  if (bytes > 0) state.counters["B/s"] = {bytes * calls, benchmark::Counter::kIsRate};
  if (flops > 0) state.counters["FLOP/s"] = {flops * calls, benchmark::Counter::kIsRate};
}

void Unary(benchmark::State& state, const char* op, Dtype dtype, const Shape& shape) {
  const double bytes = 2.0 * NumElements(shape) * ItemSize(dtype);
  Bench(state, op, {Filled(dtype, shape)}, {TestArray(dtype, shape)}, {}, bytes, 0,
        static_cast<int>(state.range(0)));
}

void Binary(benchmark::State& state, const char* op, Dtype dtype, const Shape& a, const Shape& b) {
  const TestArray y = Filled(dtype, b).BroadcastTo(a);
  const double bytes = (2.0 * NumElements(a) + NumElements(b)) * ItemSize(dtype);
  Bench(state, op, {Filled(dtype, a), y}, {TestArray(dtype, a)}, {}, bytes, 0,
        static_cast<int>(state.range(0)));
}

void Sum(benchmark::State& state, const Shape& shape, const AttrValue& axis, const Shape& out) {
  Bench(state, "sum", {Filled(Dtype::kFloat32, shape)}, {TestArray(Dtype::kFloat32, out)},
        {axis, AttrValue(false)}, 4.0 * NumElements(shape), 0, static_cast<int>(state.range(0)));
}

// x (m, k), w (n, k).
void Linear(benchmark::State& state, Dtype dtype, int64_t m, int64_t k, int64_t n) {
  Bench(state, "linear", {Filled(dtype, {m, k}), Filled(dtype, {n, k}), Filled(dtype, {n})},
        {TestArray(dtype, {m, n})}, {AttrValue(1)}, 0, 2.0 * m * n * k,
        static_cast<int>(state.range(0)));
}

void CrossEntropy(benchmark::State& state, int64_t rows, int64_t classes) {
  TestArray labels(Dtype::kInt64, {rows});
  for (int64_t i = 0; i < rows; ++i) labels.Set(i, i % classes);
  Bench(state, "softmax_cross_entropy", {Filled(Dtype::kFloat32, {rows, classes}), labels},
        {TestArray(Dtype::kFloat32, {rows})}, {}, 4.0 * rows * classes, 0,
        static_cast<int>(state.range(0)));
}

// x (n, channels, 7, 7).
void BatchNormGrad(benchmark::State& state, int64_t n, int64_t channels) {
  const TestArray x = Filled(Dtype::kFloat32, {n, channels, 7, 7});
  const TestArray gamma = Filled(Dtype::kFloat32, {channels});
  Bench(state, "batch_norm_grad", {x, gamma, x}, {Like(x), Like(gamma), Like(gamma)},
        {1e-5, Ints{0, 2, 3}}, 0, 0, static_cast<int>(state.range(0)));
}

void GroupNormGrad(benchmark::State& state, int64_t n, int64_t channels) {
  const TestArray x = Filled(Dtype::kFloat32, {n, channels, 7, 7});
  const TestArray weight = Filled(Dtype::kFloat32, {channels});
  Bench(state, "group_norm_grad", {x, x, weight}, {Like(x), Like(weight), Like(weight)},
        {AttrValue(32), 1e-5, true}, 0, 0, static_cast<int>(state.range(0)));
}

constexpr Dtype kF16 = Dtype::kFloat16;
constexpr Dtype kF32 = Dtype::kFloat32;
constexpr Dtype kF64 = Dtype::kFloat64;
const int64_t kMany = 10'000'000;

// The argument is the number of threads.
#define CHX_BENCH(name, function, ...) \
  BENCHMARK_CAPTURE(function, name, __VA_ARGS__)->Arg(1)->Arg(2)->UseRealTime()

BENCHMARK_CAPTURE(Binary, add_1, "add", kF32, Shape{1}, Shape{1})->Arg(1)->Arg(2);
BENCHMARK_CAPTURE(Binary, add_1024, "add", kF32, Shape{1024}, Shape{1024})->Arg(1)->Arg(2);
CHX_BENCH(add_10M, Binary, "add", kF32, Shape{kMany}, Shape{kMany});
CHX_BENCH(add_row_1000x1000, Binary, "add", kF32, Shape{1000, 1000}, Shape{1000});
CHX_BENCH(add_float16_1M, Binary, "add", kF16, Shape{1 << 20}, Shape{1 << 20});
CHX_BENCH(relu_10M, Unary, "relu", kF32, Shape{kMany});
CHX_BENCH(exp_10M, Unary, "exp", kF32, Shape{kMany});
CHX_BENCH(exp_100k, Unary, "exp", kF32, Shape{100'000});
CHX_BENCH(tanh_100k, Unary, "tanh", kF32, Shape{100'000});
CHX_BENCH(log_100k, Unary, "log", kF32, Shape{100'000});
CHX_BENCH(sigmoid_100k, Unary, "sigmoid", kF32, Shape{100'000});
CHX_BENCH(exp_float64_100k, Unary, "exp", kF64, Shape{100'000});
CHX_BENCH(sum_10, Sum, Shape{10}, AttrValue(), Shape{});
CHX_BENCH(sum_10M, Sum, Shape{kMany}, AttrValue(), Shape{});
CHX_BENCH(sum_axis0_1000x1000, Sum, Shape{1000, 1000}, AttrValue(Ints{0}), Shape{1000});
CHX_BENCH(sum_axis1_1000x1000, Sum, Shape{1000, 1000}, AttrValue(Ints{1}), Shape{1000});
CHX_BENCH(linear_100x1000x1000, Linear, kF32, 100, 1000, 1000);
CHX_BENCH(linear_1000x1000x1000, Linear, kF32, 1000, 1000, 1000);
CHX_BENCH(linear_1x32x32, Linear, kF32, 1, 32, 32);
CHX_BENCH(linear_1x784x32, Linear, kF32, 1, 784, 32);
CHX_BENCH(linear_float16_100x1000x1000, Linear, kF16, 100, 1000, 1000);
CHX_BENCH(linear_bfloat16_100x1000x1000, Linear, Dtype::kBfloat16, 100, 1000, 1000);
CHX_BENCH(softmax_cross_entropy_100x10, CrossEntropy, 100, 10);
CHX_BENCH(softmax_cross_entropy_1x10, CrossEntropy, 1, 10);
CHX_BENCH(batch_norm_grad_8x2048x7x7, BatchNormGrad, 8, 2048);
CHX_BENCH(batch_norm_grad_8x128x7x7, BatchNormGrad, 8, 128);
CHX_BENCH(group_norm_grad_8x512x7x7, GroupNormGrad, 8, 512);

}  // namespace
}  // namespace chx::server::native

BENCHMARK_MAIN();
