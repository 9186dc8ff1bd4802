// That what we declare of NCCL is what nccl.h declares, where there is one.
#include "server/cuda/vendor/nccl_api.h"

#include "gtest/gtest.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace chx::server::cuda::nccl {
namespace {

// Functions agree if their parameters do, where ours are NCCL's by another name.
template <typename T>
struct Same {
  using Type = T;
};
#define CHX_NAMED(ours, theirs) \
  template <>                   \
  struct Same<ours> {           \
    using Type = theirs;        \
  }
CHX_NAMED(Result, ncclResult_t);
CHX_NAMED(RedOp, ncclRedOp_t);
CHX_NAMED(DataType, ncclDataType_t);
CHX_NAMED(Comm, ncclComm_t);
CHX_NAMED(UniqueId, ncclUniqueId);
CHX_NAMED(Config, ncclConfig_t);
CHX_NAMED(void*, void*);
template <typename T>
struct Same<T*> {
  using Type = typename Same<T>::Type*;
};
template <typename R, typename... Args>
struct Same<R(Args...)> {
  using Type = typename Same<R>::Type(typename Same<Args>::Type...);
};

// With a stream as the last parameter, which is a pointer there.
template <typename Theirs>
struct Streamless {
  using Type = Theirs;
};
template <typename R, typename... Args>
struct Streamless<R (*)(Args...)> {
  template <typename T>
  using Plain = std::conditional_t<std::is_same<T, cudaStream_t>::value, void*, T>;
  using Type = R(Plain<Args>...);
};

#define CHX_SAME(name)                                                                          \
  static_assert(std::is_same<Same<name>::Type, Streamless<decltype(&nccl##name)>::Type>::value, \
                #name)
CHX_SAME(GetVersion);
CHX_SAME(GetUniqueId);
CHX_SAME(CommInitRankConfig);
CHX_SAME(CommDestroy);
CHX_SAME(CommAbort);
CHX_SAME(CommGetAsyncError);
CHX_SAME(GetErrorString);
CHX_SAME(GroupStart);
CHX_SAME(GroupEnd);
CHX_SAME(AllReduce);
CHX_SAME(Reduce);
CHX_SAME(Broadcast);
CHX_SAME(AllGather);
CHX_SAME(ReduceScatter);
CHX_SAME(Send);
CHX_SAME(Recv);

#define CHX_EQUAL(ours, theirs) \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #ours)
CHX_EQUAL(kSuccess, ncclSuccess);
CHX_EQUAL(kInProgress, ncclInProgress);
CHX_EQUAL(kSum, ncclSum);
CHX_EQUAL(kProd, ncclProd);
CHX_EQUAL(kMax, ncclMax);
CHX_EQUAL(kMin, ncclMin);
CHX_EQUAL(kAvg, ncclAvg);
CHX_EQUAL(kInt8, ncclInt8);
CHX_EQUAL(kUint8, ncclUint8);
CHX_EQUAL(kInt32, ncclInt32);
CHX_EQUAL(kInt64, ncclInt64);
CHX_EQUAL(kFloat16, ncclFloat16);
CHX_EQUAL(kFloat32, ncclFloat32);
CHX_EQUAL(kFloat64, ncclFloat64);
CHX_EQUAL(kBfloat16, ncclBfloat16);
CHX_EQUAL(kUndefined, NCCL_CONFIG_UNDEF_INT);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId), "UniqueId");
static_assert(sizeof(Result) == sizeof(ncclResult_t) && sizeof(RedOp) == sizeof(ncclRedOp_t) &&
                  sizeof(DataType) == sizeof(ncclDataType_t),
              "enums");
static_assert(kLeastVersion <= NCCL_VERSION_CODE, "kLeastVersion");

TEST(NcclApiTest, ConfigsBeginAlike) {
  EXPECT_EQ(offsetof(Config, size), offsetof(ncclConfig_t, size));
  EXPECT_EQ(offsetof(Config, magic), offsetof(ncclConfig_t, magic));
  EXPECT_EQ(offsetof(Config, version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(Config, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(Config, cga_cluster_size), offsetof(ncclConfig_t, cgaClusterSize));
  EXPECT_EQ(offsetof(Config, min_ctas), offsetof(ncclConfig_t, minCTAs));
  EXPECT_EQ(offsetof(Config, max_ctas), offsetof(ncclConfig_t, maxCTAs));
  EXPECT_EQ(offsetof(Config, net_name), offsetof(ncclConfig_t, netName));
  EXPECT_EQ(offsetof(Config, split_share), offsetof(ncclConfig_t, splitShare));
  EXPECT_EQ(sizeof(Config), offsetof(ncclConfig_t, splitShare) + 2 * sizeof(int));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(Config().magic, theirs.magic);
}

}  // namespace
}  // namespace chx::server::cuda::nccl

#else

TEST(NcclApiTest, ConfigsBeginAlike) { GTEST_SKIP() << "there is no nccl.h"; }

#endif
