// NCCL, opened when the first group of ranks on GPUs needs it (library.h).
#ifndef CHX_SERVER_CUDA_VENDOR_NCCL_LIBRARY_H_
#define CHX_SERVER_CUDA_VENDOR_NCCL_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/cuda/vendor/nccl_api.h"

namespace chx::server::cuda {

// The functions that we call.
#define CHX_NCCL_FUNCTIONS(F) \
  F(GetVersion)               \
  F(GetUniqueId)              \
  F(CommInitRankConfig)       \
  F(CommDestroy)              \
  F(CommAbort)                \
  F(CommGetAsyncError)        \
  F(GetErrorString)           \
  F(GroupStart)               \
  F(GroupEnd)                 \
  F(AllReduce)                \
  F(Reduce)                   \
  F(Broadcast)                \
  F(AllGather)                \
  F(ReduceScatter)            \
  F(Send)                     \
  F(Recv)

// Immutable; safe from any thread.
struct NcclLibrary {
#define CHX_DECLARE(name) nccl::name* name = nullptr;
  CHX_NCCL_FUNCTIONS(CHX_DECLARE)
#undef CHX_DECLARE
};

// The outcome of the first call is kept. CHXD_NCCL names the file, or is "off".
absl::StatusOr<const NcclLibrary*> OpenNccl();
// The bytes of a new UniqueId.
absl::StatusOr<std::string> NewNcclId();

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_NCCL_LIBRARY_H_
