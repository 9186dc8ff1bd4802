#include "ops/inference_rules.h"

#include <vector>

#include "gtest/gtest.h"
#include "ops/registry.h"
#include "ops/testing/shape_only.h"

namespace chx {
namespace {

// Strides are NumPy 1.24's for a float32 array; none: NumPy copies.
struct ReshapeCase {
  Shape from;
  Strides strides;
  Shape to;
  absl::optional<Strides> expected;
};

TEST(ReshapeStridesTest, AsNumPy) {
  const absl::optional<Strides> copy;
  const std::vector<ReshapeCase> cases = {
      // C order.
      {{4, 6}, {24, 4}, {2, 2, 6}, Strides{48, 24, 4}},
      {{4, 6}, {24, 4}, {24}, Strides{4}},
      {{4, 6}, {24, 4}, {3, 2, 4}, Strides{32, 16, 4}},
      {{}, {}, {1, 1}, Strides{4, 4}},
      {{1}, {4}, {}, Strides{}},
      // a[::2].
      {{2, 6}, {48, 4}, {12}, copy},
      {{2, 6}, {48, 4}, {4, 3}, copy},
      {{2, 6}, {48, 4}, {1, 4, 3}, copy},
      {{2, 6}, {48, 4}, {2, 2, 3}, Strides{48, 12, 4}},
      {{2, 6}, {48, 4}, {1, 2, 6}, Strides{96, 48, 4}},
      // a[:, ::2].
      {{4, 3}, {24, 8}, {12}, Strides{8}},
      {{4, 3}, {24, 8}, {2, 6}, Strides{48, 8}},
      {{4, 3}, {24, 8}, {4, 1, 3}, Strides{24, 24, 8}},
      {{4, 3}, {24, 8}, {1, 4, 3}, Strides{96, 24, 8}},
      {{4, 3}, {24, 8}, {4, 3, 1}, Strides{24, 8, 8}},
      // a.T.
      {{6, 4}, {4, 24}, {4, 6}, copy},
      {{6, 4}, {4, 24}, {24}, copy},
      {{6, 4}, {4, 24}, {3, 2, 4}, Strides{8, 4, 24}},
      // a[::-1].
      {{4, 6}, {-24, 4}, {2, 2, 6}, Strides{-48, -24, 4}},
      {{4, 6}, {-24, 4}, {4, 2, 3}, Strides{-24, 12, 4}},
      {{4, 6}, {-24, 4}, {24}, copy},
      // a[1:2, ::2].
      {{1, 3}, {24, 8}, {1, 3}, Strides{24, 8}},
      {{1, 3}, {24, 8}, {3}, Strides{8}},
      {{1, 3}, {24, 8}, {3, 1, 1}, Strides{8, 8, 8}},
      // broadcast_to(a[0], (3, 6)).
      {{3, 6}, {0, 4}, {3, 6}, Strides{0, 4}},
      {{3, 6}, {0, 4}, {18}, copy},
      {{3, 6}, {0, 4}, {3, 2, 3}, Strides{0, 12, 4}},
      // a[:0] and a[:, :0].
      {{0, 6}, {24, 4}, {0}, Strides{4}},
      {{0, 6}, {24, 4}, {4, 0, 2}, Strides{8, 8, 4}},
      {{4, 0}, {24, 4}, {0, 2, 3}, Strides{24, 12, 4}},
      {{3, 0}, {0, 0}, {3, 0}, Strides{0, 0}},
  };
  for (const ReshapeCase& c : cases) {
    ArraySpec from(Dtype::kFloat32, c.from);
    from.strides = c.strides;
    Strides strides;
    const std::string what = c.from.ToString() + " to " + c.to.ToString();
    const bool view = rules::ReshapeStrides(from, c.to, &strides);
    EXPECT_EQ(view, c.expected.has_value()) << what;
    if (view && c.expected.has_value()) {
      EXPECT_EQ(strides, *c.expected) << what << ": " << strides.ToString();
    }
  }
}

absl::StatusOr<InferResult> InferByName(const char* name, std::vector<Argument> inputs,
                                        Attrs attrs) {
  Call call{OpRegistry::Global().Find(name), std::move(inputs), std::move(attrs)};
  InferResult result;
  CHX_RETURN_IF_ERROR(Infer(call, &result));
  return result;
}

std::string Message(const absl::StatusOr<InferResult>& result) {
  return std::string(result.status().message());
}

ArraySpec F32(const Shape& shape) { return ArraySpec(Dtype::kFloat32, shape); }

TEST(RulesTest, ReshapeCopiesFirst) {
  ArraySpec a = F32({4, 6});
  a.strides = {-24, 4};
  a.offset = 72;
  absl::StatusOr<InferResult> result = InferByName("reshape", {a}, {AttrValue(Ints{-1})});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->copy_first);
  EXPECT_EQ(result->outputs[0].shape, Shape{24});
  EXPECT_EQ(result->outputs[0].strides, Strides{4});
  EXPECT_EQ(result->outputs[0].offset, 0);
  result = InferByName("reshape", {a}, {AttrValue(Ints{4, 2, -1})});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->copy_first);
  EXPECT_EQ(result->outputs[0].offset, 72);
  // Any negative number, as NumPy takes it.
  result = InferByName("reshape", {F32({6})}, {AttrValue(Ints{2, -5})});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->outputs[0].shape, (Shape{2, 3}));
}

TEST(RulesTest, ReshapeErrors) {
  for (const Ints& shape : {Ints{5}, Ints{-1, -1}, Ints{0, -1}, Ints{-2, -3},
                            Ints{INT64_MAX, INT64_MAX}, Ints(1000, 1), Ints{4, -1}}) {
    const auto result = InferByName("reshape", {F32({6})}, {AttrValue(shape)});
    EXPECT_EQ(KindOf(result.status()), ErrorKind::kDimension) << Message(result);
  }
}

TEST(RulesTest, Axes) {
  EXPECT_EQ(*rules::NormalizeAxis("op", -1, 3), 2);
  EXPECT_EQ(rules::NormalizeAxis("op", 3, 3).status().message(),
            "[op] expects an axis in [-3, 3), got 3");
  EXPECT_FALSE(rules::NormalizeAxis("op", INT64_MIN, 3).ok());
  EXPECT_FALSE(rules::NormalizeAxis("op", 0, 0).ok());
  EXPECT_EQ(*rules::NormalizeAxes("op", AttrValue(), 3), 7u);
  EXPECT_EQ(*rules::NormalizeAxes("op", AttrValue(Ints{2, -3}), 3), 5u);
  EXPECT_EQ(*rules::NormalizeAxes("op", AttrValue(Ints{}), 3), 0u);
  EXPECT_FALSE(rules::NormalizeAxes("op", AttrValue(Ints{1, -2}), 3).ok());
  EXPECT_EQ(rules::ReducedShape({2, 3, 4}, 5, false), Shape{3});
  EXPECT_EQ(rules::ReducedShape({2, 3, 4}, 5, true), (Shape{1, 3, 1}));
}

TEST(RulesTest, DtypesOfElementwiseOperators) {
  const ArraySpec i8(Dtype::kInt8, {2});
  const ArraySpec u8(Dtype::kUint8, {2});
  const ArraySpec f16(Dtype::kFloat16, {2});
  const ArraySpec boolean(Dtype::kBool, {2});
  const struct {
    const char* op;
    std::vector<Argument> inputs;
    Dtype computed;
    Dtype result;
  } cases[] = {
      {"add", {i8, u8}, Dtype::kInt16, Dtype::kInt16},
      {"add", {f16, Scalar(1.5)}, Dtype::kFloat16, Dtype::kFloat16},
      {"add", {i8, Scalar(1.5)}, Dtype::kFloat32, Dtype::kFloat32},
      {"multiply", {boolean, boolean}, Dtype::kBool, Dtype::kBool},
      {"relu", {i8}, Dtype::kFloat32, Dtype::kFloat32},
      {"left_shift", {u8, i8}, Dtype::kUint8, Dtype::kUint8},
      {"right_shift", {Scalar(1), i8}, Dtype::kInt64, Dtype::kInt64},
      {"equal", {boolean, boolean}, Dtype::kBool, Dtype::kBool},
      {"equal", {i8, Scalar(true)}, Dtype::kInt8, Dtype::kBool},
      {"multiply", {Scalar(2), boolean}, Dtype::kInt32, Dtype::kInt32},
      {"divide", {i8, Scalar(2)}, Dtype::kFloat32, Dtype::kFloat32},
      {"divide", {f16, i8}, Dtype::kFloat16, Dtype::kFloat16},
      {"less", {i8, u8}, Dtype::kInt16, Dtype::kBool},
      {"logical_and", {f16, Scalar(0)}, Dtype::kBool, Dtype::kBool},
      {"exp", {i8}, Dtype::kFloat32, Dtype::kFloat32},
      {"logical_not", {f16}, Dtype::kBool, Dtype::kBool},
  };
  for (const auto& c : cases) {
    const auto result = InferByName(c.op, c.inputs, {});
    ASSERT_TRUE(result.ok()) << Message(result);
    EXPECT_EQ(result->outputs[0].dtype, c.result) << c.op;
    for (Dtype dtype : result->input_dtypes) EXPECT_EQ(dtype, c.computed) << c.op;
  }
  for (const char* op : {"add", "subtract", "divide", "floor_divide", "remainder", "power",
                         "left_shift", "add_", "subtract_", "remainder_"}) {
    for (const Argument& other : std::vector<Argument>{boolean, i8, Scalar(1)}) {
      const auto result = InferByName(op, {boolean, other}, {});
      EXPECT_EQ(KindOf(result.status()), ErrorKind::kDtype) << op;
    }
    EXPECT_EQ(KindOf(InferByName(op, {i8, Scalar(true)}, {}).status()), ErrorKind::kDtype) << op;
  }
  for (const char* op : {"maximum", "minimum", "equal", "less"}) {
    EXPECT_EQ(KindOf(InferByName(op, {boolean, i8}, {}).status()), ErrorKind::kDtype) << op;
    EXPECT_EQ(KindOf(InferByName(op, {f16, boolean}, {}).status()), ErrorKind::kDtype) << op;
  }
  EXPECT_EQ(Message(InferByName("negative", {boolean}, {})),
            "[negative] expects a numeric dtype, got bool");
}

TEST(RulesTest, InPlaceRefusals) {
  const ArraySpec i32(Dtype::kInt32, {2});
  const ArraySpec boolean(Dtype::kBool, {2});
  EXPECT_EQ(Message(InferByName("add_", {i32, Scalar(1.5)}, {})),
            "In-place assignment of float values into non-float array is not allowed.");
  EXPECT_EQ(Message(InferByName("multiply_", {boolean, i32}, {})),
            "In-place assignment of numerical values into bool array is not allowed.");
  EXPECT_EQ(Message(InferByName("divide_", {i32, i32}, {})),
            "Integer inplace-division is not allowed.");
  EXPECT_EQ(KindOf(InferByName("add_", {F32({3}), F32({2, 3})}, {}).status()),
            ErrorKind::kDimension);
  EXPECT_TRUE(InferByName("add_", {F32({2, 3}), i32}, {}).status().message().find("broadcast") !=
              std::string::npos);
  EXPECT_TRUE(InferByName("add_", {F32({3, 2}), i32}, {}).ok());
  EXPECT_TRUE(InferByName("divide_", {F32({2}), i32}, {}).ok());
}

TEST(RulesTest, ViewsHaveNumPysStrides) {
  ArraySpec a = F32({3, 4});
  a.strides = {32, 8};
  auto result = InferByName("expand_dims", {a}, {AttrValue(1)});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->outputs[0].strides, (Strides{32, 32, 8}));
  result = InferByName("broadcast_to", {F32({1, 3})}, {AttrValue(Ints{4, 1, 3})});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->outputs[0].strides, (Strides{0, 0, 4}));
  EXPECT_EQ(F32({3, 0}).strides, (Strides{0, 0}));
  EXPECT_TRUE(F32({0, 3}).is_contiguous());
}

TEST(RulesTest, AsStridedStaysInside) {
  const OpDef& op = *OpRegistry::Global().Find("as_strided");
  ArraySpec a(Dtype::kFloat32, {12});
  a.offset = 8;
  const auto run = [&](const Ints& shape, const Ints& strides, int64_t offset, ArraySpec in) {
    const SpecOperand input(&in);
    const AttrValue attrs[] = {AttrValue(shape), AttrValue(strides), AttrValue(offset)};
    InferResult result;
    const absl::Status status = InferOp({op, {&input, 1}, attrs}, &result);
    if (status.ok()) {
      EXPECT_EQ(result.outputs[0].offset, in.offset + offset);
      EXPECT_EQ(result.outputs[0].strides.ToString(), Strides(strides).ToString());
    }
    return status.ok();
  };
  EXPECT_TRUE(run({2, 3}, {-20, 8}, 24, a));
  EXPECT_TRUE(run({3, 11}, {0, 4}, 4, a));
  EXPECT_TRUE(run({2, 1, 1}, {44, 4000, -4000}, 0, a));
  EXPECT_TRUE(run({0, 5}, {-4000, 4000}, 48, a));
  EXPECT_FALSE(run({2, 3}, {-20, 8}, 16, a));  // begins too early
  EXPECT_FALSE(run({2, 3}, {-20, 8}, 36, a));  // ends too late
  EXPECT_FALSE(run({1}, {4}, 48, a));
  EXPECT_FALSE(run({1}, {4}, -4, a));
  EXPECT_FALSE(run({2}, {6}, 0, a));
  EXPECT_FALSE(run({2}, {4}, 2, a));
  EXPECT_FALSE(run({2}, {4, 4}, 0, a));
  EXPECT_FALSE(run({2, -1}, {4, 4}, 0, a));
  EXPECT_FALSE(run({5, 5}, {INT64_MAX - 3, INT64_MAX - 3}, 0, a));
  EXPECT_FALSE(run({int64_t{1} << 59}, {16}, 0, a));
  EXPECT_FALSE(run({2}, {INT64_MIN}, 0, a));
  ArraySpec gaps = a;
  gaps.strides = {8};
  EXPECT_FALSE(run({2}, {4}, 0, gaps));
}

TEST(RulesTest, ConcatenateDoesNotOverflow) {
  // Views that repeat one byte, as often as shapes allow.
  ArraySpec huge(Dtype::kInt8, {1});
  huge.shape = {(int64_t{1} << 62) - 1};
  huge.strides = {0};
  ASSERT_TRUE(CheckShape("", huge.shape.span(), huge.dtype).ok());
  for (const AttrValue& axis : {AttrValue(0), AttrValue()}) {
    const auto result = InferByName("concatenate", {huge, huge, huge, huge}, {axis});
    EXPECT_EQ(KindOf(result.status()), ErrorKind::kDimension);
  }
}

TEST(RulesTest, CallsAreChecked) {
  const ArraySpec a = F32({2});
  ArraySpec elsewhere = a;
  elsewhere.device = 1;
  EXPECT_EQ(KindOf(InferByName("add", {a}, {}).status()), ErrorKind::kType);
  EXPECT_EQ(KindOf(InferByName("add", {Scalar(1), Scalar(2)}, {}).status()), ErrorKind::kType);
  EXPECT_EQ(KindOf(InferByName("exp", {Scalar(1)}, {}).status()), ErrorKind::kType);
  EXPECT_EQ(KindOf(InferByName("add", {a, elsewhere}, {}).status()), ErrorKind::kDevice);
  EXPECT_EQ(KindOf(InferByName("sum", {a}, {AttrValue()}).status()), ErrorKind::kType);
  EXPECT_EQ(KindOf(InferByName("sum", {a}, {AttrValue(), AttrValue(), AttrValue()}).status()),
            ErrorKind::kType);
  EXPECT_EQ(KindOf(InferByName("sum", {a}, {AttrValue(1), AttrValue(true), AttrValue()}).status()),
            ErrorKind::kType);
  EXPECT_EQ(KindOf(InferByName("astype", {a}, {AttrValue(static_cast<Dtype>(77))}).status()),
            ErrorKind::kDtype);
  const ArraySpec indices(Dtype::kInt8, {1});
  EXPECT_EQ(KindOf(InferByName("take", {a, indices}, {AttrValue(0), AttrValue(3)}).status()),
            ErrorKind::kValue);
  EXPECT_EQ(KindOf(InferByName("take", {a, a}, {AttrValue(0), AttrValue()}).status()),
            ErrorKind::kDtype);
  // None is a value where the declaration says so.
  EXPECT_TRUE(InferByName("concatenate", {a, a}, {AttrValue()}).ok());
  EXPECT_FALSE(InferByName("stack", {a, a}, {AttrValue()}).ok());
}

}  // namespace
}  // namespace chx
