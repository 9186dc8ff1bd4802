// The same arrays on the native device and on the cuda backend's kernels, run on the CPU.
#ifndef CHX_TESTS_CUDA_KERNELS_FIXTURE_H_
#define CHX_TESTS_CUDA_KERNELS_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/basic_index.h"
#include "ops/registry.h"
#include "server/cuda/testing/emulated_backend.h"
#include "server/native/native_backend.h"
#include "tests/cuda/two_devices_test.h"

namespace chx::server {

constexpr DeviceId kNative = 0;
constexpr DeviceId kEmulated = 1;
constexpr Dtype kAllDtypes[] = {Dtype::kBool,    Dtype::kInt8,    Dtype::kInt16,   Dtype::kInt32,
                                Dtype::kInt64,   Dtype::kUint8,   Dtype::kFloat16, Dtype::kFloat32,
                                Dtype::kFloat64, Dtype::kBfloat16};
constexpr Dtype kFloats[] = {Dtype::kFloat16, Dtype::kFloat32, Dtype::kFloat64, Dtype::kBfloat16};

// The same array on both devices.
struct Pair {
  Array native;
  Array emulated;
  bool is_scalar = false;
  Scalar scalar;
  bool absent = false;
};

class KernelsTest : public TwoDevicesTest {
 protected:
  KernelsTest() : TwoDevicesTest(CreateNativeBackend({1}), cuda::NewEmulatedBackend("emulated")) {}

  template <typename T, size_t kSize>
  T OneOf(const T (&values)[kSize]) {
    return values[Int(0, kSize - 1)];
  }
  Shape RandomShape(int max_ndim, int64_t max_dim) {
    Shape shape;
    for (int64_t d = Int(0, max_ndim); d > 0; --d) {
      shape.push_back(Int(0, 30) == 0 ? 0 : Int(1, max_dim));
    }
    return shape;
  }

  // The bytes of random elements.
  std::string RandomBytes(Dtype dtype, int64_t size, int64_t low, int64_t high, bool specials) {
    std::vector<double> values(size);
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const double floats[] = {kInf, -kInf, std::nan(""), 0, -0.0, 1e-30, 65504, 2, 1};
    const double ints[] = {-9.3e18, 9.2e18, -1, 0, 1, 127, -128, 2147483647, -2147483648.0};
    for (double& value : values) {
      if (specials && Int(0, 7) == 0) {
        value = IsFloat(dtype) ? OneOf(floats) : OneOf(ints);
      } else if (IsFloat(dtype)) {
        value = static_cast<double>(Int(low * 1000, high * 1000)) / 1000;
      } else {
        value = static_cast<double>(Int(low, high));
      }
    }
    const Array wide = FromBytes(Dtype::kFloat64, {size}, values.data(), kNative);
    const AttrValue attr(dtype);
    return Bytes(Apply("astype", {&wide}, {attr}, kNative));
  }

  Array FromBytes(Dtype dtype, const Shape& shape, const void* data, DeviceId device) {
    const ArraySpec spec(dtype, shape, device);
    Array array = *executor_->Allocate(spec);
    const absl::Status status = executor_->CopyIn(
        array, 0, absl::string_view(static_cast<const char*>(data), spec.nbytes()));
    EXPECT_TRUE(status.ok()) << status;
    return array;
  }
  std::string Bytes(const Array& array) { return *executor_->CopyOut(array); }

  Array Apply(const std::string& op, const std::vector<const Array*>& arrays, const Attrs& attrs,
              DeviceId device) {
    const std::vector<ArrayOperand> inputs(arrays.begin(), arrays.end());
    RunOutputs outputs;
    const absl::Status status =
        executor_->Run({*OpRegistry::Global().Find(op), inputs, attrs, device}, &outputs);
    EXPECT_TRUE(status.ok()) << op << ": " << status;
    return status.ok() ? outputs[0] : Array();
  }

  // A random array whose elements lie in memory in a random order, with gaps.
  Pair RandomArray(Dtype dtype, const Shape& shape, int64_t low, int64_t high, bool specials) {
    const int ndim = shape.size();
    std::vector<int> order(ndim);
    for (int d = 0; d < ndim; ++d) order[d] = d;
    if (Int(0, 2) != 0) std::shuffle(order.begin(), order.end(), rng_);
    // The base has its dimensions in that order; some are longer or run backwards.
    Shape base;
    IndexBuilder index;
    Ints axes(ndim);
    for (int i = 0; i < ndim; ++i) {
      const int64_t dim = shape[order[i]];
      axes[order[i]] = i;
      const int64_t kind = Int(0, 5);
      if (kind == 0) {
        base.push_back(2 * dim + 1);
        index.Slice(1, absl::nullopt, 2);
      } else if (kind == 1) {
        base.push_back(dim);
        index.Slice(absl::nullopt, absl::nullopt, -1);
      } else {
        base.push_back(dim);
        index.Slice(absl::nullopt, absl::nullopt, absl::nullopt);
      }
    }
    const std::string bytes = RandomBytes(dtype, NumElements(base), low, high, specials);
    Pair pair;
    for (const DeviceId device : {kNative, kEmulated}) {
      Array array = FromBytes(dtype, base, bytes.data(), device);
      array = Apply("getitem", {&array}, {index.Build()}, device);
      if (ndim > 0) array = Apply("transpose", {&array}, {AttrValue(axes)}, device);
      (device == kNative ? pair.native : pair.emulated) = array;
    }
    return pair;
  }
  // Its elements rounded down, as dense arrays.
  Pair Whole(const Pair& pair) {
    Pair result;
    result.native = Apply("floor", {&pair.native}, {}, kNative);
    result.emulated = Apply("floor", {&pair.emulated}, {}, kEmulated);
    return result;
  }
  Pair RandomScalar() {
    Pair pair;
    pair.is_scalar = true;
    const Scalar scalars[] = {Scalar(true), Scalar(Int(-5, 5)), Scalar(2), Scalar(0.75),
                              Scalar(-1e10)};
    pair.scalar = OneOf(scalars);
    return pair;
  }
  static Pair Absent() {
    Pair pair;
    pair.absent = true;
    return pair;
  }

  absl::Status RunOn(const OpDef& op, const std::vector<Pair>& pairs, const Attrs& attrs,
                     DeviceId device, RunOutputs* outputs) {
    std::vector<ArrayOperand> inputs(pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].is_scalar) {
        inputs[i] = ArrayOperand(pairs[i].scalar);
      } else if (!pairs[i].absent) {
        inputs[i] = ArrayOperand(device == kNative ? &pairs[i].native : &pairs[i].emulated);
      }
    }
    Attrs all = attrs;
    for (size_t i = all.size(); i < op.attrs.size(); ++i) all.push_back(op.attrs[i].default_value);
    return executor_->Run({op, inputs, all, device}, outputs);
  }

  // Runs an operator on both devices and compares the results, or the errors. Counts the results.
  void Compare(const std::string& name, const std::vector<Pair>& inputs, const Attrs& attrs = {},
               double tolerance = 1) {
    const OpDef& op = *OpRegistry::Global().Find(name);
    RunOutputs want;
    RunOutputs got;
    const absl::Status want_status = RunOn(op, inputs, attrs, kNative, &want);
    absl::Status got_status = RunOn(op, inputs, attrs, kEmulated, &got);
    if (const absl::optional<LateError> late = executor_->TakeLateError(kEmulated)) {
      ASSERT_TRUE(got_status.ok()) << name;
      EXPECT_EQ(late->op, op.id);
      got_status = late->status;
    }
    ASSERT_EQ(got_status.message(), want_status.message()) << name;
    if (!want_status.ok()) return;
    ++results_;
    if (op.in_place) {
      want = {inputs[0].native};
      got = {inputs[0].emulated};
    }
    std::string text = name;
    for (const Pair& input : inputs) {
      text += input.is_scalar ? " " + input.scalar.ToString()
              : input.absent  ? " absent"
                              : " " + input.native.spec.ToString();
    }
    for (const AttrValue& attr : attrs) text += " " + attr.ToString();
    ASSERT_EQ(got.size(), want.size()) << text;
    for (size_t i = 0; i < want.size(); ++i) ExpectClose(text, want[i], got[i], tolerance);
  }

  void ExpectClose(const std::string& text, const Array& want, const Array& got, double tolerance) {
    ASSERT_EQ(got.spec.dtype, want.spec.dtype) << text;
    ASSERT_EQ(got.spec.shape, want.spec.shape) << text;
    const Dtype dtype = want.spec.dtype;
    if (!IsFloat(dtype)) {
      ASSERT_EQ(Bytes(got), Bytes(want)) << text;
      return;
    }
    const double unit = EpsilonOf(dtype);
    const AttrValue attr(Dtype::kFloat64);
    const std::string want_bytes = Bytes(Apply("astype", {&want}, {attr}, kNative));
    const std::string got_bytes = Bytes(Apply("astype", {&got}, {attr}, kEmulated));
    for (size_t i = 0; i < want_bytes.size() / 8; ++i) {
      double a;
      double b;
      std::memcpy(&a, &want_bytes[i * 8], 8);
      std::memcpy(&b, &got_bytes[i * 8], 8);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double bound = 4 * tolerance * unit * std::max(1.0, std::fabs(a));
      ASSERT_LE(std::fabs(a - b), bound)
          << text << ": element " << i << " is " << b << ", not " << a;
    }
  }

  int results_ = 0;
};

}  // namespace chx::server

#endif  // CHX_TESTS_CUDA_KERNELS_FIXTURE_H_
