// What the executor needs of process groups, which are made elsewhere (server/collectives).
#ifndef CHX_SERVER_ENGINE_COLLECTIVES_H_
#define CHX_SERVER_ENGINE_COLLECTIVES_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/attr.h"
#include "ops/op_def.h"
#include "server/engine/kernel.h"

namespace chx::server {

// Calls the kernel of an elementwise operator of the host's device: the result is written to
// `output`, which may be one of the inputs.
using HostKernels = absl::FunctionRef<absl::Status(
    absl::string_view op, absl::Span<const KernelTensor> inputs, const KernelTensor& output)>;

struct CollectiveCall;

// A rank's way to the others where not all ranks' devices exchange their arrays by themselves. Used
// by the thread that runs the call.
class HostPassage {
 public:
  virtual ~HostPassage() = default;
  // Called by another thread than the session's, if one runs the call: before it and, whatever its
  // outcome, after it.
  virtual absl::Status Begin() { return absl::OkStatus(); }
  virtual absl::Status End() { return absl::OkStatus(); }
  // Gives the call arrays in the host's memory instead of those on the device.
  virtual absl::Status ToHost(CollectiveCall* call) = 0;
  // And afterwards brings the results to where those were to come.
  virtual absl::Status FromHost() = 0;
};

// One rank's part of a collective. All is the caller's; the arrays are in C order, in the host's
// memory, where other ranks read the inputs and write the outputs until the call returns, or in
// that of the stream's device.
struct CollectiveCall {
  const OpDef& op;
  absl::Span<const AttrValue> attrs;
  absl::Span<const KernelTensor> inputs;
  absl::Span<const KernelTensor> outputs;
  // Not OK: the rank has no arrays, for this reason. It meets the others all the same, so that they
  // learn why.
  absl::Status failed;
  uint32_t origin = 0;         // Stream::origin() of the command
  absl::string_view location;  // the client's file:line; "": unknown
  // Not null: the arrays are in the memory of its device, and what is queued there has come to the
  // inputs and will come to the outputs.
  Stream* stream = nullptr;
  HostPassage* passage = nullptr;  // with a stream
};

// A collective that goes on while the session's thread does something else.
class StartedCollective {
 public:
  // If nobody has waited for its end, the group is broken, and that is the end.
  virtual ~StartedCollective() = default;
  // As Collectives::Run. Once.
  virtual absl::Status Wait() = 0;
};

// A session's part in its groups. Used by the thread that runs its commands.
class Collectives {
 public:
  virtual ~Collectives() = default;
  // Waits for the other ranks. Others compute meanwhile, if this thread has a turn to compute.
  virtual absl::Status Run(const CollectiveCall& call, HostKernels kernels) = 0;
  // The same by another thread, which calls `kernels`. The group's later calls wait for it. What
  // the call and `kernels` refer to, but for its location, is there as long as what is returned.
  virtual absl::StatusOr<std::unique_ptr<StartedCollective>> Start(const CollectiveCall& call,
                                                                   HostKernels kernels) = 0;
  // The group of a call with these attributes: the session is out of step with the others, as `why`
  // says of the rank. Does not wait.
  virtual void Break(absl::Span<const AttrValue> attrs, absl::string_view why) = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_COLLECTIVES_H_
