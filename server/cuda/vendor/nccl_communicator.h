// Collectives between GPUs by NCCL.
#ifndef CHX_SERVER_CUDA_VENDOR_NCCL_COMMUNICATOR_H_
#define CHX_SERVER_CUDA_VENDOR_NCCL_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/vendor/nccl_library.h"
#include "server/engine/collectives.h"
#include "server/engine/communicator.h"

namespace chx::server::cuda {

// All of this daemon's ranks are one thread's to NCCL, whose calls do not block, so that it can
// look whether to give up. Reductions have the same bits at all ranks, in an order that is NCCL's.
class NcclCommunicator final : public Communicator {
 public:
  // The streams are KernelStreams. `id`: of NewNcclId.
  static absl::StatusOr<std::unique_ptr<Communicator>> New(absl::string_view id, int size,
                                                           absl::Span<const DeviceRank> ranks,
                                                           GoesOn goes_on);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  bool Takes(const CollectiveCall& call) const override;
  absl::Status Queue(absl::Span<const CollectiveCall* const> calls, GoesOn goes_on) override;
  absl::Status Wait(absl::Span<const CollectiveCall* const> calls, GoesOn goes_on) override;
  void Abandon() override { aborts_ = true; }

 private:
  struct Member {
    int rank = 0;
    Device* device = nullptr;
    nccl::Comm comm = nullptr;
    Stream* last = nullptr;             // that was given a collective; it may have ended
    std::unique_ptr<StreamMark> ended;  // behind that
  };

  NcclCommunicator(const NcclLibrary* library, int size) : library_(*library), size_(size) {}
  absl::Status Init(absl::string_view id, absl::Span<const DeviceRank> ranks, GoesOn goes_on);
  absl::Status QueueAll(absl::Span<const CollectiveCall* const> calls, GoesOn goes_on);
  absl::Status WaitForAll(absl::Span<const CollectiveCall* const> calls, GoesOn goes_on) const;
  nccl::Result QueueOne(const Member& member, const CollectiveCall& call) const;
  // One array of a call, of which each block has so many elements.
  nccl::Result QueueArray(const Member& member, const CollectiveCall& call, size_t array,
                          size_t block, void* stream) const;
  void AwaitEnds() const;
  absl::Status Check(const char* what, nccl::Result result) const;
  // Until all members have done what was asked of them with that result.
  absl::Status Await(const char* what, nccl::Result result, GoesOn goes_on) const;

  const NcclLibrary& library_;
  const int size_;
  std::vector<Member> members_;
  bool aborts_ = false;  // at the end
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_NCCL_COMMUNICATOR_H_
