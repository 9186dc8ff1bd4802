#include "ops/collective.h"

#include "ops/error.h"

namespace chx {

absl::StatusOr<GroupAttr> GroupAttr::From(absl::string_view op, const AttrValue& attr) {
  const Ints& numbers = attr.ints();
  if (numbers.size() != 3 || numbers[2] < 1 || numbers[2] > kMaxGroupSize || numbers[1] < 0 ||
      numbers[1] >= numbers[2]) {
    return ValueError("[", op, "] expects a group as (number, rank, size), rank below size and ",
                      "size at most ", kMaxGroupSize, ", got ", attr.ToString());
  }
  GroupAttr group;
  group.id = numbers[0];
  group.rank = static_cast<int>(numbers[1]);
  group.size = static_cast<int>(numbers[2]);
  return group;
}

absl::StatusOr<PeerAttrs> PeerAttrs::From(const OpDef& op, absl::Span<const AttrValue> attrs) {
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupAttr::From(op.name, attrs[0]));
  const int64_t peer = attrs[op.AttrIndex("peer")].AsInt();
  if (peer < 0 || peer >= group.size || peer == group.rank) {
    return ValueError("[", op.name, "] expects another rank than this one, ", group.rank,
                      ", in [0, ", group.size, "), got ", peer);
  }
  return PeerAttrs{static_cast<int>(peer), attrs[op.AttrIndex("tag")].AsInt()};
}

int RootOf(const OpDef& op, absl::Span<const AttrValue> attrs) {
  const int i = op.AttrIndex("root");
  return i < 0 ? 0 : static_cast<int>(attrs[i].AsInt());
}

GroupReduction ReductionOf(const OpDef& op, absl::Span<const AttrValue> attrs) {
  const int i = op.AttrIndex("reduction");
  return i < 0 ? GroupReduction::kSum : static_cast<GroupReduction>(attrs[i].AsInt());
}

}  // namespace chx
