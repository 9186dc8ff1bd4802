// Kernels of ops/defs/random.cc: element i comes from block counter + i / (elements per block).
#include <algorithm>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/distributions.h"
#include "server/kernels/keyed_rows.h"
#include "server/kernels/philox.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"

namespace chx::server::native {
namespace {

// fill(block, out) generates kPhiloxPerBlock elements.
template <typename T, typename Fill>
void FillBlocks(const KernelArgs& args, Fill&& fill) {
  constexpr int64_t kPerBlock = kernels::kPhiloxPerBlock<T>;
  const int64_t size = args.out(0).size();
  T* const out = reinterpret_cast<T*>(args.out(0).data);
  const uint64_t seed = static_cast<uint64_t>(args.attrs[4].AsInt());
  const uint64_t counter = static_cast<uint64_t>(args.attrs[5].AsInt());
  const int64_t blocks = (size + kPerBlock - 1) / kPerBlock;
  PoolOf(args).ParallelFor(blocks, kGrain / 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const kernels::PhiloxBlock block = kernels::Philox(seed, counter + static_cast<uint64_t>(i));
      T elements[kPerBlock];
      fill(block, elements);
      std::copy_n(elements, std::min(kPerBlock, size - i * kPerBlock), out + i * kPerBlock);
    }
  });
}

absl::Status RunUniform(const KernelArgs& args) {
  const double low = args.attrs[1].AsFloat();
  const double high = args.attrs[2].AsFloat();
  kernels::VisitFloat(args.out(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    FillBlocks<T>(args, [low, high](const kernels::PhiloxBlock& block, T* out) {
      for (int lane = 0; lane < kernels::kPhiloxPerBlock<T>; ++lane) {
        out[lane] = kernels::PhiloxUniform<T>(block, lane, low, high);
      }
    });
  });
  return absl::OkStatus();
}

absl::Status RunNormal(const KernelArgs& args) {
  const double loc = args.attrs[1].AsFloat();
  const double scale = args.attrs[2].AsFloat();
  kernels::VisitFloat(args.out(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    FillBlocks<T>(args, [loc, scale](const kernels::PhiloxBlock& block, T* out) {
      kernels::PhiloxNormal<T>(block, loc, scale, out);
    });
  });
  return absl::OkStatus();
}

absl::Status RunUniformByKey(const KernelArgs& args) {
  const uint64_t seed = kernels::PhiloxSeed(*reinterpret_cast<const double*>(args.in(0).data));
  const kernels::KeyedRows rows = kernels::KeyedRowsOf(args);
  float* const out = reinterpret_cast<float*>(args.out(0).data);
  PoolOf(args).ParallelFor(args.out(0).size(), kGrain / 4, [&](int64_t begin, int64_t end) {
    constexpr int64_t kPerBlock = kernels::kPhiloxPerBlock<float>;
    for (int64_t i = begin; i < end;) {
      const int64_t position = rows.Position(i);
      const kernels::PhiloxBlock block =
          kernels::Philox(seed, static_cast<uint64_t>(position / kPerBlock));
      const int64_t last = std::min({end, i + rows.Left(i), i + kPerBlock - position % kPerBlock});
      for (int64_t lane = position % kPerBlock; i < last; ++i, ++lane) {
        out[i] = kernels::PhiloxUnit<float, float>(block, static_cast<int>(lane));
      }
    }
  });
  return absl::OkStatus();
}

// out[i] = draw(element i's stream, i).
template <typename Out, typename Draw>
void FillEach(const KernelArgs& args, Draw&& draw) {
  Out* const out = reinterpret_cast<Out*>(args.out(0).data);
  const uint64_t seed = static_cast<uint64_t>(args.attrs[0].AsInt());
  const uint64_t counter = static_cast<uint64_t>(args.attrs[1].AsInt());
  PoolOf(args).ParallelFor(args.out(0).size(), kGrain / 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      kernels::PhiloxStream stream(seed, counter + static_cast<uint64_t>(i));
      out[i] = draw(stream, i);
    }
  });
}

absl::Status RunGamma(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), Dtype::kFloat64));
  const double* const shapes = reinterpret_cast<const double*>(a.data);
  kernels::VisitFloat(args.out(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    FillEach<T>(args, [shapes](kernels::PhiloxStream& stream, int64_t i) {
      return kernels::Cast<T>(kernels::GammaVariate(stream, shapes[i]));
    });
  });
  return absl::OkStatus();
}

absl::Status RunPoisson(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), Dtype::kFloat64));
  const double* const rates = reinterpret_cast<const double*>(a.data);
  FillEach<int64_t>(args, [rates](kernels::PhiloxStream& stream, int64_t i) {
    return kernels::PoissonVariate(stream, rates[i]);
  });
  return absl::OkStatus();
}

absl::Status RunBinomial(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor n, Contiguous(args, args.in(0), Dtype::kInt64));
  CHX_ASSIGN_OR_RETURN(const KernelTensor p, Contiguous(args, args.in(1), Dtype::kFloat64));
  const int64_t* const trials = reinterpret_cast<const int64_t*>(n.data);
  const double* const chances = reinterpret_cast<const double*>(p.data);
  FillEach<int64_t>(args, [trials, chances](kernels::PhiloxStream& stream, int64_t i) {
    return kernels::BinomialVariate(stream, trials[i], chances[i]);
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterRandom(KernelTable& table) {
  table.Set("random_uniform", RunUniform);
  table.Set("random_normal", RunNormal);
  table.Set("uniform_by_key", RunUniformByKey);
  table.Set("random_gamma", RunGamma);
  table.Set("random_poisson", RunPoisson);
  table.Set("random_binomial", RunBinomial);
}

}  // namespace chx::server::native
