// Kernels of ops/defs/optimizers.cc. Each parameter is one launch.
#include <utility>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/update_attrs.h"
#include "server/kernels/update_rules.h"

namespace chx::server::cuda {
namespace {

template <typename Rule, typename T>
struct UpdateBody {
  Rule rule;
  T* lists[Rule::kLists];

  CHX_HD void operator()(int64_t i) const {
    kernels::Compute<T> x[Rule::kLists];
    CHX_UNROLL
    for (int l = 0; l < Rule::kLists; ++l) x[l] = kernels::Load(lists[l][i]);
    rule(x);
    CHX_UNROLL
    for (int l = 0; l < Rule::kLists; ++l) {
      if ((Rule::kWritten >> l & 1) != 0) lists[l][i] = kernels::Store<T>(x[l]);
    }
  }
};

template <template <typename> class Rule>
absl::Status RunUpdate(const KernelArgs& args) {
  constexpr int kLists = Rule<float>::kLists;
  const absl::InlinedVector<double, 8> attrs = kernels::UpdateAttrs(args.attrs);
  const int length = static_cast<int>(args.inputs.size()) / kLists;
  for (int k = 0; k < length; ++k) {
    CHX_RETURN_IF_ERROR(kernels::VisitFloat(args.in(k).dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      using RuleOfT = Rule<kernels::Compute<T>>;
      UpdateBody<RuleOfT, T> body{RuleOfT(attrs.data()), {}};
      for (int l = 0; l < kLists; ++l) {
        body.lists[l] = reinterpret_cast<T*>(args.in(l * length + k).data);
      }
      return ForEach(args, args.in(k).size(), body);
    }));
  }
  return absl::OkStatus();
}

template <template <typename> class... Rules>
void SetAll(KernelTable& table, kernels::RuleList<Rules...>) {
  (table.Set(Rules<float>::kName, RunUpdate<Rules>), ...);
}

}  // namespace

void RegisterOptimizers(KernelTable& table) { SetAll(table, kernels::UpdateRules()); }

}  // namespace chx::server::cuda
