// Every kernel of the cuda backend, run on the CPU (server/cuda/launch.h), must agree with the
// native backend's on random arrays of random layouts.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/basic_index.h"
#include "ops/registry.h"
#include "server/cuda/testing/emulated_backend.h"
#include "server/engine/executor.h"
#include "server/native/native_backend.h"

namespace chx {
namespace {

constexpr DeviceId kNative = 0;
constexpr DeviceId kEmulated = 1;
constexpr Dtype kAllDtypes[] = {Dtype::kBool,    Dtype::kInt8,    Dtype::kInt16,
                                Dtype::kInt32,   Dtype::kInt64,   Dtype::kUint8,
                                Dtype::kFloat16, Dtype::kFloat32, Dtype::kFloat64};
constexpr Dtype kFloats[] = {Dtype::kFloat16, Dtype::kFloat32, Dtype::kFloat64};

// The same array on both devices.
struct Pair {
  Array native;
  Array emulated;
  bool is_scalar = false;
  Scalar scalar;
  bool absent = false;
};

class KernelsTest : public testing::Test {
 protected:
  KernelsTest() {
    const char* const given = std::getenv("CHX_TEST_SEED");
    const uint64_t seed =
        given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    RecordProperty("seed", std::to_string(seed));
    std::printf("CHX_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    rng_.seed(seed);
    const absl::Status status =
        devices_.Open("native:0,emulated:0", {native_.get(), emulated_.get()});
    EXPECT_TRUE(status.ok()) << status;
    executor_ = std::make_unique<Executor>(&devices_, int64_t{1} << 30);
  }

  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng_);
  }
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
    std::vector<RunInput> inputs(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) inputs[i].array = arrays[i];
    RunOutputs outputs;
    const absl::Status status =
        executor_->Run(*OpRegistry::Global().Find(op), inputs, attrs, device, &outputs);
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
    std::vector<RunInput> inputs(pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].is_scalar) {
        inputs[i].is_scalar = true;
        inputs[i].scalar = pairs[i].scalar;
      } else if (!pairs[i].absent) {
        inputs[i].array = device == kNative ? &pairs[i].native : &pairs[i].emulated;
      }
    }
    Attrs all = attrs;
    for (size_t i = all.size(); i < op.attrs.size(); ++i) all.push_back(op.attrs[i].default_value);
    return executor_->Run(op, inputs, all, device, outputs);
  }

  // Runs an operator on both devices and compares the results, or the errors. Counts the results.
  void Compare(const std::string& name, const std::vector<Pair>& inputs, const Attrs& attrs = {},
               double tolerance = 1) {
    const OpDef& op = *OpRegistry::Global().Find(name);
    RunOutputs want;
    RunOutputs got;
    const absl::Status want_status = RunOn(op, inputs, attrs, kNative, &want);
    const absl::Status got_status = RunOn(op, inputs, attrs, kEmulated, &got);
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
    ExpectClose(text, want[0], got[0], tolerance);
  }

  void ExpectClose(const std::string& text, const Array& want, const Array& got, double tolerance) {
    ASSERT_EQ(got.spec.dtype, want.spec.dtype) << text;
    ASSERT_EQ(got.spec.shape, want.spec.shape) << text;
    const Dtype dtype = want.spec.dtype;
    if (!IsFloat(dtype)) {
      ASSERT_EQ(Bytes(got), Bytes(want)) << text;
      return;
    }
    const double unit = dtype == Dtype::kFloat16   ? 1.0 / 1024
                        : dtype == Dtype::kFloat32 ? 1.2e-7
                                                   : 2.3e-16;
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

  std::mt19937_64 rng_;
  const std::unique_ptr<Backend> native_ = CreateNativeBackend({1});
  const std::unique_ptr<Backend> emulated_ = cuda::NewEmulatedBackend("emulated");
  Devices devices_;
  std::unique_ptr<Executor> executor_;
  int results_ = 0;
};

TEST_F(KernelsTest, Elementwise) {
  for (const auto& op : OpRegistry::Global().ops()) {
    if (!op->elementwise || op->kind != OpKind::kKernel || op->in_place) continue;
    const int before = results_;
    for (int round = 0; round < 60; ++round) {
      const Shape shape = RandomShape(4, round % 10 == 0 ? 40 : 6);
      std::vector<Pair> inputs;
      const Dtype dtype = OneOf(kAllDtypes);
      bool has_array = false;
      for (const InputDef& input : op->inputs) {
        if (input.scalar && Int(0, 3) == 0 && (has_array || &input != &op->inputs.back())) {
          inputs.push_back(RandomScalar());
          continue;
        }
        Shape own = shape;
        for (int d = 0; d < own.size(); ++d) {
          if (Int(0, 4) == 0) own[d] = 1;
        }
        has_array = true;
        inputs.push_back(
            RandomArray(Int(0, 2) == 0 ? OneOf(kAllDtypes) : dtype, own, -12, 12, true));
      }
      Compare(op->name, inputs);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(results_ - before, 5) << op->name;
  }
}

TEST_F(KernelsTest, InPlace) {
  for (const auto& op : OpRegistry::Global().ops()) {
    if (!op->in_place || op->inputs.size() > 2) continue;  // others: conformance
    const int before = results_;
    for (int round = 0; round < 60; ++round) {
      const Shape shape = RandomShape(3, 9);
      const Dtype dtype = OneOf(kAllDtypes);
      std::vector<Pair> inputs = {RandomArray(dtype, shape, -9, 9, false)};
      Attrs attrs;
      if (op->inputs.size() > 1) {
        inputs.push_back(Int(0, 2) == 0 ? RandomScalar()
                                        : RandomArray(OneOf(kAllDtypes), shape, -9, 9, false));
      } else {
        attrs.push_back(AttrValue(RandomScalar().scalar));
      }
      Compare(op->name, inputs, attrs);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(results_ - before, 10) << op->name;
  }
}

TEST_F(KernelsTest, CopyAndCast) {
  for (const Dtype from : kAllDtypes) {
    for (const Dtype to : kAllDtypes) {
      for (int round = 0; round < 4; ++round) {
        const Pair a = RandomArray(from, RandomShape(4, 7), -300, 300, true);
        Compare("astype", {a}, {AttrValue(to)});
        Compare("copy", {a});
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_EQ(results_, 9 * 9 * 4 * 2);
}

TEST_F(KernelsTest, Creation) {
  for (int round = 0; round < 200; ++round) {
    const AttrValue shape = AttrValue::FromInts(RandomShape(4, 8).span());
    const AttrValue dtype = Int(0, 3) == 0 ? AttrValue() : AttrValue(OneOf(kAllDtypes));
    Compare("full", {}, {shape, AttrValue(RandomScalar().scalar), dtype});
    const bool floats = Int(0, 1) == 0;
    const auto number = [&](int64_t low, int64_t high) {
      return floats ? Scalar(static_cast<double>(Int(low * 8, high * 8)) / 8)
                    : Scalar(Int(low, high));
    };
    Compare("arange", {}, {number(-50, 50), number(-50, 50), number(-4, 4), dtype});
    Compare("eye", {},
            {AttrValue(Int(0, 9)), Int(0, 1) == 0 ? AttrValue() : AttrValue(Int(0, 9)),
             AttrValue(Int(-10, 10)), AttrValue(OneOf(kAllDtypes))});
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(results_, 400);
}

TEST_F(KernelsTest, Reductions) {
  for (const char* const op : {"sum", "amax", "amin", "argmax", "argmin", "logsumexp"}) {
    const bool arg = std::string(op).substr(0, 3) == "arg";
    const int before = results_;
    for (int round = 0; round < 150; ++round) {
      Shape shape = RandomShape(4, 9);
      if (round % 5 == 0) shape = {Int(1, 300), Int(1, 300)};
      if (round % 25 == 1) shape = {Int(1, 3), Int(20000, 60000)};
      if (round % 25 == 2) shape = {Int(4000, 20000), Int(1, 12)};
      const Dtype dtype = OneOf(kAllDtypes);
      Attrs attrs;
      if (arg) {
        const bool flat = shape.empty() || Int(0, 2) == 0;
        attrs.push_back(flat ? AttrValue() : AttrValue(Int(0, shape.size() - 1)));
      } else {
        Ints axes;
        for (int d = 0; d < shape.size(); ++d) {
          if (Int(0, 1) == 0) axes.push_back(d);
        }
        attrs.push_back(Int(0, 2) == 0 ? AttrValue() : AttrValue(axes));
      }
      attrs.push_back(AttrValue(Int(0, 1) == 0));
      if (op[0] == 's') attrs.push_back(AttrValue());
      // The order of additions differs: results of large sums are compared loosely.
      const Pair a = RandomArray(dtype, shape, -3, 3, Int(0, 3) == 0);
      Compare(op, {a}, attrs, 30 + static_cast<double>(NumElements(shape)) / 20);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(results_ - before, 80) << op;
  }
}

TEST_F(KernelsTest, Concatenate) {
  for (int round = 0; round < 150; ++round) {
    Shape shape = RandomShape(4, 6);
    const bool flat = shape.empty() || Int(0, 3) == 0;
    const int axis = flat ? 0 : static_cast<int>(Int(0, shape.size() - 1));
    std::vector<Pair> inputs;
    for (int64_t i = Int(1, 4); i > 0; --i) {
      if (!flat) shape[axis] = Int(0, 5);
      inputs.push_back(
          RandomArray(OneOf(kAllDtypes), flat ? RandomShape(3, 5) : shape, -9, 9, true));
    }
    Compare("concatenate", inputs, {flat ? AttrValue() : AttrValue(axis)});
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(results_, 150);
}

TEST_F(KernelsTest, TakeAndItsGradient) {
  int taken = 0;
  for (int round = 0; round < 300; ++round) {
    Shape shape = RandomShape(3, 9);
    shape.push_back(Int(1, 8));
    const int axis = static_cast<int>(Int(0, shape.size() - 1));
    const int64_t mode = Int(0, 2);
    const int64_t size = shape[axis];
    const bool outside = mode != 0 || Int(0, 5) == 0;
    const Dtype ints[] = {Dtype::kInt8, Dtype::kInt32, Dtype::kInt64, Dtype::kInt16};
    const Shape index_shape = RandomShape(2, round % 10 == 0 ? 60 : 8);
    const Pair indices = RandomArray(OneOf(ints), index_shape, outside ? -2 * size - 2 : -size,
                                     outside ? 2 * size + 2 : size - 1, false);
    const Pair a = RandomArray(OneOf(kAllDtypes), shape, -9, 9, false);
    const int before = results_;
    Compare("take", {a, indices}, {AttrValue(axis), AttrValue(mode)});
    if (HasFatalFailure()) return;
    if (results_ == before) continue;
    ++taken;
    Shape gy_shape;
    for (int d = 0; d < axis; ++d) gy_shape.push_back(shape[d]);
    for (const int64_t dim : index_shape) gy_shape.push_back(dim);
    for (int d = axis + 1; d < shape.size(); ++d) gy_shape.push_back(shape[d]);
    const Pair gy = RandomArray(OneOf(kAllDtypes), gy_shape, -9, 9, false);
    Compare("take_grad", {gy, indices},
            {AttrValue::FromInts(shape.span()), AttrValue(axis), AttrValue(mode)});
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(taken, 200);
}

TEST_F(KernelsTest, GetItemGradient) {
  for (int round = 0; round < 150; ++round) {
    const Shape shape = RandomShape(4, 8);
    IndexBuilder index;
    for (int d = 0; d < shape.size(); ++d) {
      const int64_t kind = Int(0, 4);
      if (kind == 0 && shape[d] > 0) {
        index.Int(Int(-shape[d], shape[d] - 1));
      } else if (kind == 1) {
        index.NewAxis().Slice(Int(-9, 9), absl::nullopt, Int(1, 3));
      } else if (kind == 2) {
        index.Slice(absl::nullopt, absl::nullopt, -Int(1, 3));
      } else {
        index.Slice(absl::nullopt, Int(0, 9), absl::nullopt);
      }
    }
    const Dtype dtype = OneOf(kAllDtypes);
    ArraySpec view;
    const absl::Status status =
        ApplyBasicIndex("getitem", index.Build().ints(), ArraySpec(dtype, shape), &view);
    if (!status.ok()) continue;
    Compare("getitem_grad", {RandomArray(dtype, view.shape, -9, 9, true)},
            {AttrValue::FromInts(shape.span()), index.Build()});
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(results_, 100);
}

TEST_F(KernelsTest, Matmul) {
  for (int round = 0; round < 400; ++round) {
    const int64_t m = Int(1, 9);
    const int64_t k = Int(0, 20) == 0 ? 0 : Int(1, 9);
    const int64_t n = Int(1, 9);
    Shape batch = RandomShape(3, 3);
    const auto operand_shape = [&](int64_t rows, int64_t columns, bool left) {
      if (Int(0, 7) == 0) return Shape{k};
      Shape shape;
      for (int d = static_cast<int>(Int(0, batch.size())); d < batch.size(); ++d) {
        shape.push_back(Int(0, 3) == 0 ? 1 : batch[d]);
      }
      static_cast<void>(left);
      shape.push_back(rows);
      shape.push_back(columns);
      return shape;
    };
    const Dtype dtype = Int(0, 1) == 0 ? OneOf(kFloats) : OneOf(kAllDtypes);
    const Pair a = RandomArray(dtype, operand_shape(m, k, true), -4, 4, false);
    const Pair b = RandomArray(dtype, operand_shape(k, n, false), -4, 4, false);
    Compare("matmul", {a, b}, {}, 40);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(results_, 300);
}

TEST_F(KernelsTest, Linear) {
  for (int round = 0; round < 200; ++round) {
    Shape x_shape = {Int(1, 5), Int(1, 4)};
    if (Int(0, 1) == 0) x_shape.push_back(Int(1, 4));
    const int64_t axes = Int(1, x_shape.size());
    int64_t features = 1;
    for (int d = static_cast<int>(axes); d < x_shape.size(); ++d) features *= x_shape[d];
    const int64_t units = Int(1, 7);
    const Dtype dtype = Int(0, 1) == 0 ? OneOf(kFloats) : OneOf(kAllDtypes);
    Compare("linear",
            {RandomArray(dtype, x_shape, -4, 4, false),
             RandomArray(dtype, {units, features}, -4, 4, false),
             Int(0, 1) == 0 ? Absent() : RandomArray(dtype, {units}, -4, 4, false)},
            {AttrValue(axes)}, 40);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(results_, 200);
}

TEST_F(KernelsTest, SoftmaxCrossEntropy) {
  for (int round = 0; round < 150; ++round) {
    const int64_t rows = Int(0, 20);
    const int64_t classes = round % 10 == 0 ? Int(200, 900) : Int(1, 12);
    const Dtype dtype = OneOf(kFloats);
    const int64_t high = Int(0, 5) == 0 ? classes : classes - 1;
    const Pair x = RandomArray(dtype, {rows, classes}, -9, 9, false);
    const Pair t = RandomArray(Dtype::kInt32, {rows}, -1, high, false);
    const Pair gy = RandomArray(dtype, {rows}, -2, 2, false);
    Compare("softmax_cross_entropy", {x, t}, {}, 20);
    Compare("softmax_cross_entropy_grad", {x, t, gy}, {}, 20);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(results_, 200);
}

TEST_F(KernelsTest, RandomNumbersAreTheSame) {
  for (const char* const op : {"random_uniform", "random_normal"}) {
    for (int round = 0; round < 60; ++round) {
      Compare(
          op, {},
          {AttrValue::FromInts(RandomShape(3, 9).span()), AttrValue(-1.5), AttrValue(2.5),
           AttrValue(OneOf(kFloats)), AttrValue(Int(0, INT64_MAX)), AttrValue(Int(0, INT64_MAX))},
          op[7] == 'u' ? 0 : 4);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_EQ(results_, 120);
}

}  // namespace
}  // namespace chx
