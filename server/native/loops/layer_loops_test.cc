// All sets of loops of layers give the same bits, for lengths around the vectors' and the blocks'.
#include "server/native/loops/layer_loops.h"

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/kernels/types.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

const int64_t kLengths[] = {1, 7, 16, 33, 100, 512, 1025};

template <typename T>
class Layers {
 public:
  Layers() : rng_(MakeRng()) {}

  // Numbers, as T.
  std::vector<T> Random(int64_t n) {
    std::uniform_real_distribution<double> distribution(-3, 3);
    std::vector<T> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>(distribution(rng_)));
    return values;
  }

  // Results of each set, by name of what was called, must be those of the first.
  template <typename Fn>
  void Compare(const std::string& what, Fn&& fn) {
    std::vector<T> first;
    for (const LoopSet* set : SupportedLoops()) {
      const std::vector<T> result = fn(*set->layers);
      if (first.empty()) first = result;
      ASSERT_EQ(std::memcmp(result.data(), first.data(), first.size() * sizeof(T)), 0)
          << what << " of " << set->name;
    }
  }

  void Check(Dtype dtype) {
    const int d = static_cast<int>(dtype);
    for (const int64_t n : kLengths) {
      const std::vector<T> x = Random(n);
      const std::vector<T> gy = Random(n);
      const std::vector<T> weight = Random(n);
      for (const bool centered : {false, true}) {
        Compare("row", [&](const LayerLoops& set) {
          std::vector<T> y(n);
          set.row_norm[d].row(centered, x.data(), n, 1e-5, weight.data(), gy.data(), y.data());
          return y;
        });
        Compare("grad", [&](const LayerLoops& set) {
          std::vector<T> out(3 * n, T(1));
          set.row_norm[d].grad(centered, x.data(), gy.data(), n, 1e-5, weight.data(), out.data(),
                               out.data() + n, out.data() + 2 * n);
          return out;
        });
      }
      Compare("group", [&](const LayerLoops& set) {
        // Three channels of n elements.
        std::vector<T> in = x;
        in.insert(in.end(), gy.begin(), gy.end());
        in.insert(in.end(), weight.begin(), weight.end());
        std::vector<T> grads(in.rbegin(), in.rend());
        const T parameters[] = {static_cast<T>(0.5), static_cast<T>(-2), static_cast<T>(1.25)};
        std::vector<T> out(6 * n);
        double sums[6];
        set.group_norm[d].row(in.data(), 3, n, 1e-5, parameters, parameters, out.data());
        set.group_norm[d].grad(in.data(), grads.data(), 3, n, 1e-5, parameters, out.data() + 3 * n,
                               sums, sums + 3);
        for (const double sum : sums) out.push_back(static_cast<T>(sum));
        return out;
      });
      Compare("smooth loss", [&](const LayerLoops& set) {
        std::vector<T> out(n + 1);
        set.smooth_loss[d].row(x.data(), n, n / 2, 0.1, out.data() + n);
        set.smooth_loss[d].grad(x.data(), n, n / 2, 0.1, gy.data(), out.data());
        return out;
      });
      Compare("attention", [&](const LayerLoops& set) {
        std::vector<T> out = x;
        AttentionRow row{-std::numeric_limits<double>::infinity(), 0};
        const AttentionMask mask{weight.data(), nullptr};
        const double factor = set.attention[d].weights(out.data(), n, 0.5, mask, &row);
        std::vector<T> grads = gy;
        std::vector<T> scores = weight;
        set.attention[d].grad(scores.data(), grads.data(), n, 0.5, mask, 1.5, 0.25);
        out.insert(out.end(), grads.begin(), grads.end());
        out.insert(out.end(), scores.begin(), scores.end());
        out.push_back(static_cast<T>(factor + row.max + row.sum));
        out.push_back(static_cast<T>(set.attention[d].dot(x.data(), gy.data(), n)));
        return out;
      });
      Compare("rotate", [&](const LayerLoops& set) {
        const int64_t pairs = n / 2;
        std::vector<T> y(2 * n);
        for (const bool interleaved : {false, true}) {
          set.attention[d].rotate(interleaved, x.data(), pairs, gy.data(), weight.data(),
                                  y.data() + (interleaved ? n : 0));
        }
        return y;
      });
      for (int fn = 0; fn < kernels::SmoothFns::kSize; ++fn) {
        Compare("smooth", [&](const LayerLoops& set) {
          std::vector<T> out(2 * n);
          const auto data = [](const std::vector<T>& from) {
            return reinterpret_cast<char*>(const_cast<T*>(from.data()));
          };
          const int64_t strides[] = {sizeof(T), sizeof(T), sizeof(T)};
          char* const unary[] = {data(out), data(x)};
          set.smooth[fn][d](unary, strides, n);
          char* const binary[] = {data(out) + n * sizeof(T), data(x), data(gy)};
          set.smooth_grad[fn][d](binary, strides, n);
          return out;
        });
      }
    }
  }

 private:
  Rng rng_;
};

TEST(LayerLoopsTest, SetsGiveTheSameBits) {
  for (const LoopSet* set : SupportedLoops()) EXPECT_NE(set->layers, nullptr) << set->name;
  Layers<float>().Check(Dtype::kFloat32);
}

}  // namespace
}  // namespace chx::server::native
