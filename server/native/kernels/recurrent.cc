// Kernels of ops/defs/recurrent.cc, for operators that are compositions too.
#include <algorithm>
#include <vector>

#include "ops/error.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"

namespace chx::server::native {
namespace {

// Calls run(loops, addresses of the inputs and outputs for one sample, n) for every sample of a
// state (N, n), with dense inputs of the outputs' dtype. Declines states of more dimensions.
template <typename Fn>
absl::Status ForSamples(const KernelArgs& args, Fn&& run) {
  const KernelTensor& state = args.in(2);
  const Dtype dtype = args.out(0).dtype;
  if (state.ndim() != 2) return absl::UnimplementedError("");
  if (state.size() == 0) return absl::OkStatus();
  struct Samples {
    char* data;
    int64_t step;  // bytes from sample to sample
  };
  std::vector<Samples> operands;
  for (const KernelTensor& in : args.inputs) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, in, dtype));
    operands.push_back({dense.data, dense.shape[1] * ItemSize(dtype)});
  }
  for (const KernelTensor& out : args.outputs) {
    operands.push_back({out.data, out.shape[1] * ItemSize(dtype)});
  }
  const LstmLoops& loops = Loops().lstm[static_cast<int>(dtype)];
  const int64_t n = state.shape[1];
  // Each element of the state takes five exponentials.
  const int64_t grain = std::max<int64_t>(1, kGrain / 32 / n);
  PoolOf(args).ParallelFor(state.shape[0], grain, [&](int64_t begin, int64_t end) {
    char* at[7];
    for (int64_t sample = begin; sample < end; ++sample) {
      for (size_t i = 0; i < operands.size(); ++i) {
        at[i] = operands[i].data + sample * operands[i].step;
      }
      run(loops, at, n);
    }
  });
  return absl::OkStatus();
}

// x, h, c; c_next, h_next.
absl::Status RunLstmCell(const KernelArgs& args) {
  return ForSamples(args, [](const LstmLoops& loops, char* const* at, int64_t n) {
    loops.cell(at[0], at[1], at[2], n, at[3], at[4]);
  });
}

// x, h, c, gc, gh; gz, gc_before.
absl::Status RunLstmCellGrad(const KernelArgs& args) {
  return ForSamples(args, [](const LstmLoops& loops, char* const* at, int64_t n) {
    loops.grad(at[0], at[1], at[2], at[3], at[4], n, at[5], at[6]);
  });
}

}  // namespace

void RegisterRecurrent(KernelTable& table) {
  table.Set("lstm_cell", RunLstmCell);
  table.Set("lstm_cell_grad", RunLstmCellGrad);
}

}  // namespace chx::server::native
