// Elementwise kernels against formulas in extended precision, over random shapes and layouts.
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "server/kernels/dispatch.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

// Integers as the kernels see them: exact, and wrapped to the dtype afterwards.
Number Wrapped(Dtype dtype, Number exact) {
  return kernels::VisitDtype(dtype, [&](auto tag) -> Number {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_integral<T>::value) {
      const Number modulus = std::ldexp(Number(1), 64);
      Number reduced = std::fmod(exact, modulus);
      if (reduced < 0) reduced += modulus;
      return static_cast<Number>(static_cast<T>(static_cast<uint64_t>(reduced)));
    } else {
      return exact;
    }
  });
}

Number FloorMod(Number a, Number b) {
  Number rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest;
}

using Unary = std::function<Number(Number)>;
using Binary = std::function<Number(Number, Number)>;

const std::map<std::string, Unary>& FloatUnaries() {
  static const auto* const table = new std::map<std::string, Unary>{
      {"exp", [](Number x) { return std::exp(x); }},
      {"log", [](Number x) { return std::log(x); }},
      {"sqrt", [](Number x) { return std::sqrt(x); }},
      {"tanh", [](Number x) { return std::tanh(x); }},
      {"sigmoid", [](Number x) { return 1 / (1 + std::exp(-x)); }},
      {"relu", [](Number x) { return x < 0 ? 0 : x; }},
  };
  return *table;
}

const std::map<std::string, Unary>& SameUnaries() {
  static const auto* const table = new std::map<std::string, Unary>{
      {"negative", [](Number x) { return -x; }},
      {"square", [](Number x) { return x * x; }},
      {"abs", [](Number x) { return std::fabs(x); }},
      {"sign", [](Number x) { return std::isnan(x) ? x : Number((x > 0) - (x < 0)); }},
  };
  return *table;
}

const std::map<std::string, Binary>& Arithmetic() {
  static const auto* const table = new std::map<std::string, Binary>{
      {"add", [](Number x, Number y) { return x + y; }},
      {"subtract", [](Number x, Number y) { return x - y; }},
      {"multiply", [](Number x, Number y) { return x * y; }},
      {"maximum", [](Number x, Number y) { return std::isnan(x) || x > y ? x : y; }},
      {"minimum", [](Number x, Number y) { return std::isnan(x) || x < y ? x : y; }},
      {"relu_grad", [](Number x, Number y) { return x > 0 ? y : 0; }},
  };
  return *table;
}

const std::map<std::string, Binary>& Comparisons() {
  static const auto* const table = new std::map<std::string, Binary>{
      {"equal", [](Number x, Number y) { return Number(x == y); }},
      {"not_equal", [](Number x, Number y) { return Number(x != y); }},
      {"greater", [](Number x, Number y) { return Number(x > y); }},
      {"greater_equal", [](Number x, Number y) { return Number(x >= y); }},
      {"less", [](Number x, Number y) { return Number(x < y); }},
      {"less_equal", [](Number x, Number y) { return Number(x <= y); }},
      {"logical_and", [](Number x, Number y) { return Number(x != 0 && y != 0); }},
      {"logical_or", [](Number x, Number y) { return Number(x != 0 || y != 0); }},
      {"logical_xor", [](Number x, Number y) { return Number((x != 0) != (y != 0)); }},
  };
  return *table;
}

class ElementwiseTest : public testing::Test {
 protected:
  Shape AnyShape() {
    if (RandomInt(rng_, 0, 30) == 0) return {3, RandomInt(rng_, 30000, 60000)};
    if (RandomInt(rng_, 0, 10) == 0) return {RandomInt(rng_, 30, 90), RandomInt(rng_, 30, 90)};
    return RandomShape(rng_, 4, 7);
  }
  TestArray Random(Dtype dtype, const Shape& shape, bool specials) {
    TestArray array = TestArray::RandomLayout(rng_, dtype, shape);
    array.FillRandom(rng_, specials);
    return array;
  }
  // Arrays and, at times, a scalar in place of one.
  void CheckBinary(const std::string& op, Dtype dtype, const Binary& formula) {
    const Shape shape = AnyShape();
    TestOperand x = Random(dtype, shape, true);
    TestOperand y = Random(dtype, RandomBroadcastable(rng_, shape), true);
    const int64_t form = op == "relu_grad" ? 0 : RandomInt(rng_, 0, 3);
    const int64_t number = RandomInt(rng_, 0, IsBool(dtype) ? 1 : 5);
    const Scalar scalar = IsBool(dtype)    ? Scalar(number != 0)
                          : IsFloat(dtype) ? Scalar(number / 4.0)
                                           : Scalar(number);
    if (form == 1) x = scalar;
    if (form == 2) y = scalar;
    const TestArray got = runner_.Run(op, {x, y});
    const TestArray a = x.is_scalar ? TestArray() : x.array.BroadcastTo(got.shape());
    const TestArray b = y.is_scalar ? TestArray() : y.array.BroadcastTo(got.shape());
    for (int64_t i = 0; i < got.size(); ++i) {
      const Number u = x.is_scalar ? scalar.AsDouble() : a.Get(i);
      const Number v = y.is_scalar ? scalar.AsDouble() : b.Get(i);
      const Number want =
          Wrapped(got.dtype(), IsBool(got.dtype()) ? Number(formula(u, v) != 0) : formula(u, v));
      ASSERT_TRUE(Close(got.dtype(), got.Get(i), want))
          << op << " " << DtypeName(dtype) << " " << shape.ToString() << " (" << u << ", " << v
          << ") gave " << got.Get(i) << ", not " << want;
    }
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
};

constexpr int kRounds = Rounds(12);

TEST_F(ElementwiseTest, Unary) {
  for (int round = 0; round < kRounds; ++round) {
    for (const auto* const table : {&FloatUnaries(), &SameUnaries()}) {
      for (const auto& [op, formula] : *table) {
        for (const Dtype dtype : kAllDtypes) {
          if (IsBool(dtype) || (table == &FloatUnaries() && !IsFloat(dtype))) continue;
          const TestArray x = Random(dtype, AnyShape(), true);
          const TestArray got = runner_.Run(op, {x});
          for (int64_t i = 0; i < x.size(); ++i) {
            const Number want = Wrapped(dtype, formula(x.Get(i)));
            ASSERT_TRUE(Close(dtype, got.Get(i), want))
                << op << " " << DtypeName(dtype) << " of " << x.Get(i) << " gave " << got.Get(i)
                << ", not " << want;
          }
        }
      }
    }
  }
}

TEST_F(ElementwiseTest, LogicalNot) {
  const TestArray x = Random(Dtype::kBool, {5, 7}, false);
  const TestArray got = runner_.Run("logical_not", {x});
  for (int64_t i = 0; i < x.size(); ++i) EXPECT_EQ(got.Get(i), 1 - x.Get(i));
}

TEST_F(ElementwiseTest, Binary) {
  for (int round = 0; round < kRounds; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      for (const auto& [op, formula] : Arithmetic()) {
        if ((op == "add" || op == "subtract") && IsBool(dtype)) continue;
        CheckBinary(op, dtype, formula);
      }
      for (const auto& [op, formula] : Comparisons()) CheckBinary(op, dtype, formula);
    }
    for (const Dtype dtype : kFloatDtypes) {
      CheckBinary("divide", dtype, [](Number x, Number y) { return x / y; });
    }
  }
}

// On finite values: what Python gives.
TEST_F(ElementwiseTest, DivisionAndPower) {
  for (int round = 0; round < kRounds; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      if (IsBool(dtype)) continue;
      const Shape shape = AnyShape();
      const TestArray x = Random(dtype, shape, false);
      const TestArray y = Random(dtype, shape, false);
      const TestArray quotient = runner_.Run("floor_divide", {x, y});
      const TestArray rest = runner_.Run("remainder", {x, y});
      const TestArray c_rest = runner_.Run("fmod", {x, y});
      const TestArray power = runner_.Run("power", {x, y});
      for (int64_t i = 0; i < x.size(); ++i) {
        const Number a = x.Get(i);
        const Number b = y.Get(i);
        if (!IsFloat(dtype)) {
          EXPECT_EQ(quotient.Get(i), b == 0 ? 0 : Wrapped(dtype, std::floor(a / b)));
          EXPECT_EQ(rest.Get(i), b == 0 ? 0 : FloorMod(a, b));
          EXPECT_EQ(c_rest.Get(i), b == 0 ? 0 : std::fmod(a, b)) << a << " fmod " << b;
          if (b >= 0 && std::pow(std::fabs(a), b) < 1e18L) {
            EXPECT_EQ(power.Get(i), Wrapped(dtype, std::pow(a, b))) << a << " ** " << b;
          }
        } else if (b != 0) {
          EXPECT_TRUE(Close(dtype, quotient.Get(i), std::floor(a / b))) << a << " // " << b;
          EXPECT_TRUE(Close(dtype, rest.Get(i), FloorMod(a, b), 4)) << a << " % " << b;
          EXPECT_TRUE(Close(dtype, power.Get(i), std::pow(a, b), 4)) << a << " ** " << b;
        }
      }
    }
  }
}

TEST_F(ElementwiseTest, WhereChoosesAndBroadcasts) {
  for (int round = 0; round < kRounds; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const Shape shape = AnyShape();
      const TestArray condition = Random(Dtype::kBool, shape, false);
      const TestArray x = Random(dtype, RandomBroadcastable(rng_, shape), false);
      TestOperand y = Random(dtype, shape, false);
      if (round % 3 == 0) y = IsBool(dtype) ? Scalar(true) : Scalar(3);
      const TestArray got = runner_.Run("where", {condition, x, y});
      const TestArray a = x.BroadcastTo(shape);
      for (int64_t i = 0; i < got.size(); ++i) {
        const Number other = y.is_scalar ? y.scalar.AsDouble() : y.array.Get(i);
        ASSERT_EQ(got.Get(i), condition.Get(i) != 0 ? a.Get(i) : other);
      }
    }
  }
}

// A byte of 2 in a bool array is true, and results are bytes of 0 and 1.
TEST_F(ElementwiseTest, ForeignBoolBytes) {
  TestArray x(Dtype::kBool, {3});
  x.tensor().data[0] = 2;
  x.tensor().data[1] = 0;
  x.tensor().data[2] = static_cast<char>(255);
  TestArray y(Dtype::kBool, {3});
  for (int64_t i = 0; i < 3; ++i) y.Set(i, 1);
  EXPECT_EQ(runner_.Run("equal", {x, y}).Bytes(), std::string("\1\0\1", 3));
  EXPECT_EQ(runner_.Run("multiply", {x, y}).Bytes(), std::string("\1\0\1", 3));
}

TEST_F(ElementwiseTest, InPlaceWritesThroughStrides) {
  for (int round = 0; round < kRounds * 4; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const Shape shape = AnyShape();
      TestArray x = Random(dtype, shape, false);
      const TestArray y = Random(dtype, RandomBroadcastable(rng_, shape), false);
      const char* const op = IsBool(dtype) ? "multiply" : "add";
      const TestArray want = runner_.Run(op, {x, y});
      ASSERT_TRUE(runner_.RunInPlace(op, {x, y}).ok());
      ASSERT_EQ(x.Bytes(), want.Bytes()) << DtypeName(dtype) << " " << shape.ToString();
      // An input that is the target itself.
      const TestArray twice = runner_.Run(op, {x, x});
      ASSERT_TRUE(runner_.RunInPlace(op, {x, x}).ok());
      ASSERT_EQ(x.Bytes(), twice.Bytes());
    }
  }
}

TEST_F(ElementwiseTest, AnyNumberOfThreadsGivesTheSameBits) {
  KernelRunner one(1);
  KernelRunner many(4);
  for (const char* const op : {"exp", "tanh", "log"}) {
    const TestArray x = Random(Dtype::kFloat32, {300, 701}, true);
    EXPECT_EQ(one.Run(op, {x}).Bytes(), many.Run(op, {x}).Bytes()) << op;
  }
  const TestArray x = Random(Dtype::kFloat32, {300, 701}, true);
  const TestArray row = Random(Dtype::kFloat32, {701}, true);
  EXPECT_EQ(one.Run("multiply", {x, row}).Bytes(), many.Run("multiply", {x, row}).Bytes());
}

}  // namespace
}  // namespace chx::server::native
