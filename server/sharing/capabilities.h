// Keys to arrays: whoever has one can open the array.
#ifndef CHX_SERVER_SHARING_CAPABILITIES_H_
#define CHX_SERVER_SHARING_CAPABILITIES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/sharing/grant.h"

namespace chx::server {

struct CapabilityTerms {
  bool write = false;
  bool keep = false;  // it outlives the session that gave it
  absl::Time expires = absl::InfiniteFuture();
  std::string tenant;  // who may open it; "*": whoever has it; "": the owner's tenant
};

// All of a daemon. A capability is "chx-cap:" and 128 random bits; kept is only its hash, by which
// it is found, so that neither a look at this memory nor the time that a look-up takes reveals one.
// Thread-safe.
class Capabilities {
 public:
  static constexpr int kMaxOfSession = 4096;

  absl::StatusOr<std::string> New(const Sharer& owner, SharedArray array,
                                  const CapabilityTerms& terms);
  // The same error for one that never was, has ended or is another tenant's.
  absl::StatusOr<OpenedArray> Open(const Sharer& holder, absl::string_view capability, bool copy);
  // By the session that gave it or, when that has ended, by any of its tenant.
  absl::Status Revoke(const Sharer& sharer, absl::string_view capability);
  // The session has ended.
  void Leave(uint64_t number);
  // Those that have expired are gone. What it returns frees them, and arrays that nobody else has,
  // which may take a while; null: there are none. To be called now and then.
  std::shared_ptr<void> TakeExpired(absl::Time now);
  size_t size();

 private:
  struct Entry {
    uint64_t owner = 0;  // 0: it has ended
    std::string owner_tenant;
    CapabilityTerms terms;
    std::unique_ptr<Grant> grant;
  };
  using Ended = std::vector<std::unique_ptr<Grant>>;
  void Forget(uint64_t owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  absl::flat_hash_map<std::string, Entry> by_hash_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, int> counts_ ABSL_GUARDED_BY(mutex_);  // by owner
  absl::Time next_expiry_ ABSL_GUARDED_BY(mutex_) =
      absl::InfiniteFuture();  // or there is none by now
};

}  // namespace chx::server

#endif  // CHX_SERVER_SHARING_CAPABILITIES_H_
