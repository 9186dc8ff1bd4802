// Decompositions by way of cuSOLVER's interface, which LAPACK answers here, against those on the
// host: the same numbers and the same errors, whatever the matrices' shapes, stacks and layouts.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/registry.h"
#include "server/cuda/kernels/decompositions_solver.h"
#include "server/cuda/testing/emulated_backend.h"
#include "server/cuda/testing/emulated_libraries.h"
#include "tests/cuda/two_devices_test.h"

namespace chx::server {
namespace {

constexpr DeviceId kHost = 0;
constexpr DeviceId kLibrary = 1;

class DecompositionsTest : public TwoDevicesTest {
 protected:
  DecompositionsTest()
      : TwoDevicesTest(cuda::NewEmulatedBackend("host"),
                       cuda::NewEmulatedBackend("library", true)) {}

  // Far from singular.
  std::vector<double> Random(const Shape& shape) {
    std::vector<double> values(NumElements(shape));
    const int64_t columns = shape.back();
    const int64_t rows = shape[shape.size() - 2];
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = std::uniform_real_distribution<double>(-1, 1)(rng_);
      const int64_t at = static_cast<int64_t>(i) % (rows * columns);
      if (at / columns == at % columns) values[i] += 4.0 + static_cast<double>(at % columns);
    }
    return values;
  }
  // In C order, or (transposed) as a view of an array with the last two axes swapped.
  Array Upload(const Shape& shape, const std::vector<double>& values, bool transposed,
               DeviceId device) {
    Array array = *executor_->Allocate(ArraySpec(Dtype::kFloat64, shape, device));
    std::vector<double> laid_out = values;
    if (transposed) {
      const int64_t columns = shape.back();
      const int64_t rows = shape[shape.size() - 2];
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t at = static_cast<int64_t>(i) % (rows * columns);
        laid_out[i - at + at % columns * rows + at / columns] = values[i];
      }
      const int last = shape.size() - 1;
      array.spec.strides[last] = rows * static_cast<int64_t>(sizeof(double));
      array.spec.strides[last - 1] = sizeof(double);
    }
    Array raw = array;
    raw.spec.strides = ContiguousStrides(shape, sizeof(double));
    const absl::string_view bytes(reinterpret_cast<const char*>(laid_out.data()),
                                  laid_out.size() * sizeof(double));
    EXPECT_TRUE(executor_->CopyIn(raw, 0, bytes).ok());
    return array;
  }

  using Results = std::vector<std::vector<double>>;
  absl::Status Run(const std::string& op, const std::vector<Array>& arrays, const Attrs& attrs,
                   DeviceId device, Results* results) {
    std::vector<ArrayOperand> inputs;
    for (const Array& array : arrays) inputs.emplace_back(&array);
    RunOutputs outputs;
    const absl::Status status =
        executor_->Run({*OpRegistry::Global().Find(op), inputs, attrs, device}, &outputs);
    for (const Array& output : outputs) {
      const std::string bytes = *executor_->CopyOut(output);
      results->emplace_back(bytes.size() / sizeof(double));
      if (!bytes.empty()) std::memcpy(results->back().data(), bytes.data(), bytes.size());
    }
    return status;
  }

  struct Input {
    Shape shape;
    std::vector<double> values;
  };
  // Runs on both; the library must have been called where it answers.
  void RunBoth(const std::string& op, const std::vector<Input>& inputs, const Attrs& attrs,
               Results* want, Results* got) {
    absl::Status statuses[2];
    for (const DeviceId device : {kHost, kLibrary}) {
      const int64_t before = cuda::EmulatedLibraryCalls();
      std::vector<Array> arrays;
      for (const Input& input : inputs) {
        const bool transposed = std::uniform_int_distribution<int>(0, 1)(rng_) != 0;
        arrays.push_back(Upload(input.shape, input.values, transposed, device));
      }
      statuses[device] = Run(op, arrays, attrs, device, device == kHost ? want : got);
      EXPECT_EQ(cuda::EmulatedLibraryCalls() > before, device == kLibrary) << op;
    }
    ASSERT_EQ(statuses[kLibrary].message(), statuses[kHost].message()) << op;
  }
  static void ExpectClose(const Results& want, const Results& got, const std::string& text) {
    ASSERT_EQ(got.size(), want.size()) << text;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].size(), want[i].size()) << text;
      for (size_t k = 0; k < want[i].size(); ++k) {
        ASSERT_NEAR(got[i][k], want[i][k], 1e-10) << text << ", output " << i << ", " << k;
      }
    }
  }
  void Compare(const std::string& op, const std::vector<Shape>& shapes, const Attrs& attrs) {
    std::vector<Input> inputs;
    inputs.reserve(shapes.size());
    for (const Shape& shape : shapes) inputs.push_back({shape, Random(shape)});
    Results want;
    Results got;
    RunBoth(op, inputs, attrs, &want, &got);
    ExpectClose(want, got, op + " " + shapes[0].ToString());
  }
};

TEST_F(DecompositionsTest, SolveWithBroadcastStacks) {
  Compare("solve", {{3, 3}, {3, 2}}, {});
  Compare("solve", {{5, 5}, {5, 1}}, {});
  Compare("solve", {{2, 1, 4, 4}, {1, 3, 4, 5}}, {});
  Compare("solve", {{3, 3}, {4, 2, 3, 3}}, {});
  Compare("solve", {{6, 2, 2}, {6, 2}}, {});
}

TEST_F(DecompositionsTest, CholeskyReadsTheLowerHalf) {
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 5}, Shape{2, 3, 4, 4}}) {
    Compare("cholesky", {shape}, {});
  }
}

TEST_F(DecompositionsTest, EigenvaluesAndVectorsOfEitherHalf) {
  for (int64_t half = 0; half < 4; ++half) {
    Compare("eigh", {{4, 4}}, {AttrValue(half)});
    Compare("eigh", {{3, 2, 2}}, {AttrValue(half)});
    Compare("eigvalsh", {{2, 5, 5}}, {AttrValue(half)});
  }
}

TEST_F(DecompositionsTest, QrInAllModes) {
  for (int64_t mode = 0; mode < 4; ++mode) {
    for (const Shape& shape : {Shape{4, 4}, Shape{5, 2}, Shape{2, 5}, Shape{3, 4, 3}}) {
      Compare("qr", {shape}, {AttrValue(mode)});
    }
  }
}

// Vectors have either sign: what they make together counts.
TEST_F(DecompositionsTest, SingularValuesAndVectors) {
  for (const Shape& shape : {Shape{3, 3}, Shape{5, 2}, Shape{2, 5}, Shape{2, 4, 3}, Shape{2, 3, 4},
                             Shape{3, 4, 4}, Shape{2, 3, 1, 5}, Shape{2, 33, 3}, Shape{2, 3, 33}}) {
    const int64_t before = cuda::EmulatedStackCalls();
    Compare("svd", {shape}, {AttrValue(true), AttrValue(false)});
    const bool at_once = shape.size() > 2 && shape.back() < 33 && shape[shape.size() - 2] < 33;
    EXPECT_EQ(cuda::EmulatedStackCalls() - before, at_once ? 1 : 0) << shape.ToString();
    const int64_t rows = shape[shape.size() - 2];
    const int64_t columns = shape.back();
    const int64_t k = std::min(rows, columns);
    const int64_t count = NumElements(shape) / (rows * columns);
    for (const bool full : {false, true}) {
      const Input input = {shape, Random(shape)};
      Results want;
      Results got;
      RunBoth("svd", {input}, {AttrValue(full), AttrValue(true)}, &want, &got);
      ASSERT_EQ(got.size(), 3u);
      const int64_t u_columns = full ? rows : k;
      const int64_t vh_rows = full ? columns : k;
      ASSERT_EQ(static_cast<int64_t>(got[0].size()), count * rows * u_columns);
      ASSERT_EQ(static_cast<int64_t>(got[2].size()), count * vh_rows * columns);
      ExpectClose({want[1]}, {got[1]}, "svd");
      for (int64_t p = 0; p < count; ++p) {
        const double* const u = got[0].data() + p * rows * u_columns;
        const double* const vh = got[2].data() + p * vh_rows * columns;
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < k; ++l) {
              sum += u[i * u_columns + l] * got[1][p * k + l] * vh[l * columns + j];
            }
            ASSERT_NEAR(sum, input.values[(p * rows + i) * columns + j], 1e-10);
          }
        }
        for (int64_t i = 0; i < u_columns; ++i) {
          for (int64_t j = 0; j < u_columns; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < rows; ++l) sum += u[l * u_columns + i] * u[l * u_columns + j];
            ASSERT_NEAR(sum, i == j ? 1 : 0, 1e-10);
          }
        }
        for (int64_t i = 0; i < vh_rows; ++i) {
          for (int64_t j = 0; j < vh_rows; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < columns; ++l) sum += vh[i * columns + l] * vh[j * columns + l];
            ASSERT_NEAR(sum, i == j ? 1 : 0, 1e-10);
          }
        }
      }
    }
  }
}

// The library as it is on a GPU: small matrices are not worth the way, but stacks of them are.
class SelectiveSolver : public cuda::EmulatedSolver {
 public:
  int64_t smallest() const override { return 128; }
};

TEST(WorthTest, LargeMatricesAndStacksOfSmallOnes) {
  const SelectiveSolver solver;
  const auto is_worth_it = [&](absl::string_view op, const Shape& shape) {
    KernelTensor a;
    a.shape = shape;
    return cuda::IsWorthIt(op, a, solver);
  };
  for (const absl::string_view op : {"cholesky", "eigh", "eigvalsh", "svd", "qr", "solve"}) {
    const bool at_once = op != "qr" && op != "solve";
    EXPECT_TRUE(is_worth_it(op, {128, 128})) << op;
    EXPECT_FALSE(is_worth_it(op, {127, 127})) << op;
    EXPECT_FALSE(is_worth_it(op, {31, 4, 4})) << op;
    EXPECT_EQ(is_worth_it(op, {32, 4, 4}), at_once) << op;
    EXPECT_EQ(is_worth_it(op, {2, 2, 32, 32}), at_once) << op;
    EXPECT_FALSE(is_worth_it(op, {2, 2, 33, 33})) << op;
    EXPECT_FALSE(is_worth_it(op, {0, 4, 4})) << op;
    EXPECT_FALSE(is_worth_it(op, {1000, 0, 0})) << op;
  }
  EXPECT_TRUE(is_worth_it("svd", {128, 32, 1}));
  EXPECT_FALSE(is_worth_it("svd", {127, 32, 1}));
  EXPECT_FALSE(is_worth_it("svd", {128, 33, 1}));
}

TEST_F(DecompositionsTest, ErrorsNameTheMatrix) {
  const Input singular = {{2, 2, 2}, {1, 0, 0, 1, 1, 2, 2, 4}};
  const Input sides = {{2, 2, 2}, Random({2, 2, 2})};
  Results want;
  Results got;
  RunBoth("solve", {singular, sides}, {}, &want, &got);
  EXPECT_TRUE(got.empty());
  RunBoth("cholesky", {{{2, 1, 1}, {1, -1}}}, {}, &want, &got);
  EXPECT_TRUE(got.empty());
}

// Before the library sees it.
TEST_F(DecompositionsTest, WhatIsNotFiniteIsRefused) {
  const AttrValue lower(int64_t{0});
  const AttrValue upper(int64_t{1});
  const AttrValue yes(true);
  struct {
    const char* op;
    Attrs attrs;
    bool refuses;  // what is above the diagonal
  } const kCases[] = {{"svd", {yes, yes}, true},
                      {"eigh", {lower}, false},
                      {"eigh", {upper}, true},
                      {"eigvalsh", {upper}, true}};
  for (const auto& c : kCases) {
    for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      std::vector<double> values = Random({2, 3, 3});
      values[11] = value;
      absl::Status statuses[2];
      for (const DeviceId device : {kHost, kLibrary}) {
        Results results;
        statuses[device] = Run(c.op, {Upload({2, 3, 3}, values, device == kHost, device)}, c.attrs,
                               device, &results);
      }
      EXPECT_EQ(statuses[kLibrary].ok(), !c.refuses) << c.op;
      EXPECT_EQ(statuses[kLibrary].message(), statuses[kHost].message()) << c.op;
    }
  }
}

}  // namespace
}  // namespace chx::server
