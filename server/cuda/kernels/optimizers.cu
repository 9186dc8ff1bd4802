// Kernels of ops/defs/optimizers.cc. A launch updates as many parameters as
// its arguments can name.
#include <utility>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/elementwise.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/update_attrs.h"
#include "server/kernels/update_rules.h"

namespace chx::server::cuda {
namespace {

// Parameters of one dtype, in packs: those of parameter k are [begin[k], begin[k + 1]).
template <typename Rule, typename T>
struct UpdateBody {
  static constexpr int kLists = Rule::kLists;
  static constexpr int kPack = kPackSize<T>;
  static constexpr int kMost = 3072 / (8 * (kLists + 2));  // a kernel's arguments are below 4 KiB
  using Elements = Pack<T, kPack>;

  Rule rule;
  bool aligned = true;  // whether all are aligned to packs
  int count = 0;
  int64_t begin[kMost + 1] = {0};
  int64_t sizes[kMost];
  T* lists[kMost][kLists];

  bool Full() const { return count == kMost; }
  // `list(l)`: the parameter's array in list l.
  template <typename List>
  void Add(int64_t size, const List& list) {
    if (size == 0) return;
    for (int l = 0; l < kLists; ++l) {
      char* const data = list(l);
      aligned &= reinterpret_cast<uintptr_t>(data) % sizeof(Elements) == 0;
      lists[count][l] = reinterpret_cast<T*>(data);
    }
    sizes[count] = size;
    begin[count + 1] = begin[count] + (size + kPack - 1) / kPack;
    ++count;
  }

  CHX_HD void operator()(int64_t i) const {
    int k = 0;
    for (int last = count; last - k > 1;) {
      const int middle = (k + last) / 2;
      (begin[middle] <= i ? k : last) = middle;
    }
    const int64_t at = (i - begin[k]) * kPack;
    const int64_t left = sizes[k] - at;
    Elements elements[kLists];
    if (aligned && left >= kPack) {
      CHX_UNROLL
      for (int l = 0; l < kLists; ++l) {
        elements[l] = *reinterpret_cast<const Elements*>(lists[k][l] + at);
      }
      CHX_UNROLL
      for (int j = 0; j < kPack; ++j) Update(elements, j);
      CHX_UNROLL
      for (int l = 0; l < kLists; ++l) {
        if (Writes(l)) *reinterpret_cast<Elements*>(lists[k][l] + at) = elements[l];
      }
      return;
    }
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int64_t j = 0; j < (left < kPack ? left : kPack); ++j) {
      CHX_UNROLL
      for (int l = 0; l < kLists; ++l) elements[l].elements[0] = lists[k][l][at + j];
      Update(elements, 0);
      CHX_UNROLL
      for (int l = 0; l < kLists; ++l) {
        if (Writes(l)) lists[k][l][at + j] = elements[l].elements[0];
      }
    }
  }

 private:
  CHX_HD static constexpr bool Writes(int list) { return (Rule::kWritten >> list & 1) != 0; }
  CHX_HD void Update(Elements* elements, int j) const {
    kernels::Compute<T> x[kLists];
    CHX_UNROLL
    for (int l = 0; l < kLists; ++l) x[l] = kernels::Load(elements[l].elements[j]);
    rule(x);
    CHX_UNROLL
    for (int l = 0; l < kLists; ++l) {
      if (Writes(l)) elements[l].elements[j] = kernels::Store<T>(x[l]);
    }
  }
};

template <template <typename> class Rule>
absl::Status RunUpdate(const KernelArgs& args) {
  constexpr int kLists = Rule<float>::kLists;
  const absl::InlinedVector<double, 8> attrs = kernels::UpdateAttrs(args.attrs);
  const int length = static_cast<int>(args.inputs.size()) / kLists;
  for (int k = 0; k < length;) {
    const Dtype dtype = args.in(k).dtype;
    CHX_RETURN_IF_ERROR(kernels::VisitFloat(dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      using RuleOfT = Rule<kernels::Compute<T>>;
      UpdateBody<RuleOfT, T> body{RuleOfT(attrs.data())};
      for (; k < length && args.in(k).dtype == dtype && !body.Full(); ++k) {
        body.Add(args.in(k).size(), [&](int l) { return args.in(l * length + k).data; });
      }
      return ForEach(args, body.begin[body.count], body, body.kPack);
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
