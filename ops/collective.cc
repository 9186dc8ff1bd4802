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
  if (attrs.size() != op.attrs.size()) {
    return TypeError("[", op.name, "] expects ", op.attrs.size(), " attributes, got ",
                     attrs.size());
  }
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupAttr::From(op.name, attrs[0]));
  const AttrValue& peer_attr = attrs[op.AttrIndex("peer")];
  const AttrValue& tag_attr = attrs[op.AttrIndex("tag")];
  if (peer_attr.type() != AttrType::kInt || tag_attr.type() != AttrType::kInt) {
    return TypeError("[", op.name, "] expects a rank and a tag, got ", peer_attr.ToString(),
                     " and ", tag_attr.ToString());
  }
  const int64_t peer = peer_attr.AsInt();
  if (peer < 0 || peer >= group.size) {
    return ValueError("[", op.name, "] expects a rank in [0, ", group.size, "), got ", peer);
  }
  return PeerAttrs{static_cast<int>(peer), tag_attr.AsInt()};
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
