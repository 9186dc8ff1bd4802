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

}  // namespace

std::string KeyOfCall(const CollectiveCall& call) {
  std::string key(call.op.name);
  for (size_t i = 1; i < call.attrs.size(); ++i) {
    absl::StrAppend(&key, ", ", call.attrs[i].ToString());
  }
  for (const KernelTensor& tensor : Common(call)) {
    absl::StrAppend(&key, ", ", ArraySpec(tensor.dtype, tensor.shape).ToString());
  }
  return key;
}

std::string DescribeCall(int rank, const CollectiveCall& call) {
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

absl::Status DifferentCallsError(absl::string_view op, absl::string_view group,
                                 absl::Span<const std::string> calls) {
  std::vector<std::string> named(calls.begin(), calls.begin() + std::min(calls.size(), kMaxNamed));
  if (calls.size() > named.size()) {
    named.push_back(absl::StrCat("others at ", calls.size() - named.size(), " more ranks"));
  }
  return ValueError("[", op, "] expects the same call at all ranks of process group '", group,
                    "', got ", named[0], " and ",
                    absl::StrJoin(named.begin() + 1, named.end(), ", "));
}

absl::Status CompareCalls(absl::string_view group, absl::Span<const CollectiveCall* const> calls) {
  const CollectiveCall* first = nullptr;
  std::vector<int> different;  // ranks
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i] == nullptr) continue;
    const auto rank = static_cast<int>(i);
    const CollectiveCall& call = *calls[i];
    if (!call.failed.ok()) {
      return MakeError(
          KindOf(call.failed),
          absl::StrCat("[", call.op.name, "] expects all ranks of process group '", group,
                       "', got an error ", At(rank, call), ": ", call.failed.message()));
    }
    if (first != nullptr && GoTogether(*first, call)) continue;
    if (first == nullptr) first = &call;
    different.push_back(rank);
  }
  if (different.size() < 2) return absl::OkStatus();
  std::vector<std::string> described;
  described.reserve(different.size());
  for (const int rank : different) {
    // Of many, only how many there are.
    described.push_back(described.size() < kMaxNamed ? DescribeCall(rank, *calls[rank]) : "");
  }
  return DifferentCallsError(first->op.name, group, described);
}

}  // namespace chx::server
