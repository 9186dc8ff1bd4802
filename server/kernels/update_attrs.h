// The attributes of an optimizer's step, as update_rules.h wants them.
#ifndef CHX_SERVER_KERNELS_UPDATE_ATTRS_H_
#define CHX_SERVER_KERNELS_UPDATE_ATTRS_H_

#include <limits>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ops/attr.h"

namespace chx::server::kernels {

inline absl::InlinedVector<double, 8> UpdateAttrs(absl::Span<const AttrValue> attrs) {
  absl::InlinedVector<double, 8> numbers;
  for (const AttrValue& attr : attrs) {
    numbers.push_back(!attr.has_value()                 ? std::numeric_limits<double>::quiet_NaN()
                      : attr.type() == AttrType::kFloat ? attr.AsFloat()
                                                        : static_cast<double>(attr.AsBool()));
  }
  return numbers;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_UPDATE_ATTRS_H_
