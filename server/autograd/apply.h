// Runs an operator on variables and records it in the graphs that ask for it.
#ifndef CHX_SERVER_AUTOGRAD_APPLY_H_
#define CHX_SERVER_AUTOGRAD_APPLY_H_

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/registry.h"
#include "server/autograd/variable.h"
#include "server/engine/executor.h"

namespace chx::server {

// Which graphs record.
class RecordMode {
 public:
  static RecordMode All() { return RecordMode(true); }
  static RecordMode None() { return RecordMode(false); }
  explicit RecordMode(bool by_default) : by_default_(by_default) {}

  void Set(BackpropId id, bool record);
  // Graphs made after this one don't record, whatever else was said.
  void StopAbove(BackpropId id) { last_ = std::min(last_, id); }
  bool Records(BackpropId id) const;
  bool by_default() const { return by_default_; }
  absl::Span<const std::pair<BackpropId, bool>> exceptions() const { return exceptions_; }
  // What it has in the heap, at most.
  int64_t HeapBytes() const {
    const size_t size = exceptions_.size();
    return size <= 2 ? 0 : static_cast<int64_t>(2 * size * sizeof(exceptions_[0]));
  }

 private:
  bool by_default_;
  BackpropId last_ = std::numeric_limits<BackpropId>::max();
  absl::InlinedVector<std::pair<BackpropId, bool>, 2> exceptions_;
};

// An operand of what is recorded.
struct VariableOperand : BasicOperand<const Variable*> {
  using BasicOperand::BasicOperand;
  bool last_use = false;  // see ArrayOperand
};
using VariableCall = OpCall<VariableOperand>;

using ApplyOutputs = absl::InlinedVector<Variable, 1>;

// The session's means for running operators.
struct Runtime {
  Executor& executor;
  GraphAccount& graph;
};

// An operator that there is, for a call.
inline const OpDef& OpNamed(absl::string_view name) { return *OpRegistry::Global().Find(name); }

// Kernels, views and transfers run as they are; compositions by their parts. In-place operators
// are refused on arrays in a graph. *outputs is replaced.
absl::Status Apply(Runtime& runtime, const VariableCall& call, const RecordMode& mode,
                   ApplyOutputs* outputs);
// The same for an operator with one output.
absl::StatusOr<Variable> Apply1(Runtime& runtime, const VariableCall& call, const RecordMode& mode);

// Connects what the client made of `inputs` by a function of its own: `outputs`, which must be in
// no recorded graph; null: not there. Nothing happens if no graph records.
absl::Status RecordFunction(Runtime& runtime, ClientFunction function,
                            absl::Span<const VariableOperand> inputs,
                            absl::Span<Variable* const> outputs, const RecordMode& mode);

// What an op node takes, but for its array nodes.
int64_t OpNodeBytes(size_t num_inputs, size_t num_outputs, size_t num_graphs,
                    absl::Span<const AttrValue> attrs);
// What op nodes of the client's functions name as their operator.
const OpDef& FunctionOp();

}  // namespace chx::server

#endif  // CHX_SERVER_AUTOGRAD_APPLY_H_
