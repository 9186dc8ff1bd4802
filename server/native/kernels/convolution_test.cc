// Convolutions and pooling against their definitions, over random shapes, layouts and windows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "ops/spatial_windows.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

// Windows over one to three dimensions.
struct Case {
  Shape image;  // (N, C, spatial...)
  Ints kernel;
  Ints stride;
  Ints pad;
  Dims counts;
  bool cover_all = false;
};

class ConnectionTest : public testing::Test {
 protected:
  Case RandomCase() {
    Case c;
    c.image = {RandomInt(rng_, 0, 3), RandomInt(rng_, 1, 3)};
    c.cover_all = RandomInt(rng_, 0, 2) == 0;
    for (int64_t d = RandomInt(rng_, 1, 3); d > 0; --d) {
      c.kernel.push_back(RandomInt(rng_, 1, 3));
      c.stride.push_back(RandomInt(rng_, 1, 3));
      c.pad.push_back(RandomInt(rng_, 0, 3));
      c.image.push_back(RandomInt(rng_, c.kernel.back(), 6));
      c.counts.push_back(
          WindowCount(c.image.back(), c.kernel.back(), c.stride.back(), c.pad.back(), c.cover_all));
    }
    return c;
  }
  TestArray Random(Dtype dtype, const Shape& shape) {
    TestArray array = TestArray::RandomLayout(rng_, dtype, shape);
    array.FillRandom(rng_, false);
    return array;
  }

  // fn(window, element of it, position in the image) for all that are not in the padding.
  template <typename Fn>
  static void ForAll(const Case& c, Fn&& fn) {
    const auto kernel = static_cast<int64_t>(Product(c.kernel));
    for (int64_t o = 0; o < NumElements(c.counts); ++o) {
      for (int64_t k = 0; k < kernel; ++k) {
        int64_t rest_o = o;
        int64_t rest_k = k;
        int64_t at = 0;
        int64_t scale = 1;
        bool inside = true;
        for (int d = c.counts.size() - 1; d >= 0; --d) {
          const int64_t i = rest_o % c.counts[d] * c.stride[d] - c.pad[d] + rest_k % c.kernel[d];
          inside = inside && i >= 0 && i < c.image[d + 2];
          at += i * scale;
          scale *= c.image[d + 2];
          rest_o /= c.counts[d];
          rest_k /= c.kernel[d];
        }
        if (inside) fn(o, k, at);
      }
    }
  }
  static int64_t Product(const Ints& numbers) {
    int64_t product = 1;
    for (const int64_t number : numbers) product *= number;
    return product;
  }
  // What a sum is in a dtype that wraps around; of bools, whether any product is true.
  static Number Wrapped(Dtype dtype, Number sum) {
    if (IsFloat(dtype)) return sum;
    if (dtype == Dtype::kBool) return sum != 0 ? 1 : 0;
    TestArray one(dtype, {1});
    const auto whole = static_cast<int64_t>(sum);
    std::memcpy(one.tensor().data, &whole, ItemSize(dtype));  // its low bytes
    return one.Get(0);
  }
  static void ExpectClose(const TestArray& got, const std::vector<Number>& want, Number terms) {
    ASSERT_EQ(got.size(), static_cast<int64_t>(want.size()));
    for (int64_t i = 0; i < got.size(); ++i) {
      if (!IsFloat(got.dtype())) {
        ASSERT_EQ(got.Get(i), Wrapped(got.dtype(), want[i]))
            << DtypeName(got.dtype()) << " at " << i;
        continue;
      }
      ASSERT_LE(std::fabs(got.Get(i) - want[i]), Tolerance(got.dtype()) * 16 * (terms + 4))
          << DtypeName(got.dtype()) << " at " << i;
    }
  }
  static Case MakeCase(const Shape& image, const Ints& kernel, const Ints& stride, const Ints& pad,
                       bool cover_all = false) {
    Case c = {image, kernel, stride, pad, {}, cover_all};
    for (size_t d = 0; d < kernel.size(); ++d) {
      c.counts.push_back(
          WindowCount(image[static_cast<int>(d) + 2], kernel[d], stride[d], pad[d], cover_all));
    }
    return c;
  }
  // The three kernels, against their definition.
  void CheckConvolution(const Case& c, Dtype dtype, int64_t outputs) {
    const int64_t samples = c.image[0];
    const int64_t channels = c.image[1];
    const int64_t count = NumElements(c.counts);
    const int64_t kernel = Product(c.kernel);
    const int64_t size = NumElements(SpatialOf(c.image));
    const TestArray x = Random(dtype, c.image);
    const TestArray w = Random(dtype, WithSpatial(outputs, channels, Dims(c.kernel)));
    const TestArray y = Random(dtype, WithSpatial(samples, outputs, c.counts));
    const TestArray b = Random(dtype, {outputs});
    const TestArray back_b = Random(dtype, {channels});
    std::vector<Number> forward(y.size());
    std::vector<Number> backward(x.size());
    std::vector<Number> weight(w.size());
    for (int64_t i = 0; i < y.size(); ++i) forward[i] = b.Get(i / count % outputs);
    for (int64_t i = 0; i < x.size(); ++i) backward[i] = back_b.Get(i / size % channels);
    for (int64_t n = 0; n < samples * outputs * channels; ++n) {
      const int64_t in = n / channels / outputs * channels + n % channels;
      const int64_t out = n / channels;
      const int64_t pair = out % outputs * channels + n % channels;
      ForAll(c, [&](int64_t o, int64_t k, int64_t at) {
        forward[out * count + o] += x.Get(in * size + at) * w.Get(pair * kernel + k);
        backward[in * size + at] += y.Get(out * count + o) * w.Get(pair * kernel + k);
        weight[pair * kernel + k] += x.Get(in * size + at) * y.Get(out * count + o);
      });
    }
    const auto terms = static_cast<Number>(channels * outputs * kernel);
    ExpectClose(runner_.Run("conv", {x, w, b}, {c.stride, c.pad, c.cover_all}), forward, terms);
    const AttrValue outsize = AttrValue::FromInts(SpatialOf(c.image).span());
    ExpectClose(runner_.Run("conv_transpose", {y, w, back_b}, {c.stride, c.pad, outsize}), backward,
                terms);
    ExpectClose(runner_.Run("conv_grad_weight", {x, y}, {c.kernel, c.stride, c.pad}), weight,
                static_cast<Number>(samples * count));
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
};

TEST_F(ConnectionTest, Convolutions) {
  for (int round = 0; round < Rounds(135); ++round) {
    CheckConvolution(RandomCase(), kAllDtypes[round % kNumDtypes], RandomInt(rng_, 1, 3));
  }
}

TEST_F(ConnectionTest, ConvolutionsWithMoreWork) {
  const auto features = [](int64_t n) { return Rounds(static_cast<int>(n)); };
  // Chunks of samples of which the last is smaller; groups of features and channels; one and three
  // dimensions; windows that reach beyond the padding, or leave some of it out.
  CheckConvolution(MakeCase({19, features(16), 12, 12}, {3, 3}, {1, 1}, {1, 1}), Dtype::kFloat32,
                   features(24));
  CheckConvolution(MakeCase({1, features(128), 16, 17}, {3, 3}, {2, 2}, {1, 1}), Dtype::kFloat32,
                   features(128));
  CheckConvolution(MakeCase({3, 17, 90}, {5}, {3}, {2}), Dtype::kFloat32, 33);
  CheckConvolution(MakeCase({2, 9, 5, 6, 7}, {3, 2, 3}, {1, 2, 2}, {1, 0, 2}), Dtype::kFloat32, 20);
  CheckConvolution(MakeCase({2, 8, 20, 19}, {4, 3}, {3, 4}, {1, 0}), Dtype::kFloat16, 16);
  CheckConvolution(MakeCase({2, 8, 20, 19}, {4, 3}, {3, 4}, {1, 0}), Dtype::kBfloat16, 16);
  CheckConvolution(MakeCase({2, 8, 20, 19}, {4, 3}, {3, 4}, {1, 0}, true), Dtype::kFloat32, 16);
  CheckConvolution(MakeCase({5, 40, 31, 30}, {1, 1}, {1, 1}, {0, 0}), Dtype::kFloat32, 11);
  CheckConvolution(MakeCase({8, 16, 3, 3}, {2, 2}, {1, 1}, {3, 2}), Dtype::kFloat32, 16);
  CheckConvolution(MakeCase({19, features(16), 12, 12}, {3, 3}, {1, 1}, {1, 1}), Dtype::kInt8,
                   features(24));
  CheckConvolution(MakeCase({2, 8, 20, 19}, {4, 3}, {3, 4}, {1, 0}, true), Dtype::kUint8, 16);
}

TEST_F(ConnectionTest, Pooling) {
  for (int round = 0; round < Rounds(60); ++round) {
    const Case c = RandomCase();
    const Dtype dtype = kFloatDtypes[round % 4];
    const int64_t planes = c.image[0] * c.image[1];
    const int64_t count = NumElements(c.counts);
    const int64_t size = NumElements(SpatialOf(c.image));
    const TestArray x = Random(dtype, c.image);
    const TestArray gy = Random(dtype, WithSpatial(c.image[0], c.image[1], c.counts));
    TestArray index(Dtype::kInt64, gy.shape());
    std::vector<Number> max(gy.size(), -INFINITY);
    std::vector<Number> sum(gy.size());
    std::vector<Number> scatter(x.size());
    for (int64_t i = 0; i < gy.size(); ++i) index.Set(i, -1);
    for (int64_t p = 0; p < planes; ++p) {
      ForAll(c, [&](int64_t o, int64_t, int64_t at) {
        const Number value = x.Get(p * size + at);
        if (value > max[p * count + o]) index.Set(p * count + o, static_cast<Number>(at));
        max[p * count + o] = std::max(max[p * count + o], value);
        sum[p * count + o] += value;
      });
    }
    for (int64_t i = 0; i < gy.size(); ++i) {
      if (index.Get(i) >= 0) {
        scatter[i / count * size + static_cast<int64_t>(index.Get(i))] += gy.Get(i);
      }
    }
    const TestArray y =
        runner_.Run("max_pool_index", {x}, {c.kernel, c.stride, c.pad, c.cover_all});
    for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y.Get(i), max[i]);
    const TestArray alone = runner_.Run("max_pool", {x}, {c.kernel, c.stride, c.pad, c.cover_all});
    ASSERT_EQ(alone.Bytes(), y.Bytes());
    const AttrValue shape = AttrValue::FromInts(c.image.span());
    ExpectClose(
        runner_.Run("pool_scatter", {gy, index}, {shape, c.kernel, c.stride, c.pad, c.cover_all}),
        scatter, 27);
    const TestArray gathered =
        runner_.Run("pool_gather", {x, index}, {c.kernel, c.stride, c.pad, c.cover_all});
    for (int64_t i = 0; i < gathered.size(); ++i) {
      ASSERT_EQ(gathered.Get(i), index.Get(i) < 0 ? 0 : max[i]);
    }
    if (c.cover_all) continue;
    // Sums over all elements of a window, or over those that it has inside: zero or NaN if none.
    for (const PadMode mode : {PadMode::kIgnore, PadMode::kZero}) {
      const bool ignore = mode == PadMode::kIgnore;
      std::vector<Number> divisors(count, ignore ? 0 : NumElements(Shape(c.kernel)));
      if (ignore) ForAll(c, [&](int64_t o, int64_t, int64_t) { divisors[o] += 1; });
      const Attrs windows = {c.kernel, c.stride, c.pad, static_cast<int64_t>(mode)};
      TestArray average = runner_.Run("average_pool", {x}, windows);
      std::vector<Number> mean = sum;
      for (int64_t i = 0; i < gy.size(); ++i) {
        if (divisors[i % count] == 0) {
          ASSERT_FALSE(std::fabs(average.Get(i)) > 0);
          average.Set(i, 0);
        } else {
          mean[i] /= divisors[i % count];
        }
      }
      std::vector<Number> parts(x.size());
      for (int64_t p = 0; p < planes; ++p) {
        ForAll(c, [&](int64_t o, int64_t, int64_t at) {
          parts[p * size + at] += gy.Get(p * count + o) / divisors[o];
        });
      }
      ExpectClose(average, mean, 27);
      Attrs all = windows;
      all.insert(all.begin(), shape);
      ExpectClose(runner_.Run("average_pool_grad", {gy}, all), parts, 27);
    }
  }
}

TEST_F(ConnectionTest, PositionsFromElsewhereStayInside) {
  TestArray index(Dtype::kInt64, {1, 1, 2, 2});
  const Number wild[] = {-7, 9, 1e18, -1e18};
  for (int64_t i = 0; i < 4; ++i) index.Set(i, wild[i]);
  const TestArray x = Random(Dtype::kFloat32, {1, 1, 3, 3});
  const TestArray gy = Random(Dtype::kFloat32, {1, 1, 2, 2});
  const Attrs windows = {Ints{2}, Ints{1}, Ints{0}, false};
  const TestArray y = runner_.Run("pool_gather", {x, index}, windows);
  for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.Get(i), 0);
  const TestArray gx = runner_.Run("pool_scatter", {gy, index},
                                   {Ints{1, 1, 3, 3}, Ints{2}, Ints{1}, Ints{0}, false});
  for (int64_t i = 0; i < gx.size(); ++i) EXPECT_EQ(gx.Get(i), 0);
}

}  // namespace
}  // namespace chx::server::native
