// Sorts and scans of the cuda backend, run on the CPU, against the native backend. The shapes are
// such that each way to compute them is taken, in one launch and in several.
#include <iterator>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "tests/cuda/kernels_fixture.h"

namespace chx::server {
namespace {

struct Along {
  Shape shape;
  AttrValue axis;
};

// Rows of a block's own.
const Along kShort[] = {{{}, AttrValue()},         {{1}, AttrValue(0)},
                        {{40, 3}, AttrValue()},    {{2, 5, 3}, AttrValue(1)},
                        {{3, 512}, AttrValue(1)},  {{513, 2}, AttrValue(0)},
                        {{2, 2048}, AttrValue(1)}, {{2, 1100, 2}, AttrValue(1)},
                        {{4096}, AttrValue(0)},    {{2050, 2}, AttrValue(0)}};
// Many rows, and longer ones with positions of 32 and 64 bits.
const Along kLong[] = {{{4200, 3}, AttrValue(1)},    {{3, 4200}, AttrValue(0)},
                       {{2, 2, 2100}, AttrValue(1)}, {{5000}, AttrValue(0)},
                       {{4500, 3}, AttrValue(0)},    {{2, 4097}, AttrValue(1)},
                       {{9000}, AttrValue(0)},       {{8500, 2}, AttrValue(0)}};

// Some of them under a sanitizer, for its time.
std::vector<Dtype> Dtypes() {
  if (kSanitized) return {Dtype::kInt32, Dtype::kFloat16, Dtype::kFloat64};
  return {std::begin(kAllDtypes), std::end(kAllDtypes)};
}

class SortingTest : public KernelsTest {
 protected:
  // What argsort says is what sort does, to the bit.
  void CompareSorts(Dtype dtype, const Along& along) {
    const Pair a = RandomArray(dtype, along.shape, -4, 4, true);
    Compare("sort", {a}, {along.axis});
    Compare("argsort", {a}, {along.axis});
    if (HasFatalFailure()) return;
    const Array sorted = Apply("sort", {&a.emulated}, {along.axis}, kEmulated);
    const Array order = Apply("argsort", {&a.emulated}, {along.axis}, kEmulated);
    const AttrValue flat = AttrValue::FromInts({NumElements(along.shape)});
    const bool flattens = !along.axis.has_value();
    const Array from = flattens ? Apply("reshape", {&a.emulated}, {flat}, kEmulated) : a.emulated;
    const AttrValue axis = flattens ? AttrValue(0) : along.axis;
    const Array taken = Apply("take_along_axis", {&from, &order}, {axis}, kEmulated);
    ASSERT_EQ(Bytes(sorted), Bytes(taken)) << DtypeName(dtype) << " " << along.shape.ToString();
  }

  // -1 and 1 for 0 and 1.
  Array SignsOf(const Array& bits, DeviceId device) {
    const Array twice = Apply("add", {&bits, &bits}, {}, device);
    const Array ones = Apply("equal", {&bits, &bits}, {}, device);
    const Array one = Apply("astype", {&ones}, {AttrValue(Dtype::kInt8)}, device);
    return Apply("subtract", {&twice, &one}, {}, device);
  }
};

TEST_F(SortingTest, ShortRows) {
  for (const Dtype dtype : Dtypes()) {
    for (const Along& along : kShort) {
      CompareSorts(dtype, along);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SortingTest, LongRowsAndManyRows) {
  for (const Dtype dtype : Dtypes()) {
    for (const Along& along : kLong) {
      CompareSorts(dtype, along);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SortingTest, Bytes) {
  // Any byte but 0 is true, and stays what it is.
  const Array a = FromBytes(Dtype::kBool, {6}, "\2\0\1\0\7\1", kEmulated);
  EXPECT_EQ(Bytes(Apply("sort", {&a}, {AttrValue(0)}, kEmulated)), std::string("\0\0\2\1\7\1", 6));
}

TEST_F(SortingTest, Scans) {
  const Along kScanned[] = {{{}, AttrValue()},           {{7, 3}, AttrValue()},
                            {{3, 2000}, AttrValue(1)},   {{2, 9000}, AttrValue(1)},
                            {{3, 8196}, AttrValue(1)},   {{20007}, AttrValue(0)},
                            {{2100, 37}, AttrValue(1)},  {{2100, 40}, AttrValue(1)},
                            {{5000, 2}, AttrValue(0)},   {{2, 300, 70}, AttrValue(1)},
                            {{2, 129, 3}, AttrValue(1)}, {{40000, 2}, AttrValue(1)}};
  for (const Dtype dtype : Dtypes()) {
    for (const Along& along : kScanned) {
      // Their sums and products are exact, in whatever order.
      const Pair a = RandomArray(Dtype::kInt8, along.shape, -1, 1, false);
      Compare("cumsum", {a}, {along.axis, AttrValue(dtype)}, 0);
      Pair signs = RandomArray(Dtype::kInt8, along.shape, 0, 1, false);
      signs.native = SignsOf(signs.native, kNative);
      signs.emulated = SignsOf(signs.emulated, kEmulated);
      Compare("cumprod", {signs}, {along.axis, AttrValue(dtype)}, 0);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_EQ(results_, static_cast<int>(Dtypes().size()) * 12 * 2);
}

// A running sum starts with the first element itself.
TEST_F(SortingTest, ScansKeepTheSignOfZeros) {
  for (const int64_t size : {3, 100}) {
    const std::vector<float> zeros(size, -0.0f);
    const Array a = FromBytes(Dtype::kFloat32, {size}, zeros.data(), kEmulated);
    EXPECT_EQ(Bytes(Apply("cumsum", {&a}, {AttrValue(0), AttrValue()}, kEmulated)), Bytes(a));
  }
}

TEST_F(SortingTest, NonzeroPositions) {
  for (const int64_t size : {1, 7, 1000, 4096, 4099, 30000}) {
    for (const int64_t high : {0, 1, 4}) {
      const Pair a = RandomArray(Dtype::kInt32, {size}, 0, high, false);
      const std::string bytes =
          Bytes(Apply("astype", {&a.native}, {AttrValue(Dtype::kBool)}, kNative));
      const int64_t count = std::count(bytes.begin(), bytes.end(), '\1');
      Compare("nonzero_positions", {a}, {AttrValue(count)});
      Compare("nonzero_positions", {a}, {AttrValue(std::max<int64_t>(0, count - 1))});
      if (HasFatalFailure()) return;
    }
  }
}

// More indices than the emulated device sorts with 32 bits.
TEST_F(SortingTest, ManyIndices) {
  for (const int64_t count : {100, 8192, 8200}) {
    const Pair indices = RandomArray(Dtype::kInt64, {count}, -50, 49, false);
    const Pair gy = RandomArray(Dtype::kInt32, {count}, -9, 9, false);
    Compare("take_along_axis_grad", {gy, indices}, {AttrValue::FromInts({50}), AttrValue(0)});
    Compare("take_grad", {gy, indices},
            {AttrValue::FromInts({50}), AttrValue(0), AttrValue(int64_t{0})});
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(results_, 6);
}

}  // namespace
}  // namespace chx::server
