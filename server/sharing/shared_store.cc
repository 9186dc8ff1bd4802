#include "server/sharing/shared_store.h"

#include <utility>

namespace chx::server {

std::unique_ptr<SharingMember> SharedStore::Join(TenantPtr tenant, MemoryAccountPtr account) {
  Sharer sharer;
  sharer.number = ++members_;
  sharer.tenant = std::move(tenant);
  sharer.account = std::move(account);
  sharer.holding = std::make_shared<std::atomic<int64_t>>(0);
  return std::make_unique<SharingMember>(this, std::move(sharer));
}

SharingMember::SharingMember(SharedStore* store, Sharer sharer)
    : store_(*store), sharer_(std::move(sharer)) {}

SharingMember::~SharingMember() {
  store_.capabilities().Leave(sharer_.number);
  store_.names().Leave(sharer_.number);
}

}  // namespace chx::server
