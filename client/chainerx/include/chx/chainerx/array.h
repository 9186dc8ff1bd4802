// Arrays.
#ifndef CHX_CHAINERX_ARRAY_H_
#define CHX_CHAINERX_ARRAY_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "chx/chainerx/context.h"
#include "chx/chainerx/dtype.h"
#include "chx/chainerx/optional.h"
#include "chx/chainerx/scalar.h"
#include "chx/chainerx/shape.h"
#include "chx/chainerx/slice.h"

namespace chainerx {

class Array;
using ConstArrayRef = std::reference_wrapper<const Array>;

enum class CopyKind { kCopy = 1, kView };
// What an index that is out of range means: by default an IndexError when a value is read.
enum class IndexBoundsMode { kDefault = 0, kRaise, kWrap, kClip };

namespace internal {
struct ArrayBody;  // what all copies of an Array share
}  // namespace internal

// What an array is. A ChainerxError for an Array that was never assigned.
class ArrayProperties {
 public:
  Dtype dtype() const;
  const Shape& shape() const;
  const Strides& strides() const;
  int8_t ndim() const { return shape().ndim(); }
  Device& device() const;
  Context& context() const { return device().context(); }
  int64_t GetTotalSize() const { return shape().GetTotalSize(); }
  int64_t GetItemSize() const { return chainerx::GetItemSize(dtype()); }
  int64_t GetNBytes() const { return GetTotalSize() * GetItemSize(); }
  bool IsContiguous() const;
  // Bytes from data() to the first element.
  int64_t offset() const;
  // The array's memory: over a Unix socket, for a device with host memory, that of the daemon
  // itself. It stays mapped, and operators on it wait, as long as the array or the result lives.
  // Otherwise a copy of the values as they are at the call. Waits.
  const std::shared_ptr<void>& data() const;
  void* raw_data() const { return data().get(); }
  // The values, shape, dtype and device. Waits.
  std::string ToString() const;
  // ChainerX's own ArrayBody is not there; this one is opaque.
  const std::shared_ptr<internal::ArrayBody>& body() const { return body_; }

 protected:
  ArrayProperties() = default;
  explicit ArrayProperties(std::shared_ptr<internal::ArrayBody> body) : body_(std::move(body)) {}

  std::shared_ptr<internal::ArrayBody> body_;
};

// The routines that are methods, too.
class ArrayMethods : public ArrayProperties {
 public:
  // A view of the elements at the indices.
  Array At(const std::vector<ArrayIndex>& indices) const;
  Array Transpose(const OptionalAxes& axes = std::nullopt) const;
  Array Reshape(const Shape& newshape) const;
  Array Squeeze(const OptionalAxes& axis = std::nullopt) const;
  Array Swapaxes(int8_t axis1, int8_t axis2) const;
  Array Ravel() const;
  Array BroadcastTo(const Shape& shape) const;
  Array ArgMax(const OptionalAxes& axis = std::nullopt) const;
  Array ArgMin(const OptionalAxes& axis = std::nullopt) const;
  Array Sum(const OptionalAxes& axis = std::nullopt, bool keepdims = false) const;
  Array Max(const OptionalAxes& axis = std::nullopt, bool keepdims = false) const;
  Array Min(const OptionalAxes& axis = std::nullopt, bool keepdims = false) const;
  Array Mean(const OptionalAxes& axis = std::nullopt, bool keepdims = false) const;
  Array Var(const OptionalAxes& axis = std::nullopt, bool keepdims = false) const;
  Array All(const OptionalAxes& axis = std::nullopt, bool keepdims = false) const;
  Array Any(const OptionalAxes& axis = std::nullopt, bool keepdims = false) const;
  Array Dot(const Array& b) const;
  Array Take(const Array& indices, int8_t axis,
             IndexBoundsMode mode = IndexBoundsMode::kDefault) const;
  Array Copy() const;
  Array MakeView() const;
  // A view if it is the array's own device.
  Array ToDevice(Device& device) const;
  // On native:0.
  Array ToNative() const;
  // Without `copy`, an array of that dtype is returned as it is.
  Array AsType(Dtype dtype, bool copy = true) const;
  // In place.
  void Fill(Scalar value) const;

 protected:
  using ArrayProperties::ArrayProperties;
};

// A value type: copies share the elements and the gradient. Arrays, and those that are connected to
// them, are used by one thread at a time.
class Array : public ArrayMethods {
 public:
  Array() = default;
  explicit Array(std::shared_ptr<internal::ArrayBody> body);

  // The elements outside of all graphs, or of some.
  Array AsGradStopped(CopyKind kind = CopyKind::kView) const;
  Array AsGradStopped(const std::vector<BackpropId>& ids, CopyKind kind = CopyKind::kView) const;
  Array AsGradStopped(std::initializer_list<BackpropId> ids,
                      CopyKind kind = CopyKind::kView) const {
    return AsGradStopped(std::vector<BackpropId>(ids), kind);
  }

  // Gradients in one graph, the default one unless given. ChainerxErrors for an array that is not
  // in the graph or does not require its gradient.
  const Optional<Array>& GetGrad(const Optional<BackpropId>& id = std::nullopt) const;
  void SetGrad(Array grad, const Optional<BackpropId>& id = std::nullopt) const;
  void ClearGrad(const Optional<BackpropId>& id = std::nullopt) const;
  const Array& RequireGrad(const Optional<BackpropId>& id = std::nullopt) const;
  Array& RequireGrad(const Optional<BackpropId>& id = std::nullopt);
  bool IsGradRequired(const Optional<BackpropId>& id = std::nullopt) const;
  // Whether operators on it are recorded, given the calling thread's backprop mode.
  bool IsBackpropRequired(const Optional<BackpropId>& id = std::nullopt) const;
  bool IsBackpropRequired(AnyGraph any_graph) const;
};

std::ostream& operator<<(std::ostream& os, const Array& array);

// Writes a text that shows the graph from which the array was computed.
void DebugDumpComputationalGraph(std::ostream& os, const Array& array,
                                 const Optional<BackpropId>& id = std::nullopt);

}  // namespace chainerx

#endif  // CHX_CHAINERX_ARRAY_H_
