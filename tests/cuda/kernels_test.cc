// Every kernel of the cuda backend, run on the CPU (server/cuda/loops/launch.h), must agree with
// the native backend's on random arrays of random layouts.
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "ops/basic_index.h"
#include "ops/registry.h"
#include "tests/cuda/kernels_fixture.h"

namespace chx::server {
namespace {

// How many results a random test is sure to have. Its rounds under a sanitizer are too few for
// that.
int AtLeast(int results) { return kSanitized ? 0 : results; }

TEST_F(KernelsTest, Elementwise) {
  for (const auto& op : OpRegistry::Global().ops()) {
    if (!op->elementwise || op->kind != OpKind::kKernel || op->in_place) continue;
    const int before = results_;
    for (int round = 0; round < Rounds(60); ++round) {
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
    EXPECT_GE(results_ - before, AtLeast(5)) << op->name;
  }
}

// Rows of whole packs (server/cuda/loops/elementwise.h), against what broadcasts along them and
// across.
TEST_F(KernelsTest, Broadcasts) {
  for (int round = 0; round < Rounds(200); ++round) {
    const Shape shape = {Int(1, 5), Int(1, 5), 4 * Int(1, 9)};
    const Dtype dtype = OneOf(kAllDtypes);
    std::vector<Pair> inputs;
    for (int k = 0; k < 3; ++k) {
      Shape own = shape;
      for (int d = 0; d < own.size(); ++d) {
        if (Int(0, 2) == 0) own[d] = 1;
      }
      inputs.push_back(RandomArray(k == 0 ? Dtype::kBool : dtype, own, -9, 9, true));
    }
    Compare("where", inputs);
    inputs.erase(inputs.begin());
    Compare("add", inputs);
    Compare("less", inputs);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(results_, AtLeast(500));  // bools are not added
}

TEST_F(KernelsTest, InPlace) {
  for (const auto& op : OpRegistry::Global().ops()) {
    if (!op->in_place || op->has_lists() || op->inputs.size() > 2) continue;  // conformance
    const int before = results_;
    // Some combinations of dtypes are refused by both devices.
    for (int round = 0; round < Rounds(60) || (results_ - before < 10 && round < 1000); ++round) {
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
  EXPECT_EQ(results_, kNumDtypes * kNumDtypes * 4 * 2);
}

TEST_F(KernelsTest, Pooling) {
  for (int round = 0; round < Rounds(200); ++round) {
    const Dtype dtype = OneOf(kFloats);
    Shape x = {Int(1, 3), Int(1, 3)};
    Shape y = x;
    Ints kernel;
    Ints stride;
    Ints pad;
    const bool cover_all = Int(0, 1) == 0;
    const int64_t ndim = Int(1, 4);
    for (int64_t d = 0; d < ndim; ++d) {
      kernel.push_back(Int(1, ndim < 3 ? 6 : 3));
      stride.push_back(Int(1, 4));
      pad.push_back(Int(0, 3));
      x.push_back(Int(kernel[d], ndim < 3 ? 12 : 5));
      const int64_t rest = x[d + 2] + 2 * pad[d] - kernel[d] + (cover_all ? stride[d] - 1 : 0);
      y.push_back(rest / stride[d] + 1);
    }
    const Pair image = RandomArray(dtype, x, -9, 9, round % 4 == 0);
    // Whole numbers, so that sums do not depend on their order.
    const Pair whole = Whole(RandomArray(dtype, x, -9, 9, false));
    const Pair sums = Whole(RandomArray(dtype, y, -9, 9, false));
    const AttrValue shape = AttrValue::FromInts(x.span());
    const Attrs windows = {AttrValue(kernel), AttrValue(stride), AttrValue(pad)};
    Attrs all = windows;
    all.push_back(AttrValue(cover_all));
    Compare("max_pool_index", {image}, all);
    // The second output, by which the gradients go.
    RunOutputs want;
    RunOutputs got;
    const OpDef& op = *OpRegistry::Global().Find("max_pool_index");
    ASSERT_TRUE(RunOn(op, {image}, all, kNative, &want).ok());
    ASSERT_TRUE(RunOn(op, {image}, all, kEmulated, &got).ok());
    Pair index;
    index.native = want[1];
    index.emulated = got[1];
    ExpectClose("positions", want[1], got[1], 0);
    Compare("pool_gather", {image, index}, all);
    all.insert(all.begin(), shape);
    Compare("pool_scatter", {sums, index}, all, 0);
    if (!cover_all) {
      const AttrValue pad_mode(Int(0, 1));
      Attrs averages = windows;
      averages.push_back(pad_mode);
      Compare("average_pool", {whole}, averages, 0);
      all.back() = pad_mode;
      Compare("average_pool_grad", {sums}, all);
    }
    if (HasFatalFailure()) return;
  }
}

TEST_F(KernelsTest, Creation) {
  for (int round = 0; round < Rounds(200); ++round) {
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
    const Shape labels = RandomShape(3, 8);
    Compare("one_hot", {RandomArray(Dtype::kInt64, labels, -2, 9, false)},
            {AttrValue(Int(0, 9)), AttrValue(OneOf(kAllDtypes)), AttrValue(Int(0, labels.size()))});
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(results_, AtLeast(400));
}

TEST_F(KernelsTest, Reductions) {
  for (const char* const op : {"sum", "amax", "amin", "argmax", "argmin", "logsumexp"}) {
    const bool arg = std::string(op).substr(0, 3) == "arg";
    const int before = results_;
    for (int round = 0; round < Rounds(150); ++round) {
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
    EXPECT_GE(results_ - before, AtLeast(80)) << op;
  }
}

TEST_F(KernelsTest, Concatenate) {
  for (int round = 0; round < Rounds(150); ++round) {
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
  EXPECT_EQ(results_, Rounds(150));
}

TEST_F(KernelsTest, TakeAndItsGradient) {
  int taken = 0;
  for (int round = 0; round < Rounds(300); ++round) {
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
  EXPECT_GE(taken, AtLeast(200));
}

TEST_F(KernelsTest, GetItemGradient) {
  for (int round = 0; round < Rounds(150); ++round) {
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
  EXPECT_GE(results_, AtLeast(100));
}

TEST_F(KernelsTest, Matmul) {
  for (int round = 0; round < Rounds(400); ++round) {
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
  EXPECT_GE(results_, AtLeast(300));
}

TEST_F(KernelsTest, Linear) {
  for (int round = 0; round < Rounds(200); ++round) {
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
  EXPECT_EQ(results_, Rounds(200));
}

TEST_F(KernelsTest, SoftmaxCrossEntropy) {
  for (int round = 0; round < Rounds(150); ++round) {
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
  EXPECT_GE(results_, AtLeast(200));
}

// Rows of all lengths that kernels treat differently.
TEST_F(KernelsTest, Softmax) {
  for (const std::string op : {"softmax", "log_softmax"}) {
    const int before = results_;
    for (int round = 0; round < Rounds(120); ++round) {
      Shape shape = RandomShape(4, 9);
      if (round % 4 == 0) shape = {Int(1, 40), Int(1, 300)};
      if (round % 8 == 1) shape = {Int(1, 3), 8 * Int(1, 1200)};
      if (round % 8 == 2) shape = {Int(1, 3), Int(1, 9000)};
      Ints axes;  // the last ones
      for (int64_t d = Int(0, shape.size()); d < shape.size(); ++d) axes.push_back(d);
      const AttrValue axis(axes);
      const bool specials = Int(0, 3) == 0;
      // Differences of exponents of up to 20 are rounded.
      const double tolerance = 60 + static_cast<double>(NumElements(shape)) / 20;
      Compare(op, {RandomArray(OneOf(kAllDtypes), shape, -9, 9, specials)}, {axis}, tolerance);
      const Dtype dtype = OneOf(kFloats);
      const Pair y = RandomArray(dtype, shape, -3, 0, false);
      // A sum of all elements may be a thousand times as large as what is left of it.
      Compare(op + "_grad", {y, RandomArray(dtype, shape, -3, 3, false)}, {axis}, 20 * tolerance);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(results_ - before, AtLeast(150)) << op;
  }
}

TEST_F(KernelsTest, NormalizationsOfRows) {
  for (const std::string op : {"layer_norm", "rms_norm", "group_norm"}) {
    const int before = results_;
    for (int round = 0; round < Rounds(120); ++round) {
      const bool of_groups = op == "group_norm";
      Shape shape = RandomShape(3, 9);
      shape.push_back(Int(1, 12));
      if (of_groups) shape = {Int(1, 4), Int(1, 4), Int(1, 9), Int(1, 9)};
      if (round % 4 == 0) shape = {Int(1, 300), Int(1, 40)};
      if (round % 8 == 1) shape = {Int(1, 3), 8 * Int(1, 1200)};
      if (round % 8 == 2) shape = {Int(1, 3), Int(1, 9000)};
      const int64_t groups = of_groups ? Int(1, 3) : 0;
      if (of_groups) shape[1] *= groups;
      const Shape parameter = {of_groups ? shape[1] : shape[shape.size() - 1]};
      const AttrValue rows = of_groups ? AttrValue(groups) : AttrValue();
      const AttrValue eps(0.01);
      const Dtype dtype = OneOf(kFloats);
      const auto random = [&](const Shape& of) { return RandomArray(dtype, of, -3, 3, false); };
      const double tolerance = 200 + static_cast<double>(NumElements(shape)) / 20;
      const Pair x = random(shape);
      const Pair weight = Int(0, 2) == 0 ? Absent() : random(parameter);
      const Pair bias = Int(0, 2) == 0 ? Absent() : random(parameter);
      std::vector<Pair> inputs = {x, weight};
      if (op != "rms_norm") inputs.push_back(bias);
      Compare(op, inputs, {rows, eps}, tolerance);
      // Gradients of no elements are those of the composition on the native device.
      if (NumElements(shape) > 0) {
        Compare(op + "_grad", {x, random(shape), weight}, {rows, eps, AttrValue(Int(0, 3) > 0)},
                10 * tolerance);
      }
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(results_ - before, AtLeast(200)) << op;
  }
}

// Channels of few and of many elements, in packs and not, in one part and in several.
TEST_F(KernelsTest, NormalizationsOfChannels) {
  for (int round = 0; round < Rounds(150); ++round) {
    Shape shape = {Int(1, 9), Int(1, 40), Int(1, 9), Int(1, 9)};
    if (round % 4 == 0) shape = {Int(1, 9), Int(1, 4), 8 * Int(1, 700), 1};
    if (round % 4 == 1) shape = {Int(1, 3000), Int(1, 80), 1, 1};
    const Shape parameter = {shape[1]};
    const Dtype dtype = Int(0, 3) == 0 ? Dtype::kFloat64 : Dtype::kFloat32;
    const AttrValue eps(0.01);
    const AttrValue axis(Ints{0, 2, 3});
    const auto random = [&](const Shape& of) { return RandomArray(dtype, of, -3, 3, false); };
    const double tolerance = 200 + static_cast<double>(NumElements(shape)) / 20;
    const Pair x = random(shape);
    const Pair gamma = random(parameter);
    const Pair beta = random(parameter);
    Compare("batch_norm_forward", {x, gamma, beta}, {eps, axis}, tolerance);
    Compare("batch_norm_grad", {x, gamma, random(shape)}, {eps, axis}, 10 * tolerance);
    const Pair variance = RandomArray(dtype, parameter, 1, 3, false);
    Compare("fixed_batch_norm", {x, gamma, beta, random(parameter), variance}, {eps, axis}, 200);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(results_, AtLeast(450));
}

TEST_F(KernelsTest, RandomNumbersAreTheSame) {
  for (const char* const op : {"random_uniform", "random_normal"}) {
    for (int round = 0; round < Rounds(60); ++round) {
      Compare(
          op, {},
          {AttrValue::FromInts(RandomShape(3, 9).span()), AttrValue(-1.5), AttrValue(2.5),
           AttrValue(OneOf(kFloats)), AttrValue(Int(0, INT64_MAX)), AttrValue(Int(0, INT64_MAX))},
          op[7] == 'u' ? 0 : 4);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_EQ(results_, Rounds(120));
}

}  // namespace
}  // namespace chx::server
