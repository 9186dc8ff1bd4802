// Remote arrays.
#ifndef CHX_CLIENT_ARRAY_H_
#define CHX_CLIENT_ARRAY_H_

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ref.h"
#include "client/graph.h"
#include "ops/array_spec.h"
#include "ops/basic_index.h"
#include "ops/error.h"
#include "ops/operand.h"
#include "ops/scalar.h"

namespace chx {

class ArrayBody;
class Session;
struct OpDef;

// An array as a member of one graph: its node, and what is known of its gradient there.
struct GraphMembership {
  Ref<GraphNode> node;
  bool has_grad = false;
  Ref<ArrayBody> grad;  // if it has been asked for
  bool grad_graphs_unknown = false;
  uint64_t grad_version = 0;  // BackpropIds::GradVersion() when has_grad was known
};

// What all copies of an Array share: a handle in the daemon and all that is known of it here.
// Dropping the last reference releases the handle, with the next batch.
class ArrayBody : public RefCounted<ArrayBody> {
 public:
  ArrayBody(Ref<Session> session, Handle handle, const ArraySpec& spec);
  ~ArrayBody();
  static void* operator new(size_t size);
  static void operator delete(void* memory);

  // Null: the array is not in that graph.
  GraphMembership* MembershipIn(BackpropId id) {
    for (GraphMembership& membership : memberships) {
      if (membership.node->id == id) return &membership;
    }
    return nullptr;
  }
  const GraphMembership* MembershipIn(BackpropId id) const {
    return const_cast<ArrayBody*>(this)->MembershipIn(id);
  }
  // Makes the array a member of a graph.
  void Connect(BackpropId id, Ref<MirrorOp> creator);

  const Ref<Session> session;
  const Handle handle;
  // That of the first array of the memory: equal for views of one another.
  Handle storage;
  // A gradient may lie in the memory of another array, which only the daemon knows.
  bool storage_unknown = false;
  const ArraySpec spec;
  absl::InlinedVector<GraphMembership, 1> memberships;  // at most one per graph
  // A gradient that may be in a graph: GraphMirror::Resolve is called before memberships are read.
  bool graphs_unknown = false;
  // The binding's object for this array, which is not owned: identity is part of Python's API.
  void* binding = nullptr;
};
// What operator calls take and give.
using ArrayPtr = Ref<ArrayBody>;
using ArrayPtrs = absl::InlinedVector<ArrayPtr, 1>;

// A value type over ArrayBody. There are no exceptions: a failed operation returns an array that
// holds the error. Operations on that array fail with the same error, and reading it returns it.
class Array {
 public:
  // Holds an error until it is assigned.
  Array() : Array(ValueError("an array that was never assigned")) {}
  explicit Array(ArrayPtr body) : body_(std::move(body)) {}
  // An array that holds an error.
  explicit Array(absl::Status error) : error_(std::move(error)) {}

  // Copies from host memory, in C order.
  static Array FromHost(Session& session, const void* data, const Shape& shape, Dtype dtype,
                        DeviceId device = 0);

  // Whether it holds no error that is known yet; one that only the daemon can find shows when the
  // value is read.
  bool ok() const { return error_.ok(); }
  const absl::Status& status() const { return error_; }
  // Null if the array holds an error.
  const ArrayPtr& body() const { return body_; }
  // Of an array without an error.
  const ArraySpec& spec() const { return body_->spec; }
  const Shape& shape() const { return spec().shape; }
  Dtype dtype() const { return spec().dtype; }

  // Waits for the value. One element; kDimension otherwise.
  absl::StatusOr<double> Item() const;
  // Waits for all elements, in C order, into `bytes` bytes, which must be the array's size.
  absl::Status CopyTo(void* out, size_t bytes) const;

  // Makes the array a leaf that gets a gradient in Backward. In these, `id` is the graph; 0 the
  // default one. kChainerx: there is no such graph; kDtype: the array is not of floats.
  Array& RequireGrad(BackpropId id = 0);
  // Whether operators on the array are recorded by this thread.
  bool IsBackpropRequired(BackpropId id = 0) const;
  // Whether there is a gradient.
  bool HasGrad(BackpropId id = 0) const;
  // An error array if there is none.
  Array Grad(BackpropId id = 0) const;
  // kGradient: `grad` has another shape or dtype, or is on another device.
  absl::Status SetGrad(const Array& grad, BackpropId id = 0) const;
  // Drops the gradient.
  absl::Status ClearGrad(BackpropId id = 0) const;
  // Forgets how the array was made: there it is a leaf from now on.
  absl::Status Unchain(BackpropId id = 0) const;
  // The same memory outside of all graphs, or of some.
  Array AsGradStopped() const;
  Array AsGradStopped(absl::Span<const BackpropId> ids) const;

  // A view: x[IndexBuilder().Int(0).Slice(1, {}, 2)].
  Array operator[](const IndexBuilder& index) const;

  // In place; refused on arrays in a graph.
  absl::Status operator+=(const class Operand& other);
  absl::Status operator-=(const class Operand& other);
  absl::Status operator*=(const class Operand& other);
  absl::Status operator/=(const class Operand& other);

 private:
  ArrayPtr body_;
  absl::Status error_;
};

// An argument: an array, a number or nothing.
class Operand : public BasicOperand<const ArrayBody*> {
 public:
  Operand() = default;
  Operand(const Array& array)  // NOLINT
      : BasicOperand(array.body().get()), error_(array.status()) {}
  Operand(const ArrayBody* array) : BasicOperand(array) {}  // NOLINT
  Operand(Scalar scalar) : BasicOperand(scalar) {}          // NOLINT
  Operand(double scalar) : Operand(Scalar(scalar)) {}       // NOLINT
  Operand(int scalar) : Operand(Scalar(scalar)) {}          // NOLINT
  Operand(bool scalar) : Operand(Scalar(scalar)) {}         // NOLINT

  const absl::Status& error() const { return error_; }

 private:
  absl::Status error_;
};

// Elementwise, with NumPy's broadcasting.
Array operator+(const Array& a, const Operand& b);
Array operator-(const Array& a, const Operand& b);
Array operator*(const Array& a, const Operand& b);
Array operator/(const Array& a, const Operand& b);
Array operator-(const Array& a);
Array operator+(Scalar a, const Array& b);
Array operator-(Scalar a, const Array& b);
Array operator*(Scalar a, const Array& b);
Array operator/(Scalar a, const Array& b);

// For Backward and Grad.
struct BackwardArgs {
  BackpropId id = 0;                    // the graph; 0 the default one
  bool enable_double_backprop = false;  // the pass itself is recorded
  double loss_scale = 1.0;              // what gradients of the outputs begin with
  bool retain_grad = false;  // Gradients::Grad: arrays on the way keep their gradients too
};
// Adds the gradients of the outputs to every array below that requires one: one command. That
// of an output which has none is 1 for each element.
absl::Status Backward(absl::Span<const Array> outputs, const BackwardArgs& args = {});
absl::Status Backward(const Array& output, const BackwardArgs& args = {});

namespace internal {
// The first error among them, if there is one.
absl::StatusOr<std::vector<ArrayBody*>> BodiesOf(absl::Span<const Array> arrays);

// For generated functions: each looks up its operator once.
const OpDef& FindOp(absl::string_view name);
Array Apply(const OpDef& op, std::initializer_list<Operand> inputs, const Attrs& attrs);
Array Apply(const OpDef& op, absl::Span<const Operand> inputs, const Attrs& attrs);
std::vector<Array> ApplyMulti(const OpDef& op, absl::Span<const Operand> inputs,
                              const Attrs& attrs);
Array Create(Session& session, const OpDef& op, DeviceId device, const Attrs& attrs);
// Input 0 is written, or lists are.
absl::Status ApplyInPlace(const OpDef& op, std::initializer_list<Operand> inputs,
                          const Attrs& attrs);
absl::Status ApplyInPlace(const OpDef& op, std::initializer_list<absl::Span<const Operand>> lists,
                          const Attrs& attrs);
}  // namespace internal

}  // namespace chx

#endif  // CHX_CLIENT_ARRAY_H_
