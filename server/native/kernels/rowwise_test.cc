// What rowwise kernels promise (server/engine/rowwise.h): a row's results are the same in any call.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "server/engine/rowwise.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

class RowwiseTest : public testing::Test {
 protected:
  // The operator's attributes with axes [first, ndim), or the last one of an operator that has one.
  static Attrs AttrsOf(const OpDef& op, int first, int ndim) {
    Attrs attrs;
    for (const AttrDef& attr : op.attrs) attrs.push_back(attr.default_value);
    Ints axes;
    for (int d = first; d < ndim; ++d) axes.push_back(d);
    const bool single = op.attrs[0].type == AttrType::kInt;
    attrs[0] = single ? AttrValue(int64_t{-1}) : AttrValue(axes);
    return attrs;
  }

  // Rows [begin, end) of what is dense, as one dimension behind others of size 1.
  static KernelTensor Rows(const KernelTensor& tensor, int row_dims, int64_t begin, int64_t end) {
    KernelTensor rows = tensor;
    for (int d = 0; d < row_dims - 1; ++d) rows.shape[d] = 1;
    rows.shape[row_dims - 1] = end - begin;
    rows.data += begin * tensor.strides[row_dims - 1];
    return rows;
  }

  Rowwise PromiseOf(const OpDef& op) { return FindRowwise(runner_.device().kernels().Find(op)); }
  int RowDimsOf(const OpDef& op, absl::Span<const KernelTensor> inputs, const KernelTensor& output,
                const Attrs& attrs) {
    const RowDims find = PromiseOf(op).row_dims;
    return find(op, inputs, absl::MakeConstSpan(&output, 1), attrs);
  }

  void Check(const OpDef& op, Dtype dtype, const Shape& shape, int row_dims) {
    const Attrs attrs = AttrsOf(op, row_dims, shape.size());
    std::vector<SpecOperand> specs;
    const ArraySpec spec(dtype, shape, 0);
    for (size_t i = 0; i < op.inputs.size(); ++i) specs.emplace_back(&spec);
    InferResult inferred;
    if (!InferOp({op, specs, attrs, 0}, &inferred).ok()) return;  // not for this dtype
    std::vector<TestArray> arrays;
    std::vector<KernelTensor> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      arrays.emplace_back(inferred.input_dtypes[i], shape);
      arrays.back().FillRandom(rng_, true);
      inputs.push_back(arrays.back().tensor());
    }
    const ArraySpec& result = inferred.outputs[0];
    const TestArray whole(result.dtype, result.shape);
    const int found = RowDimsOf(op, inputs, whole.tensor(), attrs);
    if (found == 0 && inputs[0].dtype != result.dtype) return;  // it casts them first
    if (op.attrs[0].type != AttrType::kInt) {
      ASSERT_EQ(found, row_dims) << op.name;
    }
    row_dims = found;
    ASSERT_TRUE(runner_.Call(op, inputs, {&whole.tensor(), 1}, attrs).ok());
    int64_t rows = 1;
    for (int d = 0; d < row_dims; ++d) rows *= shape[d];
    const TestArray parts(result.dtype, result.shape);
    for (int64_t begin = 0; begin < rows;) {
      const int64_t end = std::min(rows, begin + RandomInt(rng_, 1, 12));
      std::vector<KernelTensor> of_part;
      of_part.reserve(inputs.size());
      for (const KernelTensor& input : inputs) {
        of_part.push_back(Rows(input, row_dims, begin, end));
      }
      const KernelTensor out = Rows(parts.tensor(), row_dims, begin, end);
      ASSERT_TRUE(runner_.Call(op, of_part, {&out, 1}, attrs).ok());
      begin = end;
    }
    ++checked_;
    for (int64_t i = 0; i < whole.size(); ++i) {
      const Number a = whole.Get(i);
      const Number b = parts.Get(i);
      if (std::isnan(a) && std::isnan(b)) continue;
      ASSERT_TRUE(a == b && std::signbit(a) == std::signbit(b))
          << op.name << " of " << DtypeName(dtype) << shape.ToString() << ", result " << i;
    }
  }

  std::vector<const OpDef*> Ours() {
    std::vector<const OpDef*> ours;
    for (const auto& op : OpRegistry::Global().ops()) {
      if (PromiseOf(*op).row_dims != nullptr) ours.push_back(op.get());
    }
    return ours;
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{1};
  int checked_ = 0;
};

TEST_F(RowwiseTest, ARowHasTheSameResultsInAnyCall) {
  EXPECT_EQ(Ours().size(), 13U);
  for (const OpDef* op : Ours()) {
    checked_ = 0;
    for (Dtype dtype : kAllDtypes) {
      Check(*op, dtype, Shape({4, 13, 67}), 2);
      Check(*op, dtype, Shape({Rounds(40), 3, 1500}), 1);
      Check(*op, dtype, Shape({Rounds(500), 1}), 1);
    }
    EXPECT_GT(checked_, 0) << op->name;
  }
}

TEST_F(RowwiseTest, OtherAxesAndLayoutsHaveNoRows) {
  const OpDef& op = *OpRegistry::Global().Find("sum");
  const TestArray x(Dtype::kFloat32, Shape({20, 30}));
  const TestArray sums(Dtype::kFloat32, Shape({20}));
  const auto rows = [&](const TestArray& in, Attrs attrs) {
    return RowDimsOf(op, {&in.tensor(), 1}, sums.tensor(), attrs);
  };
  EXPECT_EQ(rows(x, {AttrValue(Ints{1}), false, AttrValue()}), 1);
  EXPECT_EQ(rows(x, {AttrValue(Ints{0}), false, AttrValue()}), 0);
  EXPECT_EQ(rows(x, {AttrValue(), false, AttrValue()}), 0);
  TestArray turned = x;
  std::swap(turned.tensor().strides[0], turned.tensor().strides[1]);
  EXPECT_EQ(rows(turned, {AttrValue(Ints{1}), false, AttrValue()}), 0);
  // Such rows are cut if there are few of them.
  const TestArray wide(Dtype::kFloat32, Shape({2, 1 << 17}));
  EXPECT_EQ(rows(wide, {AttrValue(Ints{1}), false, AttrValue()}), 0);
}

// A sum of everything, by hand.
TEST_F(RowwiseTest, FoldingGivesTheKernelsBits) {
  const OpDef& op = *OpRegistry::Global().Find("sum");
  const Attrs attrs = AttrsOf(op, 0, 0);
  const FindFolding find = PromiseOf(op).folding;
  ASSERT_NE(find, nullptr);
  for (Dtype dtype :
       {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64, Dtype::kInt64}) {
    for (int64_t size : {1, 5000, 131071, 131072, 700001, 5000000}) {
      TestArray x(dtype, Shape({size}));
      x.FillRandom(rng_, false);
      const TestArray wanted(dtype, Shape());
      Attrs all = attrs;
      all[0] = AttrValue();
      ASSERT_TRUE(runner_.Call(op, {&x.tensor(), 1}, {&wanted.tensor(), 1}, all).ok());
      const Folding folding = find(op, {&x.tensor(), 1}, {&wanted.tensor(), 1}, all);
      ASSERT_GT(folding.parts, 0);
      const int64_t item = ItemSize(dtype);
      std::vector<std::string> states(static_cast<size_t>(folding.parts));
      for (int64_t part = 0; part < folding.parts; ++part) {
        std::string& state = states[static_cast<size_t>(part)];
        state.resize(static_cast<size_t>(folding.state_bytes));
        folding.init(state.data(), 1);
        const int64_t end = size * (part + 1) / folding.parts;
        for (int64_t at = size * part / folding.parts; at < end;) {
          const int64_t n = std::min(end - at, RandomInt(rng_, 1, 9) * folding.piece);
          folding.gather(x.tensor().data + at * item, item, n, at, state.data());
          at += n;
        }
        if (part > 0) folding.combine(states[0].data(), state.data(), 1);
      }
      const TestArray found(dtype, Shape());
      folding.finish(states[0].data(), 1, found.tensor().data);
      EXPECT_EQ(found.Bytes(), wanted.Bytes()) << DtypeName(dtype) << " of " << size;
    }
  }
}

// Sums over the first dimensions, by hand, of rows that need not be dense.
TEST_F(RowwiseTest, FoldingOfRowsGivesTheKernelsBits) {
  const OpDef& op = *OpRegistry::Global().Find("sum");
  const FindFolding find = PromiseOf(op).folding;
  const std::vector<Shape> shapes = {
      {16400, 8}, {300, 500}, {3, 100, 513}, {260, 2000}, {5000, 1, 31}};
  for (Dtype dtype :
       {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64, Dtype::kInt64}) {
    for (const Shape& shape : shapes) {
      const int64_t width = shape.back();
      const int64_t rows = NumElements(shape) / width;
      Shape wide = shape;
      wide[wide.size() - 1] += RandomInt(rng_, 0, 3);
      TestArray x(dtype, wide);
      x.FillRandom(rng_, false);
      KernelTensor in = x.tensor();
      in.shape = shape;
      Attrs attrs = AttrsOf(op, 0, shape.size() - 1);
      const TestArray wanted(dtype, Shape({width}));
      ASSERT_TRUE(runner_.Call(op, {&in, 1}, {&wanted.tensor(), 1}, attrs).ok());
      const Folding folding = find(op, {&in, 1}, {&wanted.tensor(), 1}, attrs);
      ASSERT_GT(folding.parts, 1) << shape.ToString();
      ASSERT_EQ(folding.row_dims, shape.size() - 1);
      ASSERT_EQ(folding.width, width);
      const int64_t stride = in.strides[folding.row_dims - 1];
      std::string first;
      for (int64_t part = 0; part < folding.parts; ++part) {
        std::string states(static_cast<size_t>(width * folding.state_bytes), '\0');
        folding.init(states.data(), width);
        const int64_t end = rows * (part + 1) / folding.parts;
        for (int64_t at = rows * part / folding.parts; at < end;) {
          const int64_t n = std::min(end - at, RandomInt(rng_, 1, 4) * folding.piece);
          folding.gather_rows(in.data + at * stride, stride, n, width, at, states.data());
          at += n;
        }
        if (part == 0) {
          first = states;
        } else {
          folding.combine(first.data(), states.data(), width);
        }
      }
      const TestArray found(dtype, Shape({width}));
      folding.finish(first.data(), width, found.tensor().data);
      EXPECT_EQ(found.Bytes(), wanted.Bytes()) << DtypeName(dtype) << shape.ToString();
    }
  }
}

TEST_F(RowwiseTest, OtherSumsAreNoFoldings) {
  const OpDef& op = *OpRegistry::Global().Find("sum");
  const FindFolding find = PromiseOf(op).folding;
  const auto parts = [&](const KernelTensor& in, const Ints& axes) {
    const TestArray out(in.dtype, Shape({1}));
    return find(op, {&in, 1}, {&out.tensor(), 1}, {AttrValue(axes), false, AttrValue()}).parts;
  };
  const TestArray x(Dtype::kFloat32, Shape({40, 50, 300}));
  EXPECT_GT(parts(x.tensor(), {0, 1}), 1);
  EXPECT_EQ(parts(x.tensor(), {1}), 0);
  EXPECT_EQ(parts(x.tensor(), {0, 2}), 0);
  KernelTensor turned = x.tensor();  // of rows in another order
  std::swap(turned.shape[0], turned.shape[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  EXPECT_EQ(parts(turned, {0, 1}), 0);
  KernelTensor columns = x.tensor();
  std::swap(columns.shape[0], columns.shape[2]);
  std::swap(columns.strides[0], columns.strides[2]);
  EXPECT_EQ(parts(columns, {0, 1}), 0);
  EXPECT_EQ(parts(TestArray(Dtype::kFloat32, Shape({200, 4000})).tensor(), {0}), 0);  // not cut
}

}  // namespace
}  // namespace chx::server::native
