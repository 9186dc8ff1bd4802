// Collectives that another thread runs while the session's goes on.
#ifndef CHX_SERVER_ENGINE_STARTED_COLLECTIVES_H_
#define CHX_SERVER_ENGINE_STARTED_COLLECTIVES_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/engine/backend.h"
#include "server/engine/collectives.h"
#include "server/engine/kernel.h"
#include "server/engine/memory_budget.h"

namespace chx::server {

// Of a collective that has failed: that the command is to stop comes first.
absl::Status StoppedOr(const OpDef& op, const absl::Status& failed);

// HostKernels for a thread that has no executor: those that need no scratch memory.
class ThreadKernels {
 public:
  ThreadKernels(const KernelTable* kernels, std::unique_ptr<Stream> stream)
      : kernels_(kernels), stream_(std::move(stream)) {}
  absl::Status operator()(absl::string_view op, absl::Span<const KernelTensor> inputs,
                          const KernelTensor& output) const;

 private:
  const KernelTable* kernels_;
  std::unique_ptr<Stream> stream_;
};

// Of arrays in the host's memory.
class StartedOnHost final : public StartedCollective {
 public:
  StartedOnHost(const OpDef& op, ThreadKernels kernels) : op_(op), kernels_(std::move(kernels)) {}
  absl::Status Start(Collectives* collectives, const CollectiveCall& call);
  absl::Status Wait() override;

 private:
  const OpDef& op_;
  const ThreadKernels kernels_;
  std::unique_ptr<StartedCollective> started_;
};

// Of arrays in the memory of a device, which the session's stream has written before and reads
// afterwards. The other thread has a stream of its own.
class StartedOnDevice final : public StartedCollective, private HostPassage {
 public:
  // `account`: for memory of the host, if the arrays have to pass through it.
  StartedOnDevice(const OpDef& op, ThreadKernels kernels, MemoryAccountPtr account, Stream* session,
                  std::shared_ptr<Stream> exchange)
      : op_(op),
        kernels_(std::move(kernels)),
        account_(std::move(account)),
        session_(*session),
        exchange_(std::move(exchange)) {}
  ~StartedOnDevice() override;
  // What such a call takes of the host's memory if its arrays pass through that.
  static int64_t HostBytes(const CollectiveCall& call);
  // What the call refers to, but for its location, is there as long as this object.
  absl::Status Start(Collectives* collectives, CollectiveCall call);
  // Not for the devices: the session's stream goes on after them.
  absl::Status Wait() override;

 private:
  absl::Status Begin() override;
  absl::Status End() override;
  absl::Status ToHost(CollectiveCall* call) override;
  absl::Status FromHost() override;
  // The session's stream goes on behind the collective.
  absl::Status Join();

  const OpDef& op_;
  const ThreadKernels kernels_;
  const MemoryAccountPtr account_;
  Stream& session_;
  const std::shared_ptr<Stream> exchange_;
  std::unique_ptr<StreamMark> written_;  // the inputs
  std::unique_ptr<StreamMark> done_;     // null: nothing was given to `exchange_`
  absl::Span<const KernelTensor> outputs_;
  MemoryCharge charge_;
  std::unique_ptr<char[]> memory_;  // NOLINT
  std::vector<KernelTensor> host_inputs_;
  std::vector<KernelTensor> host_outputs_;
  std::unique_ptr<StartedCollective> started_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_STARTED_COLLECTIVES_H_
