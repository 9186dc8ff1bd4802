// What a recorded step has done: its kernels, and the memory that they worked on.
#ifndef CHX_SERVER_PROGRAMS_TRACE_H_
#define CHX_SERVER_PROGRAMS_TRACE_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/ref.h"
#include "server/autograd/variable.h"
#include "server/engine/kernel_observer.h"

namespace chx::server {

// A block of memory as a step sees it: it may be another one in each run.
struct TraceObject {
  enum class Kind {
    kTemporary,  // made by the step, and not seen outside
    kResult,     // made by the step, and kept by whoever called it
    kArgument,   // of argument number `index`
    kGradient,   // of the gradient number `index` of the trace, as the step finds it
    kHeld,       // there before the step, and the same in each run
  };
  Kind kind = Kind::kTemporary;
  int index = 0;
  int64_t bytes = 0;
  DeviceId device = 0;
  Ref<Buffer> buffer;  // kHeld
  bool read = false;
  bool written = false;
  bool is_held = false;          // a command names the array
  bool is_constant = false;      // kHeld: the step itself has uploaded it
  bool must_not_change = false;  // a kernel relies on that it is checked only once
};

struct TraceTensor {
  int object = -1;     // -1: the tensor has no memory
  int64_t offset = 0;  // of its first element, in bytes
};

// Whether it is dense, and begins where the object does.
inline bool IsWhole(const TraceTensor& traced, const KernelTensor& tensor) {
  return traced.object >= 0 && traced.offset == 0 &&
         tensor.strides == ContiguousStrides(tensor.shape, ItemSize(tensor.dtype));
}

struct TraceCall {
  PreparedKernel kernel;
  absl::InlinedVector<TraceTensor, 3> inputs;
  absl::InlinedVector<TraceTensor, 1> outputs;
  size_t command = 0;        // of the step, from 0
  int64_t operation = 0;     // of the step's operators, from 0; -1: of another kind of command
  bool is_operator = false;  // the kernel is the operator's own, with its attributes
  bool checked = false;      // by a call before: it does not fail by its values
  std::vector<PreparedKernel> fused;  // the calls that it stands for, if they are several

  // Whether it waits for other ranks, and has no kernel.
  bool is_collective() const { return kernel.op->kind == OpKind::kCollective; }
  // Calls fn(tensor) for those that have memory and that the kernel writes.
  template <typename Fn>
  void ForEachWritten(Fn fn) const {
    for (const TraceTensor& tensor : outputs) {
      if (tensor.object >= 0) fn(tensor);
    }
    if (kernel.op->written_inputs == 0) return;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].object >= 0 && kernel.op->IsWritten(i, inputs.size())) fn(inputs[i]);
    }
  }
  // For all that have memory.
  template <typename Fn>
  void ForEachTensor(Fn fn) const {
    for (const TraceTensor& tensor : inputs) {
      if (tensor.object >= 0) fn(tensor);
    }
    for (const TraceTensor& tensor : outputs) {
      if (tensor.object >= 0) fn(tensor);
    }
  }
};

// An array that exists when the step is over.
struct TraceArray {
  int object = -1;
  ArraySpec spec;
};

// What a step does with the gradient of an array that is there before and after.
struct TraceGradient {
  Ref<ArrayNode> node;  // null: that of argument `argument` in graph `id`
  int argument = -1;
  BackpropId id = 0;
  bool any_before = false;  // whether there was a gradient makes no difference
  bool before = false;      // else: whether there was one,
  bool unique = false;      // and whether nobody else had its memory
  ArraySpec spec;
  bool changes = false;  // it is another one afterwards:
  TraceArray after;      // object -1: none
};

// An attribute of an operator of the step that has another value in each run.
struct TraceSlot {
  int64_t operation = 0;
  size_t attribute = 0;
};
// The attribute as a run gives it: `bits` of its type.
void SetSlot(int64_t bits, AttrValue* attribute);

struct Trace {
  std::vector<TraceObject> objects;
  std::vector<TraceCall> calls;
  std::vector<TraceArray> results;
  std::vector<TraceGradient> gradients;
  std::vector<TraceSlot> slots;
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_TRACE_H_
