// Kernels of ops/defs/random.cc: element i is made of block counter + i / (elements per block).
#include "server/cuda/groups.h"
#include "server/cuda/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/philox.h"

namespace chx::cuda {
namespace {

template <typename T>
struct Uniform {
  double low;
  double high;
  CHX_HD void operator()(const kernels::PhiloxBlock& block, T* out) const {
    for (int lane = 0; lane < kernels::kPhiloxPerBlock<T>; ++lane) {
      out[lane] = kernels::PhiloxUniform<T>(block, lane, low, high);
    }
  }
};

template <typename T>
struct Normal {
  double loc;
  double scale;
  CHX_HD void operator()(const kernels::PhiloxBlock& block, T* out) const {
    kernels::PhiloxNormal<T>(block, loc, scale, out);
  }
};

template <typename T, typename Distribution>
struct RandomBody {
  T* out;
  int64_t size;
  uint64_t seed;
  uint64_t counter;
  Distribution distribution;

  CHX_HD void operator()(int64_t i) const {
    constexpr int kPerBlock = kernels::kPhiloxPerBlock<T>;
    T elements[kPerBlock];
    distribution(kernels::Philox(seed, counter + static_cast<uint64_t>(i)), elements);
    CHX_UNROLL
    for (int lane = 0; lane < kPerBlock; ++lane) {
      if (i * kPerBlock + lane < size) out[i * kPerBlock + lane] = elements[lane];
    }
  }
};

template <template <typename> class Distribution>
absl::Status RunRandom(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  return kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int64_t kPerBlock = kernels::kPhiloxPerBlock<T>;
    return ForEach(
        args, (out.size() + kPerBlock - 1) / kPerBlock,
        RandomBody<T, Distribution<T>>{reinterpret_cast<T*>(out.data),
                                       out.size(),
                                       static_cast<uint64_t>(args.attrs[4].AsInt()),
                                       static_cast<uint64_t>(args.attrs[5].AsInt()),
                                       {args.attrs[1].AsFloat(), args.attrs[2].AsFloat()}});
  });
}

}  // namespace

void RegisterRandom(KernelTable& table) {
  table.Set("random_uniform", RunRandom<Uniform>);
  table.Set("random_normal", RunRandom<Normal>);
}

}  // namespace chx::cuda
