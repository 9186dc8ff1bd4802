// What collective operators are told of their group, and what they move between its ranks.
#ifndef CHX_OPS_COLLECTIVE_H_
#define CHX_OPS_COLLECTIVE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/attr.h"
#include "ops/op_def.h"

namespace chx {

// Ranks of a group, at most.
inline constexpr int kMaxGroupSize = 1024;

// The process group of a call, as its first attribute has it.
struct GroupAttr {
  int64_t id = 0;  // the session's number for it
  int rank = 0;    // who calls
  int size = 1;

  // From the list of these three numbers.
  static absl::StatusOr<GroupAttr> From(absl::string_view op, const AttrValue& attr);
};

// How ranks' elements become one.
enum class GroupReduction : int64_t { kSum = 0, kMean = 1, kMax = 2, kMin = 3, kProd = 4 };

// One block of elements on its way.
struct CollectiveMove {
  static constexpr int kEvery = -1;

  int from = kEvery;  // whose input; kEvery: those of all ranks, reduced in the order of ranks
  int64_t from_block = 0;
  int to = kEvery;  // whose output; kEvery: those of all ranks
  int64_t to_block = 0;
};

// How ranks come together for an operator.
enum class CollectiveKind : uint8_t {
  kAll,      // all of them, who call the same
  kSend,     // from the calling rank to another one, for which it does not wait
  kReceive,  // what another rank has sent, or sends
};

// All that an engine for process groups has to know about an operator (server/collectives).
struct CollectivePattern {
  // How many moves there are in a group of that size, and each of them. Of kAll only.
  int64_t (*count)(int size);
  CollectiveMove (*move)(int64_t i, int size, int root);
  // All ranks have outputs of one shape and dtype; else they have such inputs.
  bool by_output = false;
  // These have a block for each rank; else they are one block.
  bool has_rows = false;
  CollectiveKind kind = CollectiveKind::kAll;
};

// The other rank of a kSend or kReceive, which may be the same one, and which of its messages.
struct PeerAttrs {
  int peer = 0;
  int64_t tag = 0;

  // Of the call's attributes; an error unless the peer is a rank of the group.
  static absl::StatusOr<PeerAttrs> From(const OpDef& op, absl::Span<const AttrValue> attrs);
};

// The attributes "root" and "reduction" of a call, for operators that have them.
int RootOf(const OpDef& op, absl::Span<const AttrValue> attrs);
GroupReduction ReductionOf(const OpDef& op, absl::Span<const AttrValue> attrs);

}  // namespace chx

#endif  // CHX_OPS_COLLECTIVE_H_
