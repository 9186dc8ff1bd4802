#include "chx/chainerx/array.h"

#include <cstring>

#include "client/chainerx/internal.h"
#include "client/modes.h"

namespace chainerx {
namespace {

using internal::ArrayBody;
using internal::BodyOf;
using internal::Call;

absl::optional<int64_t> ToAbsl(const Optional<int64_t>& value) {
  return value.has_value() ? absl::optional<int64_t>(*value) : absl::nullopt;
}

// An array's strided memory, made of its values: what data() is where there is no memory to show.
// Where an element has several places, as in a broadcast array, each has its value.
class StridedCopy {
 public:
  explicit StridedCopy(const ArrayBody& body) : spec_(body.array.spec()) {
    const chx::ByteRange range = chx::BytesTouched(spec_);
    std::vector<char> values(static_cast<size_t>(spec_.nbytes()));
    internal::ThrowIfError(body.array.CopyTo(values.data(), values.size()));
    block_ = std::shared_ptr<char>(new char[static_cast<size_t>(range.end - range.begin) + 1],
                                   std::default_delete<char[]>());
    from_ = values.data();
    if (!values.empty()) Scatter(0, block_.get() + (spec_.offset - range.begin));
    // Such that offset() leads to the first element. Made by integers: it may be outside.
    const auto address =
        reinterpret_cast<uintptr_t>(block_.get()) - static_cast<uintptr_t>(range.begin);
    data_ = std::shared_ptr<void>(block_, reinterpret_cast<void*>(address));
  }
  const std::shared_ptr<void>& data() const { return data_; }

 private:
  void Scatter(int axis, char* to) {
    if (axis == spec_.ndim()) {
      std::memcpy(to, from_, static_cast<size_t>(spec_.item_size()));
      from_ += spec_.item_size();
      return;
    }
    for (int64_t i = 0; i < spec_.shape[axis]; ++i) Scatter(axis + 1, to + i * spec_.strides[axis]);
  }

  const chx::ArraySpec& spec_;
  std::shared_ptr<char> block_;
  std::shared_ptr<void> data_;
  const char* from_ = nullptr;
};

// The daemon's memory of the array; null where it is not shared, or lies otherwise than is known.
std::shared_ptr<void> ExportedData(const ArrayBody& body) {
  const std::shared_ptr<chx::Export> exported =
      internal::ValueOrThrow(body.array.body()->session->exports().ExportArray(body.array.body()));
  if (exported == nullptr || exported->spec().strides != body.array.spec().strides) return nullptr;
  char* const block = exported->block();
  const auto address = reinterpret_cast<uintptr_t>(block) +
                       static_cast<uintptr_t>(exported->spec().offset - body.array.spec().offset);
  return std::shared_ptr<void>(exported, reinterpret_cast<void*>(address));
}

chx::Session& SessionOf(const ArrayProperties& array) {
  return *internal::ToChx(array).body()->session;
}
chx::ArrayBody* ClientBody(const ArrayProperties& array) {
  return internal::ToChx(array).body().get();
}
chx::BackpropId IdFor(const ArrayProperties& array, const Optional<BackpropId>& id) {
  return internal::ToChx(id, *BodyOf(array)->context);
}

}  // namespace

Dtype ArrayProperties::dtype() const { return BodyOf(*this)->dtype; }
const Shape& ArrayProperties::shape() const { return BodyOf(*this)->shape; }
const Strides& ArrayProperties::strides() const { return BodyOf(*this)->strides; }
Device& ArrayProperties::device() const {
  const ArrayBody& body = *BodyOf(*this);
  return internal::DeviceOf(*body.context, body.array.spec().device);
}
bool ArrayProperties::IsContiguous() const { return internal::ToChx(*this).spec().is_contiguous(); }
int64_t ArrayProperties::offset() const { return internal::ToChx(*this).spec().offset; }

const std::shared_ptr<void>& ArrayProperties::data() const {
  ArrayBody& body = *BodyOf(*this);
  if (body.data_is_exported) return body.data;
  body.data = ExportedData(body);
  body.data_is_exported = body.data != nullptr;
  if (!body.data_is_exported) body.data = StridedCopy(body).data();
  return body.data;
}

Array ArrayMethods::At(const std::vector<ArrayIndex>& indices) const {
  chx::IndexBuilder builder;
  for (const ArrayIndex& index : indices) {
    switch (index.tag()) {
      case ArrayIndexTag::kSingleElement:
        builder.Int(index.index());
        break;
      case ArrayIndexTag::kSlice:
        builder.Slice(ToAbsl(index.slice().start()), ToAbsl(index.slice().stop()),
                      index.slice().step());
        break;
      case ArrayIndexTag::kNewAxis:
        builder.NewAxis();
        break;
    }
  }
  return Call("getitem", {*this}, {builder.Build()});
}

Array ArrayMethods::MakeView() const { return Call("view", {*this}, {}); }

Array ArrayMethods::ToDevice(Device& device) const {
  if (&device.context() != BodyOf(*this)->context) {
    throw ContextError("[to_device] expects a device of the array's own context");
  }
  return Call("to_device", {*this}, {static_cast<int64_t>(internal::NumberOf(device))});
}

Array ArrayMethods::ToNative() const {
  return ToDevice(BodyOf(*this)->context->GetDevice("native:0"));
}

Array ArrayMethods::AsType(Dtype dtype, bool copy) const {
  if (!copy && dtype == this->dtype()) return Array(BodyOf(*this));
  return Call("astype", {*this}, {internal::ToAttr(dtype)});
}

void ArrayMethods::Fill(Scalar value) const {
  internal::CallInPlace(internal::Operator("fill"), {*this}, {internal::ToAttr(value)});
}

Array::Array(std::shared_ptr<internal::ArrayBody> body) : ArrayMethods(std::move(body)) {
  if (body_ == nullptr) throw ChainerxError("expects an array, got null");
}

Array Array::AsGradStopped(CopyKind kind) const {
  const chx::NoBackpropMode scope;
  return kind == CopyKind::kCopy ? Copy() : MakeView();
}

Array Array::AsGradStopped(const std::vector<BackpropId>& ids, CopyKind kind) const {
  std::vector<chx::BackpropId> numbers;
  numbers.reserve(ids.size());
  for (const BackpropId& id : ids) numbers.push_back(IdFor(*this, id));
  const chx::NoBackpropMode scope(numbers);
  return kind == CopyKind::kCopy ? Copy() : MakeView();
}

const Optional<Array>& Array::GetGrad(const Optional<BackpropId>& id) const {
  ArrayBody& body = *BodyOf(*this);
  const chx::BackpropId number = IdFor(*this, id);
  const chx::ArrayPtr grad =
      internal::ValueOrThrow(SessionOf(*this).gradients().GetGrad(ClientBody(*this), number));
  Optional<Array>& known = body.grads[number];
  if (!grad) {
    known.reset();
  } else if (!known.has_value() || ClientBody(*known) != grad.get()) {
    known = internal::FromChx(chx::Array(grad), *body.context);
  }
  return known;
}

void Array::SetGrad(Array grad, const Optional<BackpropId>& id) const {
  internal::ThrowIfError(internal::ToChx(*this).SetGrad(internal::ToChx(grad), IdFor(*this, id)));
}

void Array::ClearGrad(const Optional<BackpropId>& id) const {
  const chx::BackpropId number = IdFor(*this, id);
  internal::ThrowIfError(internal::ToChx(*this).ClearGrad(number));
  // The memory is not to wait for the next GetGrad.
  const auto known = BodyOf(*this)->grads.find(number);
  if (known != BodyOf(*this)->grads.end()) known->second.reset();
}

const Array& Array::RequireGrad(const Optional<BackpropId>& id) const {
  internal::ThrowIfError(
      SessionOf(*this).gradients().RequireGrad(ClientBody(*this), IdFor(*this, id)));
  return *this;
}

Array& Array::RequireGrad(const Optional<BackpropId>& id) {
  static_cast<const Array&>(*this).RequireGrad(id);
  return *this;
}

bool Array::IsGradRequired(const Optional<BackpropId>& id) const {
  return internal::ValueOrThrow(
      SessionOf(*this).graphs().IsGradRequired(ClientBody(*this), IdFor(*this, id)));
}

bool Array::IsBackpropRequired(const Optional<BackpropId>& id) const {
  return internal::ValueOrThrow(
      SessionOf(*this).graphs().IsBackpropRequired(ClientBody(*this), IdFor(*this, id)));
}

bool Array::IsBackpropRequired(AnyGraph /*any_graph*/) const {
  return internal::ValueOrThrow(
      SessionOf(*this).graphs().IsBackpropRequired(ClientBody(*this), absl::nullopt));
}

void DebugDumpComputationalGraph(std::ostream& os, const Array& array,
                                 const Optional<BackpropId>& id) {
  os << internal::ValueOrThrow(SessionOf(array).graphs().Dump(ClientBody(array), IdFor(array, id)));
}

namespace internal {

void InPlace(const char* op, const Array& x1, const Array& x2) {
  CallInPlace(Operator(op), {x1, x2}, {});
}
void InPlace(const char* op, const Array& x1, Scalar x2) {
  CallInPlace(Operator(op), {x1, x2}, {});
}

}  // namespace internal

}  // namespace chainerx
