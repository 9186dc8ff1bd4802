// Kernels of ops/defs/random.cc. Element i comes from block counter + i / (elements per block).
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/elementwise.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/distributions.h"
#include "server/kernels/keyed_rows.h"
#include "server/kernels/philox.h"

namespace chx::server::cuda {
namespace {

template <typename T>
struct Uniform {
  double low;
  double high;
  CHX_HD void operator()(const kernels::PhiloxBlock& block, T* out) const {
    if (sizeof(T) < 8 && low == 0 && high == 1) {
      // float holds the same numbers exactly, and double is slow on most GPUs.
      CHX_UNROLL
      for (int index = 0; index < kernels::kPhiloxPerBlock<T>; ++index) {
        const auto unit = kernels::PhiloxUnit<T, kernels::Compute<T>>(block, index);
        out[index] = kernels::BelowEnd(kernels::Store<T>(unit), 0, 1);
      }
      return;
    }
    CHX_UNROLL
    for (int index = 0; index < kernels::kPhiloxPerBlock<T>; ++index) {
      out[index] = kernels::PhiloxUniform<T>(block, index, low, high);
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
  using Elements = Pack<T, kernels::kPhiloxPerBlock<T>>;
  T* out;
  bool aligned;  // to Elements
  int64_t size;
  uint64_t seed;
  uint64_t counter;
  Distribution distribution;

  CHX_HD void operator()(int64_t i) const {
    constexpr int kPerBlock = kernels::kPhiloxPerBlock<T>;
    Elements pack;
    distribution(kernels::Philox(seed, counter + static_cast<uint64_t>(i)), pack.elements);
    if (aligned && (i + 1) * kPerBlock <= size) {
      reinterpret_cast<Elements*>(out)[i] = pack;
      return;
    }
    CHX_UNROLL
    for (int index = 0; index < kPerBlock; ++index) {
      if (i * kPerBlock + index < size) out[i * kPerBlock + index] = pack.elements[index];
    }
  }
};

template <template <typename> class Distribution>
absl::Status RunRandom(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  return kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Body = RandomBody<T, Distribution<T>>;
    constexpr int64_t kPerBlock = kernels::kPhiloxPerBlock<T>;
    const bool aligned =
        reinterpret_cast<uintptr_t>(out.data) % sizeof(typename Body::Elements) == 0;
    return ForEach(args, (out.size() + kPerBlock - 1) / kPerBlock,
                   Body{reinterpret_cast<T*>(out.data),
                        aligned,
                        out.size(),
                        static_cast<uint64_t>(args.attrs[4].AsInt()),
                        static_cast<uint64_t>(args.attrs[5].AsInt()),
                        {args.attrs[1].AsFloat(), args.attrs[2].AsFloat()}});
  });
}

struct KeyBody {
  const double* key;
  float* out;
  kernels::KeyedRows rows;

  CHX_HD void operator()(int64_t i) const {
    constexpr int64_t kPerBlock = kernels::kPhiloxPerBlock<float>;
    const int64_t position = rows.Position(i);
    const kernels::PhiloxBlock block =
        kernels::Philox(kernels::PhiloxSeed(*key), static_cast<uint64_t>(position / kPerBlock));
    out[i] = kernels::PhiloxUnit<float, float>(block, static_cast<int>(position % kPerBlock));
  }
};

absl::Status RunUniformByKey(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  return ForEach(args, out.size(),
                 KeyBody{reinterpret_cast<const double*>(args.in(0).data),
                         reinterpret_cast<float*>(out.data), kernels::KeyedRowsOf(args)});
}

// For distributions that draw as many numbers of the generator as each element needs.
template <typename Out, typename Draw>
struct DrawBody {
  Out* out;
  uint64_t seed;
  uint64_t counter;
  Draw draw;

  CHX_HD void operator()(int64_t i) const {
    kernels::PhiloxStream stream(seed, counter + static_cast<uint64_t>(i));
    out[i] = draw(stream, i);
  }
};

template <typename Out, typename Draw>
absl::Status RunDraw(const KernelArgs& args, const Draw& draw) {
  const KernelTensor& out = args.out(0);
  return ForEach(args, out.size(),
                 DrawBody<Out, Draw>{reinterpret_cast<Out*>(out.data),
                                     static_cast<uint64_t>(args.attrs[0].AsInt()),
                                     static_cast<uint64_t>(args.attrs[1].AsInt()), draw});
}

template <typename T>
struct Gamma {
  const double* shapes;
  CHX_HD T operator()(kernels::PhiloxStream& stream, int64_t i) const {
    return kernels::Cast<T>(kernels::GammaVariate(stream, shapes[i]));
  }
};

struct Poisson {
  const double* rates;
  CHX_HD int64_t operator()(kernels::PhiloxStream& stream, int64_t i) const {
    return kernels::PoissonVariate(stream, rates[i]);
  }
};

struct Binomial {
  const int64_t* trials;
  const double* chances;
  CHX_HD int64_t operator()(kernels::PhiloxStream& stream, int64_t i) const {
    return kernels::BinomialVariate(stream, trials[i], chances[i]);
  }
};

absl::Status RunGamma(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  const double* const shapes = reinterpret_cast<const double*>(a.data);
  return kernels::VisitFloat(args.out(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunDraw<T>(args, Gamma<T>{shapes});
  });
}

absl::Status RunPoisson(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  return RunDraw<int64_t>(args, Poisson{reinterpret_cast<const double*>(a.data)});
}

absl::Status RunBinomial(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor n, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const KernelTensor p, Contiguous(args, args.in(1)));
  return RunDraw<int64_t>(args, Binomial{reinterpret_cast<const int64_t*>(n.data),
                                         reinterpret_cast<const double*>(p.data)});
}

}  // namespace

void RegisterRandom(KernelTable& table) {
  table.Set("random_uniform", RunRandom<Uniform>);
  table.Set("uniform_by_key", RunUniformByKey);
  table.Set("random_normal", RunRandom<Normal>);
  table.Set("random_gamma", RunGamma);
  table.Set("random_poisson", RunPoisson);
  table.Set("random_binomial", RunBinomial);
}

}  // namespace chx::server::cuda
