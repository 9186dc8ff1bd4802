// The part of NCCL's C interface that we call, for builds without its header, which is in neither
// CUDA's toolkit nor cuDNN's package. Names are NCCL's without the prefix; a test compares all of
// it with nccl.h where there is one.
#ifndef CHX_SERVER_CUDA_VENDOR_NCCL_API_H_
#define CHX_SERVER_CUDA_VENDOR_NCCL_API_H_

#include <climits>
#include <cstddef>

namespace chx::server::cuda::nccl {

struct CommState;  // NCCL's own
using Comm = CommState*;

struct UniqueId {
  char internal[128];
};

// Of ncclResult_t.
enum Result : int { kSuccess = 0, kInProgress = 7 };
// Of ncclRedOp_t.
enum RedOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };
// Of ncclDataType_t.
enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

// The first fields of ncclConfig_t: those that it had in kLeastVersion. Later ones are as NCCL
// likes them when the version here says that they are not there.
inline constexpr int kLeastVersion = 21800;  // 2.18
inline constexpr int kUndefined = INT_MIN;
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = kLeastVersion;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

// Streams are CUDA's.
using GetVersion = Result(int* version);
using GetUniqueId = Result(UniqueId* id);
using CommInitRankConfig = Result(Comm* comm, int size, UniqueId id, int rank, Config* config);
using CommDestroy = Result(Comm comm);
using CommAbort = Result(Comm comm);
using CommGetAsyncError = Result(Comm comm, Result* error);
using GetErrorString = const char*(Result result);
using GroupStart = Result();
using GroupEnd = Result();
using AllReduce = Result(const void* in, void* out, size_t count, DataType type, RedOp op,
                         Comm comm, void* stream);
using Reduce = Result(const void* in, void* out, size_t count, DataType type, RedOp op, int root,
                      Comm comm, void* stream);
using Broadcast = Result(const void* in, void* out, size_t count, DataType type, int root,
                         Comm comm, void* stream);
using AllGather = Result(const void* in, void* out, size_t count, DataType type, Comm comm,
                         void* stream);
using ReduceScatter = Result(const void* in, void* out, size_t count, DataType type, RedOp op,
                             Comm comm, void* stream);
using Send = Result(const void* in, size_t count, DataType type, int peer, Comm comm, void* stream);
using Recv = Result(void* out, size_t count, DataType type, int peer, Comm comm, void* stream);

}  // namespace chx::server::cuda::nccl

#endif  // CHX_SERVER_CUDA_VENDOR_NCCL_API_H_
