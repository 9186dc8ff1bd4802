// Kernels as they run, for who repeats them (server/programs).
#ifndef CHX_SERVER_ENGINE_KERNEL_OBSERVER_H_
#define CHX_SERVER_ENGINE_KERNEL_OBSERVER_H_

#include "absl/types/span.h"
#include "server/engine/array.h"
#include "server/engine/kernel.h"

namespace chx::server {

class KernelObserver {
 public:
  struct Call {
    const OpDef& op;  // the kernel's
    Kernel kernel;
    DeviceId device;
    absl::Span<const KernelTensor> inputs;
    absl::Span<const KernelTensor> outputs;
    absl::Span<const AttrValue> attrs;
    absl::Span<const Array* const> arrays;  // the tensors lie in their memory
  };

  // A kernel has run, as Call says.
  virtual void Ran(const Call& call) = 0;
  // An array has been copied to another device, which no Call shows.
  virtual void Transferred() = 0;

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
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_KERNEL_OBSERVER_H_
