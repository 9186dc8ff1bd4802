// UpdateLoops for the instruction set that this file is compiled for. Included by
// update_loops_<isa>.cc; see loops.inc for the rules that hold here.
#include <cstdint>
#include <utility>

#include "server/kernels/types.h"
#include "server/native/update_loops.h"

namespace chx::server::native {
namespace CHX_LOOPS_NAMESPACE {

template <typename Rule, typename T, size_t... kIndex>
CHX_HD void Run(const Rule& rule, char* const* lists, int64_t n, std::index_sequence<kIndex...>) {
  T* const data[] = {reinterpret_cast<T*>(lists[kIndex])...};
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < n; ++i) {
    kernels::Compute<T> x[] = {kernels::Load(data[kIndex][i])...};
    rule(x);
    ((void)((Rule::kWritten >> kIndex & 1) != 0 &&
            (data[kIndex][i] = kernels::Store<T>(x[kIndex]), true)),
     ...);
  }
}

template <template <typename> class Rule, typename T>
void Update(char* const* lists, int64_t n, const double* attrs) {
  using RuleOfT = Rule<kernels::Compute<T>>;
  Run<RuleOfT, T>(RuleOfT(attrs), lists, n, std::make_index_sequence<RuleOfT::kLists>());
}

template <template <typename> class... Rules>
UpdateLoops MakeLoops(kernels::RuleList<Rules...>) {
  return {{Update<Rules, kernels::Half>...}, {Update<Rules, float>...}, {Update<Rules, double>...}};
}

}  // namespace CHX_LOOPS_NAMESPACE

const UpdateLoops& CHX_LOOPS_FUNCTION() {
  static const UpdateLoops loops = CHX_LOOPS_NAMESPACE::MakeLoops(kernels::UpdateRules());
  return loops;
}

}  // namespace chx::server::native
