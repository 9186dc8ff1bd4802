#include "server/front/strangers.h"

namespace chx::server {

absl::optional<uint64_t> Strangers::Enter(uint64_t id, const std::string& address) {
  absl::optional<uint64_t> dropped;
  const auto own = by_address_.find(address);
  if (own != by_address_.end() && own->second.size() >= limits_.per_address) {
    dropped = own->second.First();
  } else if (size_ >= limits_.in_all) {
    dropped = Greediest();
  }
  by_address_[address].silent.insert(id);
  ++size_;
  return dropped;
}

void Strangers::Speaks(uint64_t id, const std::string& address) {
  const auto own = by_address_.find(address);
  if (own != by_address_.end() && own->second.silent.erase(id) != 0)
    own->second.speaking.insert(id);
}

void Strangers::Leave(uint64_t id, const std::string& address) {
  const auto own = by_address_.find(address);
  if (own == by_address_.end()) return;
  if (own->second.silent.erase(id) + own->second.speaking.erase(id) == 0) return;
  --size_;
  if (own->second.size() == 0) by_address_.erase(own);
}

absl::optional<uint64_t> Strangers::Greediest() const {
  const Address* most = nullptr;
  for (const auto& [name, address] : by_address_) {
    if (most == nullptr || address.size() > most->size()) most = &address;
  }
  if (most == nullptr) return absl::nullopt;
  return most->First();
}

}  // namespace chx::server
