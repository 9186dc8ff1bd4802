// Kernels as they run, for who repeats them (server/programs).
#ifndef CHX_SERVER_ENGINE_KERNEL_OBSERVER_H_
#define CHX_SERVER_ENGINE_KERNEL_OBSERVER_H_

#include "absl/types/span.h"
#include "server/engine/array.h"
#include "server/engine/kernel.h"

namespace chx::server {

// Kernels check positions, labels and divisors before they use them. A client could write to shared
// memory in between: these, and operators that say so, look at a private copy.
inline bool MustNotChange(const OpDef& op, Dtype dtype) {
  return !IsFloat(dtype) || op.stable_inputs;
}

// A kernel with all that it is called with.
struct KernelCall {
  const OpDef& op;  // the kernel's
  Kernel kernel;    // null: the operator is a collective
  DeviceId device;
  absl::Span<const KernelTensor> inputs;
  absl::Span<const KernelTensor> outputs;
  absl::Span<const AttrValue> attrs;
  uint32_t origin = 0;             // Stream::origin()
  bool finds_errors_late = false;  // Device::has_late_errors()
};

class KernelObserver {
 public:
  // A kernel has run, on tensors in the memory of `arrays`, with so many bytes of scratch memory;
  // or ranks have met for a collective, which has no kernel.
  virtual void Ran(const KernelCall& call, absl::Span<const Array* const> arrays,
                   int64_t scratch) = 0;
  // An array has been copied to another device, which no call shows.
  virtual void Transferred() = 0;
  // A collective is to go on while others run; `beyond`: after the command that begins it, too. If
  // true, it runs now instead, and Ran is called.
  virtual bool RunsNow(bool beyond) = 0;

 protected:
  ~KernelObserver() = default;
};

// A kernel that is called again and again with the same specs, and memory that may differ.
struct PreparedKernel {
  const OpDef* op = nullptr;
  Kernel kernel = nullptr;
  DeviceId device = 0;
  absl::InlinedVector<KernelTensor, 3> inputs;
  absl::InlinedVector<KernelTensor, 1> outputs;
  Attrs attrs;
  int64_t large_operand = 0;  // bytes, for its KernelTimer
  int64_t scratch = 0;        // bytes that it has taken
  uint32_t origin = 0;
  bool finds_errors_late = false;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_KERNEL_OBSERVER_H_
