#include "server/tenancy/tenant.h"

#include <utility>

namespace chx::server {

TenantPtr DefaultTenant() {
  static const auto* const tenant = [] {
    Tenant named;
    named.name = "default";
    return new TenantPtr(std::make_shared<const Tenant>(std::move(named)));
  }();
  return *tenant;
}

}  // namespace chx::server
