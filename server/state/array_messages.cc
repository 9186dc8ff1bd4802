#include "server/state/array_messages.h"

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx::server {
namespace {

void SetNumber(ScalarKind kind, const Scalar& scalar, state::Value* message) {
  if (kind == ScalarKind::kFloat) {
    message->set_real(scalar.AsDouble());
  } else {
    message->set_integer(scalar.AsInt());
  }
}

absl::StatusOr<Scalar> NumberOf(uint32_t kind, const state::Value& message) {
  if (kind == static_cast<uint32_t>(ScalarKind::kBool)) return Scalar(message.integer() != 0);
  if (kind == static_cast<uint32_t>(ScalarKind::kInt)) {
    return Scalar(static_cast<int64_t>(message.integer()));
  }
  if (kind == static_cast<uint32_t>(ScalarKind::kFloat)) return Scalar(message.real());
  return Unreadable("a number of an unknown kind");
}

}  // namespace

absl::Status Unreadable(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the snapshot cannot be used: ", why));
}

void ToMessage(const ArraySpec& spec, state::Spec* message) {
  message->set_dtype(static_cast<uint32_t>(spec.dtype));
  message->set_device(spec.device);
  for (int64_t dim : spec.shape) message->add_shape(dim);
  for (int64_t stride : spec.strides) message->add_strides(stride);
  message->set_offset(spec.offset);
}

void ToMessage(const Scalar& scalar, state::Value* message) {
  message->set_type(static_cast<uint32_t>(scalar.kind()));
  SetNumber(scalar.kind(), scalar, message);
}

void ToMessage(const AttrValue& value, state::Value* message) {
  message->set_type(static_cast<uint32_t>(value.type()));
  switch (value.type()) {
    case AttrType::kBool:
      return message->set_integer(value.AsBool() ? 1 : 0);
    case AttrType::kInt:
      return message->set_integer(value.AsInt());
    case AttrType::kFloat:
      return message->set_real(value.AsFloat());
    case AttrType::kDtype:
      return message->set_integer(static_cast<int64_t>(value.AsDtype()));
    case AttrType::kScalar:
      message->set_scalar(static_cast<uint32_t>(value.AsScalar().kind()));
      return SetNumber(value.AsScalar().kind(), value.AsScalar(), message);
    case AttrType::kInts:
    case AttrType::kIndex:
      for (int64_t each : value.ints()) message->add_integers(each);
      return;
    case AttrType::kNone:
      return;
  }
}

absl::StatusOr<ArraySpec> FromMessage(const state::Spec& message, int devices) {
  const int ndim = message.shape_size();
  if (ndim > kMaxNdim || message.strides_size() != ndim ||
      !IsValidDtype(static_cast<int>(message.dtype() & 0xff)) || message.dtype() > 0xff ||
      message.device() >= static_cast<uint32_t>(devices)) {
    return Unreadable("an array's description");
  }
  ArraySpec spec;
  spec.dtype = static_cast<Dtype>(message.dtype());
  spec.device = static_cast<DeviceId>(message.device());
  for (int64_t dim : message.shape()) spec.shape.push_back(dim);
  for (int64_t stride : message.strides()) spec.strides.push_back(stride);
  spec.offset = message.offset();
  CHX_RETURN_IF_ERROR(CheckShape("restore", spec.shape.span(), spec.dtype));
  return spec;
}

absl::StatusOr<Scalar> ScalarFrom(const state::Value& message) {
  return NumberOf(message.type(), message);
}

absl::StatusOr<AttrValue> AttrFrom(const state::Value& message) {
  if (message.type() >= static_cast<uint32_t>(kNumAttrTypes)) return Unreadable("an attribute");
  switch (static_cast<AttrType>(message.type())) {
    case AttrType::kNone:
      return AttrValue();
    case AttrType::kBool:
      return AttrValue(message.integer() != 0);
    case AttrType::kInt:
      return AttrValue(static_cast<int64_t>(message.integer()));
    case AttrType::kFloat:
      return AttrValue(message.real());
    case AttrType::kDtype:
      if (message.integer() < 0 || message.integer() >= kNumDtypes) return Unreadable("a dtype");
      return AttrValue(static_cast<Dtype>(message.integer()));
    case AttrType::kScalar: {
      CHX_ASSIGN_OR_RETURN(const Scalar scalar, NumberOf(message.scalar(), message));
      return AttrValue(scalar);
    }
    case AttrType::kInts:
      return AttrValue(Ints(message.integers().begin(), message.integers().end()));
    case AttrType::kIndex:
      return AttrValue::Index(Ints(message.integers().begin(), message.integers().end()));
  }
  return Unreadable("an attribute");
}

}  // namespace chx::server
