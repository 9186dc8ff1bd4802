// The daemon's part about devices that are lost.
#include <map>
#include <string>
#include <utility>

#include "server/daemon.h"
#include "server/log/log.h"

namespace chx::server {

void Daemon::WatchDevices(const std::function<void()>& on_useless) {
  std::map<std::string, bool> all;
  for (int i = 0; i < devices_.size(); ++i) all[devices_.at(i).name()] = true;
  admin_->SetDevices(std::move(all));
  for (int i = 0; i < devices_.size(); ++i) {
    Device* const device = &devices_.at(i);
    device->health().SetOnLost([this, device, on_useless](const absl::Status& why) {
      NoteLost(*device, why);
      if (devices_.all_lost() && on_useless != nullptr) on_useless();
    });
  }
}

void Daemon::NoteLost(const Device& lost, const absl::Status& why) {
  Log(LogLevel::kError,
      "a device is lost: what sessions have on it is gone, and it fails until a restart",
      {{"device", lost.name()}, {"reason", why.message()}});
  std::map<std::string, bool> works;
  for (int i = 0; i < devices_.size(); ++i) {
    works[devices_.at(i).name()] = !devices_.at(i).health().lost();
  }
  admin_->SetDevices(std::move(works));
}

void Daemon::ForgetDevices() {
  for (int i = 0; i < devices_.size(); ++i) devices_.at(i).health().SetOnLost(nullptr);
}

}  // namespace chx::server
