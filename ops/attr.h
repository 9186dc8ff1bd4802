// Attributes: the typed, non-array arguments of an operator.
#ifndef CHX_OPS_ATTR_H_
#define CHX_OPS_ATTR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ops/dtype.h"
#include "ops/scalar.h"

namespace chx {

// Values are on the wire: append only.
enum class AttrType : uint8_t {
  kNone = 0,  // absent; what an optional attribute without a value has
  kBool = 1,
  kInt = 2,
  kFloat = 3,
  kDtype = 4,
  kScalar = 5,
  kInts = 6,   // axes, a shape, sections
  kIndex = 7,  // a basic index, encoded by ops/basic_index.h
};
// How many there are.
inline constexpr int kNumAttrTypes = 8;
// "int", "ints", ...
absl::string_view AttrTypeName(AttrType type);

// Axes, a shape, ...: short lists need no heap allocation.
using Ints = absl::InlinedVector<int64_t, 6>;

// A value of any of these types, or none.
class AttrValue {
 public:
  AttrValue() = default;
  AttrValue(bool value) : type_(AttrType::kBool), scalar_(value) {}     // NOLINT
  AttrValue(int value) : type_(AttrType::kInt), scalar_(value) {}       // NOLINT
  AttrValue(int64_t value) : type_(AttrType::kInt), scalar_(value) {}   // NOLINT
  AttrValue(double value) : type_(AttrType::kFloat), scalar_(value) {}  // NOLINT
  AttrValue(Dtype value)                                                // NOLINT
      : type_(AttrType::kDtype), scalar_(static_cast<int64_t>(value)) {}
  AttrValue(Scalar value) : type_(AttrType::kScalar), scalar_(value) {}       // NOLINT
  AttrValue(Ints value) : type_(AttrType::kInts), ints_(std::move(value)) {}  // NOLINT
  static AttrValue FromInts(absl::Span<const int64_t> values) {
    return AttrValue(Ints(values.begin(), values.end()));
  }
  static AttrValue Index(Ints encoded) {
    AttrValue value(std::move(encoded));
    value.type_ = AttrType::kIndex;
    return value;
  }

  AttrType type() const { return type_; }
  bool has_value() const { return type_ != AttrType::kNone; }
  // Each accessor requires the type, which InferOp has checked against the operator's declaration.
  bool AsBool() const { return scalar_.AsBool(); }
  int64_t AsInt() const { return scalar_.AsInt(); }
  double AsFloat() const { return scalar_.AsDouble(); }
  Dtype AsDtype() const { return static_cast<Dtype>(scalar_.AsInt()); }
  Scalar AsScalar() const { return scalar_; }
  const Ints& ints() const { return ints_; }
  // As Python source: "True", "(2, 3)", "float32", "None".
  std::string ToString() const;

 private:
  AttrType type_ = AttrType::kNone;
  Scalar scalar_;
  Ints ints_;
};

// The attributes of one call, in the order of the operator's declaration.
using Attrs = absl::InlinedVector<AttrValue, 2>;

}  // namespace chx

#endif  // CHX_OPS_ATTR_H_
