#include "client/array.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/command_queue.h"
#include "client/gradients.h"
#include "client/graph_mirror.h"
#include "client/modes.h"
#include "client/session.h"
#include "ops/op_call.h"
#include "ops/registry.h"

namespace chx {
namespace {

// Bodies come and go with every operator: freed ones are kept by each thread.
struct BodyPool {
  ~BodyPool() {
    while (head != nullptr) {
      void* next = *static_cast<void**>(head);
      std::free(head);
      head = next;
    }
    closed = true;
  }
  void* head = nullptr;
  int count = 0;
  bool closed = false;
};
thread_local BodyPool body_pool;

// On the session and device of the first array.
absl::Status RunOp(const OpDef& op, absl::Span<const Operand> inputs, const Attrs& attrs,
                   ArrayPtrs* outputs) {
  const ArrayBody* first = nullptr;
  for (const Operand& input : inputs) {
    CHX_RETURN_IF_ERROR(input.error());
    if (first == nullptr) first = input.array();
  }
  if (first == nullptr) return TypeError("[", op.name, "] expects at least one array");
  return first->session->Apply({op, inputs, attrs, first->spec.device}, outputs);
}

double ToDouble(const char* data, Dtype dtype) {
  const auto read = [data](auto value) {
    std::memcpy(&value, data, sizeof(value));
    return static_cast<double>(value);
  };
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kUint8:
      return read(uint8_t{});
    case Dtype::kInt8:
      return read(int8_t{});
    case Dtype::kInt16:
      return read(int16_t{});
    case Dtype::kInt32:
      return read(int32_t{});
    case Dtype::kInt64:
      return read(int64_t{});
    case Dtype::kFloat16:
    case Dtype::kBfloat16: {
      uint16_t bits = 0;
      std::memcpy(&bits, data, sizeof(bits));
      return NarrowFloatToDouble(dtype, bits);
    }
    case Dtype::kFloat32:
      return read(float{});
    case Dtype::kFloat64:
      break;
  }
  return read(double{});
}

}  // namespace

ArrayBody::ArrayBody(Ref<Session> session_in, Handle handle_in, const ArraySpec& spec_in)
    : session(std::move(session_in)), handle(handle_in), storage(handle_in), spec(spec_in) {}

ArrayBody::~ArrayBody() {
  for (GraphMembership& membership : memberships) membership.node->owner = nullptr;
  session->queue().Release(handle, spec.nbytes());
}

void* ArrayBody::operator new(size_t size) {
  BodyPool& pool = body_pool;
  if (pool.head == nullptr) return std::malloc(size);
  void* memory = pool.head;
  pool.head = *static_cast<void**>(memory);
  --pool.count;
  return memory;
}

void ArrayBody::operator delete(void* memory) {
  BodyPool& pool = body_pool;
  if (pool.closed || pool.count >= 4096) return std::free(memory);
  *static_cast<void**>(memory) = pool.head;
  pool.head = memory;
  ++pool.count;
}

void ArrayBody::Connect(BackpropId id, Ref<MirrorOp> creator) {
  GraphMembership membership;
  membership.node = MakeRef<GraphNode>(id);
  membership.node->owner = this;
  membership.node->creator = std::move(creator);
  memberships.push_back(std::move(membership));
}

Array Array::FromHost(Session& session, const void* data, const Shape& shape, Dtype dtype,
                      DeviceId device) {
  const absl::Status valid = CheckShape("array", shape.span(), dtype);
  if (!valid.ok()) return Array(valid);
  const size_t bytes = static_cast<size_t>(NumElements(shape) * ItemSize(dtype));
  absl::StatusOr<ArrayPtr> array = session.Upload(
      absl::string_view(static_cast<const char*>(data), bytes), dtype, shape.span(), device);
  return array.ok() ? Array(*std::move(array)) : Array(array.status());
}

absl::StatusOr<double> Array::Item() const {
  if (!ok()) return status();
  if (spec().size() != 1) {
    return DimensionError("[item] expects an array of one element, got shape ", shape().ToString());
  }
  char data[8];
  CHX_RETURN_IF_ERROR(CopyTo(data, static_cast<size_t>(ItemSize(dtype()))));
  return ToDouble(data, dtype());
}

absl::Status Array::CopyTo(void* out, size_t bytes) const {
  return ok() ? body_->session->Fetch(*body_, out, bytes) : status();
}

Array& Array::RequireGrad(BackpropId id) {
  if (ok()) {
    const absl::Status status = body_->session->gradients().RequireGrad(body_.get(), id);
    if (!status.ok()) *this = Array(status);
  }
  return *this;
}

bool Array::IsBackpropRequired(BackpropId id) const {
  return ok() && body_->session->graphs().IsBackpropRequired(body_.get(), id).value_or(false);
}

bool Array::HasGrad(BackpropId id) const {
  return ok() && body_->session->gradients().HasGrad(body_.get(), id).value_or(false);
}

Array Array::Grad(BackpropId id) const {
  if (!ok()) return *this;
  absl::StatusOr<ArrayPtr> grad = body_->session->gradients().GetGrad(body_.get(), id);
  if (!grad.ok()) return Array(grad.status());
  if (!*grad) return Array(GradientError("[grad] the array has no gradient"));
  return Array(*std::move(grad));
}

absl::Status Array::SetGrad(const Array& grad, BackpropId id) const {
  if (!ok()) return status();
  if (!grad.ok()) return grad.status();
  return body_->session->gradients().SetGrad(body_.get(), grad.body(), id);
}

absl::Status Array::ClearGrad(BackpropId id) const {
  return ok() ? body_->session->gradients().SetGrad(body_.get(), nullptr, id) : status();
}

absl::Status Array::Unchain(BackpropId id) const {
  return ok() ? body_->session->graphs().Unchain(body_.get(), id) : status();
}

Array Array::AsGradStopped() const {
  NoBackpropMode scope;
  static const OpDef& op = internal::FindOp("view");
  return internal::Apply(op, {*this}, {});
}

Array Array::AsGradStopped(absl::Span<const BackpropId> ids) const {
  NoBackpropMode scope(ids);
  static const OpDef& op = internal::FindOp("view");
  return internal::Apply(op, {*this}, {});
}

Array Array::operator[](const IndexBuilder& index) const {
  static const OpDef& op = internal::FindOp("getitem");
  return internal::Apply(op, {*this}, {index.Build()});
}

absl::Status Array::operator+=(const Operand& other) {
  static const OpDef& op = internal::FindOp("add_");
  return internal::ApplyInPlace(op, {*this, other}, {});
}
absl::Status Array::operator-=(const Operand& other) {
  static const OpDef& op = internal::FindOp("subtract_");
  return internal::ApplyInPlace(op, {*this, other}, {});
}
absl::Status Array::operator*=(const Operand& other) {
  static const OpDef& op = internal::FindOp("multiply_");
  return internal::ApplyInPlace(op, {*this, other}, {});
}
absl::Status Array::operator/=(const Operand& other) {
  static const OpDef& op = internal::FindOp("divide_");
  return internal::ApplyInPlace(op, {*this, other}, {});
}

Array operator+(const Array& a, const Operand& b) {
  static const OpDef& op = internal::FindOp("add");
  return internal::Apply(op, {a, b}, {});
}
Array operator-(const Array& a, const Operand& b) {
  static const OpDef& op = internal::FindOp("subtract");
  return internal::Apply(op, {a, b}, {});
}
Array operator*(const Array& a, const Operand& b) {
  static const OpDef& op = internal::FindOp("multiply");
  return internal::Apply(op, {a, b}, {});
}
Array operator/(const Array& a, const Operand& b) {
  static const OpDef& op = internal::FindOp("divide");
  return internal::Apply(op, {a, b}, {});
}
Array operator-(const Array& a) {
  static const OpDef& op = internal::FindOp("negative");
  return internal::Apply(op, {a}, {});
}
Array operator+(Scalar a, const Array& b) {
  static const OpDef& op = internal::FindOp("add");
  return internal::Apply(op, {a, b}, {});
}
Array operator-(Scalar a, const Array& b) {
  static const OpDef& op = internal::FindOp("subtract");
  return internal::Apply(op, {a, b}, {});
}
Array operator*(Scalar a, const Array& b) {
  static const OpDef& op = internal::FindOp("multiply");
  return internal::Apply(op, {a, b}, {});
}
Array operator/(Scalar a, const Array& b) {
  static const OpDef& op = internal::FindOp("divide");
  return internal::Apply(op, {a, b}, {});
}

absl::Status Backward(absl::Span<const Array> outputs, const BackwardArgs& args) {
  if (outputs.empty()) return ValueError("[backward] expects at least one output");
  std::vector<ArrayBody*> bodies;
  for (const Array& output : outputs) {
    if (!output.ok()) return output.status();
    bodies.push_back(output.body().get());
  }
  return bodies[0]->session->gradients().Backward(bodies, args);
}

absl::Status Backward(const Array& output, const BackwardArgs& args) {
  return Backward(absl::MakeConstSpan(&output, 1), args);
}

namespace internal {

absl::StatusOr<std::vector<ArrayBody*>> BodiesOf(absl::Span<const Array> arrays) {
  std::vector<ArrayBody*> bodies;
  for (const Array& array : arrays) {
    CHX_RETURN_IF_ERROR(array.status());
    bodies.push_back(array.body().get());
  }
  return bodies;
}

const OpDef& FindOp(absl::string_view name) { return *OpRegistry::Global().Find(name); }

std::vector<Array> ApplyMulti(const OpDef& op, absl::Span<const Operand> inputs,
                              const Attrs& attrs) {
  ArrayPtrs outputs;
  const absl::Status status = RunOp(op, inputs, attrs, &outputs);
  if (!status.ok()) return {Array(status)};
  std::vector<Array> arrays;
  for (ArrayPtr& output : outputs) arrays.emplace_back(std::move(output));
  return arrays;
}

Array Apply(const OpDef& op, absl::Span<const Operand> inputs, const Attrs& attrs) {
  ArrayPtrs outputs;
  const absl::Status status = RunOp(op, inputs, attrs, &outputs);
  return status.ok() ? Array(std::move(outputs[0])) : Array(status);
}

Array Apply(const OpDef& op, std::initializer_list<Operand> inputs, const Attrs& attrs) {
  return Apply(op, absl::MakeConstSpan(inputs.begin(), inputs.size()), attrs);
}

Array Create(Session& session, const OpDef& op, DeviceId device, const Attrs& attrs) {
  ArrayPtrs outputs;
  const absl::Status status = session.Apply({op, {}, attrs, device}, &outputs);
  return status.ok() ? Array(std::move(outputs[0])) : Array(status);
}

absl::Status ApplyInPlace(const OpDef& op, std::initializer_list<Operand> inputs,
                          const Attrs& attrs) {
  ArrayPtrs none;
  return RunOp(op, absl::MakeConstSpan(inputs.begin(), inputs.size()), attrs, &none);
}

absl::Status ApplyInPlace(const OpDef& op, std::initializer_list<absl::Span<const Operand>> lists,
                          const Attrs& attrs) {
  std::vector<Operand> inputs;
  for (absl::Span<const Operand> list : lists) {
    if (list.size() != lists.begin()->size()) {
      return DimensionError("[", op.name, "] expects lists of one length, got ",
                            lists.begin()->size(), " and ", list.size(), " arrays");
    }
    inputs.insert(inputs.end(), list.begin(), list.end());
  }
  ArrayPtrs none;
  return RunOp(op, inputs, attrs, &none);
}

}  // namespace internal

}  // namespace chx
