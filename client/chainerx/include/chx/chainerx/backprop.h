// Backward passes, graphs of their own, and which operators are recorded.
#ifndef CHX_CHAINERX_BACKPROP_H_
#define CHX_CHAINERX_BACKPROP_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "chx/chainerx/array.h"
#include "chx/chainerx/context.h"
#include "chx/chainerx/optional.h"

namespace chainerx {

enum class DoubleBackpropOption : bool { kDisable = false, kEnable = true };

// Adds the outputs' gradients, which are ones unless set, to all arrays below that require theirs.
// A ChainerxError if no output is in the graph.
void Backward(const Array& output, const Optional<BackpropId>& id = std::nullopt,
              DoubleBackpropOption double_backprop = DoubleBackpropOption::kDisable,
              Optional<float> loss_scale = std::nullopt);
void Backward(const std::vector<ConstArrayRef>& outputs,
              const Optional<BackpropId>& id = std::nullopt,
              DoubleBackpropOption double_backprop = DoubleBackpropOption::kDisable,
              Optional<float> loss_scale = std::nullopt);

// The gradients of the inputs, nullopt where no output depends on one. Gradients that arrays have
// stay as they are, unless `set_grad`.
std::vector<Optional<Array>> Grad(
    const std::vector<ConstArrayRef>& outputs, const std::vector<ConstArrayRef>& inputs,
    const Optional<BackpropId>& id = std::nullopt,
    DoubleBackpropOption double_backprop = DoubleBackpropOption::kDisable, bool set_grad = false,
    bool retain_grad = false, const std::vector<ConstArrayRef>& grad_outputs = {},
    Optional<float> loss_scale = std::nullopt);

// A graph that ends with the scope.
class BackpropScope {
 public:
  explicit BackpropScope(std::string name, Context& context = GetDefaultContext())
      : id_(context.MakeBackpropId(std::move(name))) {}
  ~BackpropScope() { id_.context().ReleaseBackpropIdNoExcept(id_); }
  BackpropScope(const BackpropScope&) = delete;
  BackpropScope& operator=(const BackpropScope&) = delete;

  BackpropId backprop_id() const { return id_; }

 private:
  BackpropId id_;
};

namespace internal {
// For the calling thread: recording on or off in all graphs of a context, or in some.
void PushBackpropMode(bool record, Context& context);
void PushBackpropMode(bool record, const std::vector<BackpropId>& ids);
void PopBackpropMode();

template <bool kRecord>
class BackpropModeScope {
 public:
  explicit BackpropModeScope(Context& context = GetDefaultContext()) {
    PushBackpropMode(kRecord, context);
  }
  // A ContextError if the graphs are of several contexts.
  explicit BackpropModeScope(const std::vector<BackpropId>& ids) { PushBackpropMode(kRecord, ids); }
  BackpropModeScope(std::initializer_list<BackpropId> ids)
      : BackpropModeScope(std::vector<BackpropId>(ids)) {}
  ~BackpropModeScope() { PopBackpropMode(); }
  BackpropModeScope(const BackpropModeScope&) = delete;
  BackpropModeScope& operator=(const BackpropModeScope&) = delete;
};
}  // namespace internal

// Nothing is recorded by the calling thread until the end of the scope.
using NoBackpropModeScope = internal::BackpropModeScope<false>;
// All is recorded again inside of a NoBackpropModeScope.
using ForceBackpropModeScope = internal::BackpropModeScope<true>;

// Whether the calling thread's mode records, in a context's default graph or in some graph.
bool IsBackpropRequired(Context& context = GetDefaultContext());
bool IsBackpropRequired(const BackpropId& id);

}  // namespace chainerx

#endif  // CHX_CHAINERX_BACKPROP_H_
