// What a kernel is given, and a backend's table of kernels.
#ifndef CHX_SERVER_ENGINE_KERNEL_H_
#define CHX_SERVER_ENGINE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/attr.h"
#include "ops/op_def.h"

namespace chx::server {

class Stream;

// One operand: an array in device memory, a scalar, or nothing (an absent optional input).
struct KernelTensor {
  char* data = nullptr;  // element (0, ..., 0); null for a scalar, an absent input or no elements
  Dtype dtype = Dtype::kFloat32;  // of a scalar too: the dtype to convert it to
  Shape shape;
  Strides strides;  // bytes
  bool present = true;
  bool is_scalar = false;
  Scalar scalar;

  int ndim() const { return shape.size(); }
  int64_t size() const { return NumElements(shape); }
};

// Scratch memory that is free again after the call, in stream order.
class ScratchAllocator {
 public:
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;

 protected:
  ~ScratchAllocator() = default;
};

// The engine has checked shapes, dtypes, memory and bounds. What a kernel may rely on:
// * Inputs may have any strides. Outputs are C-contiguous and do not overlap inputs, except for
//   an in-place operator: there outputs = {input 0} with its own strides, and input i either is
//   that very view or does not overlap it.
// * An in-place operator over lists has no outputs and writes to the inputs that it says it writes.
//   All are C-contiguous there, and arrays at one place of the lists do not overlap.
// * An elementwise operator's inputs are cast to the dtype that its inference rule asked for and
//   their strides are broadcast: every array operand has the output's shape.
// * Arrays with no elements reach a kernel too.
struct KernelArgs {
  const OpDef& op;
  Stream& stream;
  ScratchAllocator& scratch;
  absl::Span<const KernelTensor> inputs;
  absl::Span<const KernelTensor> outputs;
  absl::Span<const AttrValue> attrs;

  const KernelTensor& in(int i) const { return inputs[i]; }
  const KernelTensor& out(int i) const { return outputs[i]; }
};

using Kernel = absl::Status (*)(const KernelArgs& args);

// Kernels by operator. Filled once, by the backend's Register<Group> functions; then read-only.
class KernelTable {
 public:
  // The operator must be in the registry; a second registration replaces the first.
  void Set(absl::string_view op, Kernel kernel) { Set(op, kernel, false); }
  // Of an elementwise operator: the kernel may also be called on any parts of its operands, by
  // several threads of the stream's at once (Stream::RunBlocks), and gives the same elements. It
  // needs no scratch memory, and does not fail because of values.
  void SetBlockwise(absl::string_view op, Kernel kernel) { Set(op, kernel, true); }
  // A kernel that computes several elementwise operators of float32 arrays at once (fused_calls.h),
  // each of them as its own kernel does: these operators, which have no attributes.
  void SetFused(Kernel kernel, absl::Span<const absl::string_view> ops);
  Kernel Find(const OpDef& op) const { return op.id < kernels_.size() ? kernels_[op.id] : nullptr; }
  bool IsBlockwise(const OpDef& op) const { return op.id < kernels_.size() && blockwise_[op.id]; }
  // Null: there is none.
  Kernel fused() const { return fused_; }
  bool MayBeFused(const OpDef& op) const { return op.id < may_fuse_.size() && may_fuse_[op.id]; }
  // Operators of kind kKernel without a kernel here; in-place forms need that of their base.
  std::vector<std::string> Missing() const;

 private:
  void Set(absl::string_view op, Kernel kernel, bool blockwise);

  std::vector<Kernel> kernels_;
  std::vector<bool> blockwise_;
  Kernel fused_ = nullptr;
  std::vector<bool> may_fuse_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_KERNEL_H_
