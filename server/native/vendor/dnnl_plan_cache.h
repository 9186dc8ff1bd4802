// What oneDNN has compiled, kept by its shape.
#ifndef CHX_SERVER_NATIVE_VENDOR_DNNL_PLAN_CACHE_H_
#define CHX_SERVER_NATIVE_VENDOR_DNNL_PLAN_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "base/mutex.h"

namespace chx::server::native {

// Bounded: compiling takes a millisecond, and clients choose the shapes. Thread-safe.
template <typename Plan>
class DnnlPlanCache {
 public:
  using Key = absl::InlinedVector<int64_t, 27>;

  // The plan of that key, or what `make` returns for it, which may be null.
  std::shared_ptr<const Plan> Get(const Key& key,
                                  absl::FunctionRef<std::shared_ptr<const Plan>()> make) {
    {
      MutexLock lock(&mutex_);
      const auto it = plans_.find(key);
      if (it != plans_.end()) return it->second;
    }
    std::shared_ptr<const Plan> plan = make();
    Plans old;  // end after the lock
    MutexLock lock(&mutex_);
    if (plans_.size() >= kMaxPlans) plans_.swap(old);
    plans_[key] = plan;
    return plan;
  }

 private:
  using Plans = absl::flat_hash_map<Key, std::shared_ptr<const Plan>>;
  static constexpr size_t kMaxPlans = 512;  // of about 50 KB

  Mutex mutex_;
  Plans plans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_DNNL_PLAN_CACHE_H_
