// Kernels of ops/defs/optimizers.cc.
#include <array>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "server/kernels/update_attrs.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/loops/update_loops.h"
#include "server/native/runtime/device.h"

namespace chx::server::native {
namespace {

UpdateLoop LoopOf(int rule, Dtype dtype) {
  const UpdateLoops& loops = *Loops().updates;
  if (dtype == Dtype::kFloat16) return loops.float16[rule];
  if (dtype == Dtype::kBfloat16) return loops.bfloat16[rule];
  return dtype == Dtype::kFloat32 ? loops.float32[rule] : loops.float64[rule];
}

template <int kRule, int kLists>
absl::Status RunUpdate(const KernelArgs& args) {
  const absl::InlinedVector<double, 8> attrs = kernels::UpdateAttrs(args.attrs);
  const size_t length = args.inputs.size() / kLists;
  for (size_t k = 0; k < length; ++k) {
    const KernelTensor& param = args.in(static_cast<int>(k));
    const UpdateLoop loop = LoopOf(kRule, param.dtype);
    const int64_t item_size = ItemSize(param.dtype);
    PoolOf(args).ParallelFor(param.size(), kGrain, [&](int64_t begin, int64_t end) {
      std::array<char*, kLists> lists;
      for (size_t l = 0; l < kLists; ++l) {
        lists[l] = args.inputs[l * length + k].data + begin * item_size;
      }
      loop(lists.data(), end - begin, attrs.data());
    });
  }
  return absl::OkStatus();
}

template <template <typename> class... Rules, size_t... kIndex>
void SetAll(KernelTable& table, kernels::RuleList<Rules...>, std::index_sequence<kIndex...>) {
  (table.Set(Rules<float>::kName, RunUpdate<static_cast<int>(kIndex), Rules<float>::kLists>), ...);
}

}  // namespace

void RegisterOptimizers(KernelTable& table) {
  using kernels::UpdateRules;
  SetAll(table, UpdateRules(), std::make_index_sequence<UpdateRules::kSize>());
}

}  // namespace chx::server::native
