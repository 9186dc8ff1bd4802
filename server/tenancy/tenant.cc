#include "server/tenancy/tenant.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace chx::server {

TenantPtr DefaultTenant() {
  static const auto* const tenant = [] {
    Tenant named;
    named.name = "default";
    return new TenantPtr(std::make_shared<const Tenant>(std::move(named)));
  }();
  return *tenant;
}

bool Allows(const Tenant& tenant, Feature feature) { return tenant.features.count(feature) > 0; }

absl::string_view FeatureName(Feature feature) {
  switch (feature) {
    case Feature::kSharedNames:
      return "shared_names";
    case Feature::kSnapshots:
      return "snapshots";
    case Feature::kDataFiles:
      return "data_files";
  }
  return "";
}

absl::Status CheckAllowed(const Tenant& tenant, Feature feature, absl::string_view what) {
  if (Allows(tenant, feature)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "[", what, "] expects the feature ", FeatureName(feature), ", which the tenant '",
      tenant.name, "' has not got: ask the daemon's operator to add it to the tenants file"));
}

bool MayAdminister(const Tenant& who, const Tenant& whose) {
  return who.admin || who.name == whose.name;
}

bool MayRunDaemon(const Tenant& who) { return who.admin || &who == DefaultTenant().get(); }

}  // namespace chx::server
