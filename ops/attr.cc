#include "ops/attr.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace chx {

absl::string_view AttrTypeName(AttrType type) {
  constexpr absl::string_view kNames[kNumAttrTypes] = {"None",  "bool",   "int",  "float",
                                                       "dtype", "scalar", "ints", "index"};
  return kNames[static_cast<int>(type)];
}

std::string AttrValue::ToString() const {
  switch (type_) {
    case AttrType::kNone:
      return "None";
    case AttrType::kDtype:
      return std::string(DtypeName(AsDtype()));
    case AttrType::kInts:
    case AttrType::kIndex:
      return absl::StrCat("(", absl::StrJoin(ints_, ", "), ints_.size() == 1 ? ",)" : ")");
    default:
      return scalar_.ToString();
  }
}

}  // namespace chx
