#include "server/engine/rowwise.h"

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace chx::server {
namespace {

struct Promises {
  Mutex mutex;
  absl::flat_hash_map<Kernel, Rowwise> by_kernel ABSL_GUARDED_BY(mutex);
};

Promises& All() {
  static Promises* const all = new Promises();  // NOLINT: never destroyed
  return *all;
}

}  // namespace

bool AreApart(const KernelTensor& tensor, int begin, int end, int64_t step) {
  for (int d = end - 1; d >= begin; --d) {
    if (tensor.shape[d] == 1) continue;
    if (tensor.strides[d] != step) return false;
    step *= tensor.shape[d];
  }
  return true;
}

void PromiseRowwise(Kernel kernel, const Rowwise& promise) {
  Promises& all = All();
  MutexLock lock(&all.mutex);
  all.by_kernel[kernel] = promise;
}

Rowwise FindRowwise(Kernel kernel) {
  Promises& all = All();
  MutexLock lock(&all.mutex);
  const auto it = all.by_kernel.find(kernel);
  return it == all.by_kernel.end() ? Rowwise() : it->second;
}

}  // namespace chx::server
