// What the files of client/chainerx share: between the names of ChainerX and those of the client.
#ifndef CHX_CLIENT_CHAINERX_INTERNAL_H_
#define CHX_CLIENT_CHAINERX_INTERNAL_H_

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "chx/chainerx.h"
#include "client/array.h"
#include "client/exports.h"
#include "client/gradients.h"
#include "client/graph_mirror.h"
#include "client/session.h"
#include "ops/error.h"
#include "ops/op_call.h"
#include "ops/registry.h"

namespace chainerx::internal {

struct Session {
  chx::Ref<chx::Session> session;
};

struct ArrayBody {
  ArrayBody(chx::Array array_in, Context* context_in);

  const chx::Array array;  // without an error
  Context* const context;
  const Dtype dtype;
  const Shape shape;
  const Strides strides;
  // What data() and GetGrad() have returned references to.
  std::shared_ptr<void> data;
  bool data_is_exported = false;
  std::map<BackpropOrdinal, Optional<Array>> grads;
};

// The exception of an error's kind.
[[noreturn]] void Throw(const absl::Status& error);
inline void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) Throw(status);
}
template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  ThrowIfError(value.status());
  return *std::move(value);
}

inline chx::Dtype ToChx(Dtype dtype) {
  return static_cast<chx::Dtype>(static_cast<int>(dtype) - 1);
}
inline Dtype FromChx(chx::Dtype dtype) { return static_cast<Dtype>(static_cast<int>(dtype) + 1); }
chx::Scalar ToChx(Scalar scalar);
chx::Shape ToChx(const Dims& dims);
inline chx::Session& SessionIn(Context& context) { return *SessionOf(context).session; }

// A ChainerxError for an Array that was never assigned.
const std::shared_ptr<ArrayBody>& BodyOf(const ArrayProperties& array);
inline const chx::Array& ToChx(const ArrayProperties& array) { return BodyOf(array)->array; }
// Throws the array's error if it holds one.
Array FromChx(chx::Array array, Context& context);
// The client's id; a ContextError if it is of another context.
chx::BackpropId ToChx(const std::optional<BackpropId>& id, Context& context);

// An operator's input.
class Argument : public chx::Operand {
 public:
  Argument(const ArrayProperties& array)  // NOLINT
      : Operand(ToChx(array)), context_(BodyOf(array)->context) {}
  Argument(Scalar scalar) : Operand(ToChx(scalar)) {}  // NOLINT
  Argument(const std::optional<Array>& array) {        // NOLINT
    if (array.has_value()) *this = Argument(*array);
  }
  Context* context() const { return context_; }

 private:
  Context* context_ = nullptr;
};
std::vector<Argument> Arguments(const std::vector<Array>& arrays);

inline const chx::OpDef& Operator(absl::string_view name) {
  return *chx::OpRegistry::Global().Find(name);
}
Array Call(const chx::OpDef& op, const std::vector<Argument>& inputs, const chx::Attrs& attrs);
std::vector<Array> CallMulti(const chx::OpDef& op, const std::vector<Argument>& inputs,
                             const chx::Attrs& attrs);
void CallInPlace(const chx::OpDef& op, const std::vector<Argument>& inputs,
                 const chx::Attrs& attrs);
// By name, for calls that are not many.
Array Call(absl::string_view op, const std::vector<Argument>& inputs, const chx::Attrs& attrs);

// Attributes.
inline chx::AttrValue ToAttr(bool value) { return value; }
inline chx::AttrValue ToAttr(int64_t value) { return value; }
inline chx::AttrValue ToAttr(Dtype value) { return ToChx(value); }
inline chx::AttrValue ToAttr(Scalar value) { return ToChx(value); }
inline chx::AttrValue ToAttr(const Dims& values) {
  return chx::AttrValue::FromInts(absl::MakeConstSpan(values.data(), values.size()));
}
inline chx::AttrValue ToAttr(const std::vector<int64_t>& values) {
  return chx::AttrValue::FromInts(values);
}
chx::AttrValue ToAttr(const OptionalAxes& axes);
template <typename T>
chx::AttrValue ToAttr(const std::optional<T>& value) {
  return value.has_value() ? ToAttr(*value) : chx::AttrValue();
}
inline chx::AttrValue ToFloat(Scalar value) { return static_cast<double>(value); }
inline chx::AttrValue ToFloat(const std::optional<Scalar>& value) {
  return value.has_value() ? ToFloat(*value) : chx::AttrValue();
}
// A ValueError unless it is one of the attribute's words.
chx::AttrValue ToChoice(const chx::OpDef& op, absl::string_view attr, const std::string& word);

// The array as another dtype, if one is given.
Array AsTypeIf(Array array, Optional<Dtype> dtype);

}  // namespace chainerx::internal

#endif  // CHX_CLIENT_CHAINERX_INTERNAL_H_
