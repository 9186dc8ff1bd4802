#include "server/engine/devices.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/error.h"
#include "server/engine/slab_sharing.h"

namespace chx::server {
namespace {

constexpr char kHostBackend[] = "native";

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name,
                                                   const std::vector<Backend*>& backends) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, absl::MaxSplits(':', 1));
  int index = 0;
  if (!parts.second.empty() && (!absl::SimpleAtoi(parts.second, &index) || index < 0)) {
    return DeviceError("[devices] expects backend:index, got '", name, "'");
  }
  for (Backend* backend : backends) {
    if (backend->name() != parts.first) continue;
    if (index >= backend->device_count()) {
      return DeviceError("[devices] backend '", parts.first, "' has ", backend->device_count(),
                         " devices, got '", name, "'");
    }
    return backend->OpenDevice(index);
  }
  return MakeError(ErrorKind::kBackend,
                   absl::StrCat("[devices] there is no backend '", parts.first, "'"));
}

}  // namespace

bool Devices::all_lost() const {
  return std::all_of(slots_.begin(), slots_.begin() + listed_,
                     [](const auto& slot) { return slot->device->health().lost(); });
}

bool Devices::shares_memory(int i) const {
  return dynamic_cast<const SlabSharing*>(&at(i)) != nullptr;
}

absl::Status Devices::Add(absl::string_view name, const std::vector<Backend*>& backends) {
  auto slot = std::make_unique<DeviceSlot>();
  CHX_ASSIGN_OR_RETURN(slot->device, OpenDevice(name, backends));
  const std::vector<std::string> missing = slot->device->kernels().Missing();
  if (!missing.empty()) {
    return MakeError(
        ErrorKind::kBackend,
        absl::StrCat("[devices] '", name, "' has no kernel for: ", absl::StrJoin(missing, ", ")));
  }
  slots_.push_back(std::move(slot));
  return absl::OkStatus();
}

absl::Status Devices::Open(absl::string_view list, const std::vector<Backend*>& backends) {
  for (absl::string_view name : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    CHX_RETURN_IF_ERROR(Add(name, backends));
  }
  if (slots_.empty()) return DeviceError("[devices] expects at least one device, got none");
  listed_ = size();
  for (int i = 0; i < listed_; ++i) {
    if (shares_memory(i)) return absl::OkStatus();
  }
  const auto is_host = [](const Backend* backend) { return backend->name() == kHostBackend; };
  if (std::none_of(backends.begin(), backends.end(), is_host)) return absl::OkStatus();
  return Add(absl::StrCat(kHostBackend, ":0"), backends);
}

}  // namespace chx::server
