#include "tests/fuzz/choices.h"

#include "ops/registry.h"

namespace chx {
namespace {

constexpr int64_t kInts[] = {INT64_MIN, INT64_MAX, -1, 0, 1 << 20, INT32_MAX, 255, 1000};
constexpr double kDoubles[] = {0.0, -0.0, 1.5, -1e308, 1e-310, 1e20, 1.0 / 3, -2.0};

}  // namespace

const OpDef& Choices::AnyOperator() {
  const OpRegistry& registry = OpRegistry::Global();
  const int number = Byte() * 256 + Byte();
  return registry.at(static_cast<OpId>(number % registry.size()));
}

Scalar Choices::AnyScalar() {
  const int byte = Byte();
  switch (byte % 4) {
    case 0:
      return Scalar(byte > 127);
    case 1:
      return Scalar(static_cast<int64_t>(byte) - 128);
    case 2:
      return Scalar(kDoubles[UpTo(7)]);
    default:
      return Scalar(kInts[UpTo(7)]);
  }
}

Ints Choices::AnyInts() {
  Ints ints;
  for (int n = UpTo(4); n > 0; --n) {
    const int byte = Byte();
    ints.push_back(byte == 255 ? kInts[UpTo(7)] : byte % 8 - 2);
  }
  return ints;
}

AttrValue Choices::AnyAttr(AttrType type) {
  if (UpTo(15) == 0) type = static_cast<AttrType>(UpTo(kNumAttrTypes - 1));
  switch (type) {
    case AttrType::kNone:
      return AttrValue();
    case AttrType::kBool:
      return AttrValue(UpTo(1) == 1);
    case AttrType::kInt:
      return AttrValue(AnyScalar().AsInt());
    case AttrType::kFloat:
      return AttrValue(AnyScalar().AsDouble());
    case AttrType::kDtype:
      return AttrValue(AnyDtype());
    case AttrType::kScalar:
      return AttrValue(AnyScalar());
    case AttrType::kInts:
      return AttrValue(AnyInts());
    case AttrType::kIndex:
      break;
  }
  return AttrValue::Index(AnyInts());
}

HandleOperand Choices::AnyOperand() {
  switch (UpTo(7)) {
    case 0:
      return HandleOperand();
    case 1:
      return HandleOperand(AnyScalar());
    default:
      return HandleOperand(AnyHandle());
  }
}

}  // namespace chx
