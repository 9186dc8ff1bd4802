#include "server/native/loops/update_loops.h"

#include <cstdint>
#include <utility>

#include "server/native/loops/elements.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename Rule, typename T, size_t... kIndex>
CHX_HD void Run(const Rule& rule, char* const* lists, int64_t n, std::index_sequence<kIndex...>) {
  T* const data[] = {reinterpret_cast<T*>(lists[kIndex])...};
  CHX_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    Compute<T> x[] = {Load(data[kIndex][i])...};
    rule(x);
    ((void)((Rule::kWritten >> kIndex & 1) != 0 && (data[kIndex][i] = Store<T>(x[kIndex]), true)),
     ...);
  }
}

template <template <typename> class Rule, typename T>
void Update(char* const* lists, int64_t n, const double* attrs) {
  using RuleOfT = Rule<Compute<T>>;
  Run<RuleOfT, T>(RuleOfT(attrs), lists, n, std::make_index_sequence<RuleOfT::kLists>());
}

template <template <typename> class... Rules>
constexpr UpdateLoops MakeLoops(kernels::RuleList<Rules...>) {
  return {{Update<Rules, kernels::Half>...},
          {Update<Rules, kernels::Bfloat16>...},
          {Update<Rules, float>...},
          {Update<Rules, double>...}};
}

constexpr UpdateLoops kUpdateLoops = MakeLoops(kernels::UpdateRules());

}  // namespace

void FillUpdates(LoopSet* set) { set->updates = &kUpdateLoops; }

}  // namespace chx::server::native::CHX_ISA
