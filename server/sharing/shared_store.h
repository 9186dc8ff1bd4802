// All that sessions of a daemon share with each other.
#ifndef CHX_SERVER_SHARING_SHARED_STORE_H_
#define CHX_SERVER_SHARING_SHARED_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/sharing/capabilities.h"
#include "server/sharing/names.h"

namespace chx::server {

class SharingMember;

// Outlives all sessions. Thread-safe.
class SharedStore {
 public:
  // For a session; what it shares is charged to that account.
  std::unique_ptr<SharingMember> Join(TenantPtr tenant, MemoryAccountPtr account);

  Capabilities& capabilities() { return capabilities_; }
  Names& names() { return names_; }

 private:
  std::atomic<uint64_t> members_{0};
  Capabilities capabilities_;
  Names names_;
};

// A session's part in sharing. What it shares ends with it, or is left to others.
class SharingMember {
 public:
  SharingMember(SharedStore* store, Sharer sharer);
  ~SharingMember();
  SharingMember(const SharingMember&) = delete;

  SharedStore& store() const { return store_; }
  const Sharer& sharer() const { return sharer_; }

 private:
  SharedStore& store_;
  const Sharer sharer_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SHARING_SHARED_STORE_H_
