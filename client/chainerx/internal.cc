#include "client/chainerx/internal.h"

namespace chainerx::internal {
namespace {

Context& ContextOf(const chx::OpDef& op, const std::vector<Argument>& inputs) {
  for (const Argument& input : inputs) {
    if (input.context() != nullptr) return *input.context();
  }
  throw ValueError("[", op.name, "] expects at least one array");
}

std::vector<chx::Operand> Operands(const std::vector<Argument>& inputs) {
  return std::vector<chx::Operand>(inputs.begin(), inputs.end());
}

Strides StridesOf(const chx::ArraySpec& spec) {
  return Strides(spec.strides.begin(), spec.strides.end());
}

}  // namespace

ArrayBody::ArrayBody(chx::Array array_in, Context* context_in)
    : array(std::move(array_in)),
      context(context_in),
      dtype(FromChx(array.dtype())),
      shape(array.shape().begin(), array.shape().end()),
      strides(StridesOf(array.spec())) {}

void Throw(const absl::Status& error) {
  const std::string message(error.message());
  switch (chx::KindOf(error)) {
    case chx::ErrorKind::kContext:
      throw ContextError(message);
    case chx::ErrorKind::kBackend:
      throw BackendError(message);
    case chx::ErrorKind::kDevice:
      throw DeviceError(message);
    case chx::ErrorKind::kDimension:
      throw DimensionError(message);
    case chx::ErrorKind::kType:  // an argument of a wrong type is one of a wrong dtype here
    case chx::ErrorKind::kDtype:
      throw DtypeError(message);
    case chx::ErrorKind::kNotImplemented:
      throw NotImplementedError(message);
    case chx::ErrorKind::kGradient:
      throw GradientError(message);
    case chx::ErrorKind::kGradientCheck:
      throw GradientCheckError(message);
    case chx::ErrorKind::kIndex:
      throw IndexError(message);
    case chx::ErrorKind::kValue:
      throw ValueError(message);
    case chx::ErrorKind::kMemory:
      throw OutOfMemoryError(message);
    case chx::ErrorKind::kConnection:
      throw ConnectionError(message);
    case chx::ErrorKind::kTimeout:
      throw TimeoutError(message);
    case chx::ErrorKind::kCancelled:
      throw CancelledError(message);
    case chx::ErrorKind::kChainerx:
      break;
  }
  throw ChainerxError(message);
}

chx::Scalar ToChx(Scalar scalar) {
  switch (scalar.kind()) {
    case DtypeKind::kBool:
      return static_cast<bool>(scalar);
    case DtypeKind::kFloat:
      return static_cast<double>(scalar);
    default:
      return static_cast<int64_t>(scalar);
  }
}

chx::Shape ToChx(const Dims& dims) {
  return chx::Shape(absl::MakeConstSpan(dims.data(), dims.size()));
}

const std::shared_ptr<ArrayBody>& BodyOf(const ArrayProperties& array) {
  if (array.body() == nullptr) throw ChainerxError("an array that was never assigned");
  return array.body();
}

Array FromChx(chx::Array array, Context& context) {
  ThrowIfError(array.status());
  return Array(std::make_shared<ArrayBody>(std::move(array), &context));
}

chx::BackpropId ToChx(const std::optional<BackpropId>& id, Context& context) {
  if (!id.has_value()) return 0;
  if (&id->context() != &context) {
    throw ContextError("expects a backprop ID of the array's own context");
  }
  return static_cast<chx::BackpropId>(id->ordinal());
}

std::vector<Argument> Arguments(const std::vector<Array>& arrays) {
  return std::vector<Argument>(arrays.begin(), arrays.end());
}

Array Call(const chx::OpDef& op, const std::vector<Argument>& inputs, const chx::Attrs& attrs) {
  return FromChx(chx::internal::Apply(op, Operands(inputs), attrs), ContextOf(op, inputs));
}

std::vector<Array> CallMulti(const chx::OpDef& op, const std::vector<Argument>& inputs,
                             const chx::Attrs& attrs) {
  Context& context = ContextOf(op, inputs);
  std::vector<Array> outputs;
  for (chx::Array& output : chx::internal::ApplyMulti(op, Operands(inputs), attrs)) {
    outputs.push_back(FromChx(std::move(output), context));
  }
  return outputs;
}

void CallInPlace(const chx::OpDef& op, const std::vector<Argument>& inputs,
                 const chx::Attrs& attrs) {
  chx::ArrayPtrs none;
  ThrowIfError(SessionIn(ContextOf(op, inputs)).Apply({op, Operands(inputs), attrs}, &none));
}

Array Call(absl::string_view op, const std::vector<Argument>& inputs, const chx::Attrs& attrs) {
  return Call(Operator(op), inputs, attrs);
}

chx::AttrValue ToAttr(const OptionalAxes& axes) {
  if (!axes.has_value()) return {};
  return chx::AttrValue(chx::Ints(axes->begin(), axes->end()));
}

chx::AttrValue ToChoice(const chx::OpDef& op, absl::string_view attr, const std::string& word) {
  const std::vector<std::string>& words = op.attrs[static_cast<size_t>(op.AttrIndex(attr))].choices;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return static_cast<int64_t>(i);
  }
  throw ValueError("[", op.name, "] expects ", attr, " to be one of its words, got '", word, "'");
}

Array AsTypeIf(Array array, Optional<Dtype> dtype) {
  return dtype.has_value() ? array.AsType(*dtype, false) : array;
}

}  // namespace chainerx::internal
