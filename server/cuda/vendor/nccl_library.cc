#include "server/cuda/vendor/nccl_library.h"

#include <iterator>

#include "ops/error.h"
#include "server/cuda/vendor/library.h"

namespace chx::server::cuda {
namespace {

bool LoadNccl(void* library, NcclLibrary* nccl) {
#define CHX_LOAD(name) LoadFunction(library, "nccl" #name, &nccl->name)&&
  const bool complete = CHX_NCCL_FUNCTIONS(CHX_LOAD) true;
#undef CHX_LOAD
  int version = 0;
  return complete && nccl->GetVersion(&version) == nccl::kSuccess && version >= nccl::kLeastVersion;
}

}  // namespace

absl::StatusOr<const NcclLibrary*> OpenNccl() {
  static const auto* const result = new absl::StatusOr<const NcclLibrary*>(
      OpenFunctions({"NCCL 2.18",
                     "ranks on GPUs exchange arrays through the host's memory",
                     "CHXD_NCCL",
                     {"libnccl.so.2"}},
                    LoadNccl));
  return *result;
}

absl::StatusOr<std::string> NewNcclId() {
  CHX_ASSIGN_OR_RETURN(const NcclLibrary* const library, OpenNccl());
  nccl::UniqueId id;
  const nccl::Result result = library->GetUniqueId(&id);
  if (result != nccl::kSuccess) {
    return DeviceError("cuda: ncclGetUniqueId: ", library->GetErrorString(result));
  }
  return std::string(std::begin(id.internal), std::end(id.internal));
}

}  // namespace chx::server::cuda
