#include "server/collectives/compare_calls.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/collective.h"
#include "ops/error.h"

namespace chx::server {
namespace {

// Of ranks, and of a rank's arrays, that a text names.
constexpr size_t kMaxNamed = 8;

absl::Span<const KernelTensor> Common(const CollectiveCall& call) {
  return call.op.pattern->by_output ? call.outputs : call.inputs;
}

bool SameTensor(const KernelTensor& a, const KernelTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

bool SameAttr(const AttrValue& a, const AttrValue& b) {
  return a.type() == b.type() && a.AsInt() == b.AsInt() && a.ints() == b.ints();
}

bool GoTogether(const CollectiveCall& a, const CollectiveCall& b) {
  const auto a_arrays = Common(a);
  const auto b_arrays = Common(b);
  return &a.op == &b.op &&
         std::equal(a_arrays.begin(), a_arrays.end(), b_arrays.begin(), b_arrays.end(),
                    SameTensor) &&
         // The group is one; the rank in it is another.
         std::equal(a.attrs.begin() + 1, a.attrs.end(), b.attrs.begin() + 1, b.attrs.end(),
                    SameAttr);
}

std::string At(int rank, const CollectiveCall& call) {
  return absl::StrCat("at rank ", rank, call.location.empty() ? "" : " (", call.location,
                      call.location.empty() ? "" : ")");
}

std::string Described(int rank, const CollectiveCall& call) {
  std::vector<std::string> parts;
  for (const KernelTensor& tensor : call.inputs.subspan(0, kMaxNamed)) {
    parts.push_back(ArraySpec(tensor.dtype, tensor.shape).ToString());
  }
  if (call.inputs.size() > kMaxNamed) {
    parts.push_back(absl::StrCat("... (", call.inputs.size(), " arrays)"));
  }
  for (size_t i = 1; i < call.attrs.size(); ++i) {
    const AttrDef& def = call.op.attrs[i];
    const std::string value = def.choices.empty()
                                  ? call.attrs[i].ToString()
                                  : def.choices[static_cast<size_t>(call.attrs[i].AsInt())];
    parts.push_back(absl::StrCat(def.name, "=", value));
  }
  return absl::StrCat(call.op.name, "(", absl::StrJoin(parts, ", "), ") ", At(rank, call));
}

}  // namespace

absl::Status CompareCalls(absl::string_view group, absl::Span<const CollectiveCall* const> calls) {
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const CollectiveCall& call = *calls[rank];
    if (call.failed.ok()) continue;
    return MakeError(KindOf(call.failed),
                     absl::StrCat("[", call.op.name, "] expects all ranks of process group '",
                                  group, "', got an error ", At(static_cast<int>(rank), call), ": ",
                                  call.failed.message()));
  }
  std::vector<std::string> others;
  size_t num_others = 0;
  for (size_t rank = 1; rank < calls.size(); ++rank) {
    if (GoTogether(*calls[0], *calls[rank])) continue;
    if (++num_others < kMaxNamed) {
      others.push_back(Described(static_cast<int>(rank), *calls[rank]));
    }
  }
  if (others.empty()) return absl::OkStatus();
  if (num_others > others.size()) {
    others.push_back(absl::StrCat("others at ", num_others - others.size(), " more ranks"));
  }
  return ValueError("[", calls[0]->op.name,
                    "] expects the same call at all ranks of process group '", group, "', got ",
                    Described(0, *calls[0]), " and ", absl::StrJoin(others, ", "));
}

}  // namespace chx::server
