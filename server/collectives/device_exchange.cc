#include "server/collectives/device_exchange.h"

#include <atomic>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "ops/error.h"
#include "server/collectives/peer_exchange.h"
#include "server/log/log.h"

namespace chx::server {
namespace {

std::atomic<int>& NumCommunicators() {
  static std::atomic<int> number{0};
  return number;
}

absl::Status TooManyError() {
  return MemoryError(DeviceExchange::kMostCommunicators, " groups of a daemon do already");
}

// The same for all daemons of a machine, in whatever containers.
std::string MachineId() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

}  // namespace

// What a daemon says of itself before there is a communicator.
struct DeviceExchange::Offer {
  std::string refusal;               // why not; "": it can
  std::string machine;               // where the devices are
  std::vector<std::string> devices;  // their hardware ids

  std::string ToText() const {
    if (!refusal.empty()) return absl::StrCat("-", refusal.substr(0, PeerExchange::kMaxText / 2));
    return absl::StrCat("+", machine, ",", absl::StrJoin(devices, ","));
  }
  static Offer FromText(absl::string_view text) {
    Offer offer;
    if (text.empty() || text[0] != '+') {
      offer.refusal = text.size() > 1 ? std::string(text.substr(1)) : "a daemon says nothing";
      return offer;
    }
    offer.devices = absl::StrSplit(text.substr(1), ',');
    offer.machine = offer.devices[0];
    offer.devices.erase(offer.devices.begin());
    return offer;
  }
};

void DeviceExchange::Drop() {
  if (communicator_ == nullptr) return;
  if (across_) communicator_->Abandon();
  communicator_ = nullptr;
  --NumCommunicators();
}

ArrayPlace DeviceExchange::PlaceOf(const std::vector<const CollectiveCall*>& calls) const {
  if (decided_ && communicator_ == nullptr) return ArrayPlace::kAlwaysHost;
  bool host = false;
  bool here = false;
  bool elsewhere = false;
  std::set<std::string> ids;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    if (calls[rank] == nullptr) continue;
    Stream* const stream = calls[rank]->stream;
    if (stream == nullptr) {
      host = true;
    } else if (decided_ ? &stream->device() == devices_[rank]
                        : ids.insert(stream->device().hardware_id()).second) {
      here = true;
    } else {
      elsewhere = true;
    }
  }
  if (!here && !elsewhere) return ArrayPlace::kHost;
  return host || elsewhere ? ArrayPlace::kMixed : ArrayPlace::kDevices;
}

DeviceExchange::Offer DeviceExchange::OfferOf(
    const std::vector<const CollectiveCall*>& calls) const {
  Offer offer;
  offer.machine = MachineId();
  Device* first = nullptr;
  for (const CollectiveCall* const call : calls) {
    if (call == nullptr) continue;
    if (first == nullptr) first = &call->stream->device();
    offer.devices.push_back(call->stream->device().hardware_id());
  }
  absl::Status status = first->OpenCommunicators();
  if (status.ok() && NumCommunicators() >= kMostCommunicators) {
    status = TooManyError();
  }
  offer.refusal = std::string(status.message());
  if (offer.ToText().size() > PeerExchange::kMaxText) offer.refusal = "there are too many ranks";
  return offer;
}

absl::Status DeviceExchange::Connect(const std::vector<const CollectiveCall*>& calls,
                                     const std::string& id, GoesOn goes_on) {
  std::vector<DeviceRank> ranks;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    if (calls[rank] != nullptr) ranks.push_back({static_cast<int>(rank), calls[rank]->stream});
  }
  if (++NumCommunicators() > kMostCommunicators) {
    --NumCommunicators();
    return TooManyError();
  }
  absl::StatusOr<std::unique_ptr<Communicator>> made =
      ranks[0].stream->device().NewCommunicator(id, static_cast<int>(calls.size()), ranks, goes_on);
  if (!made.ok()) {
    --NumCommunicators();
    return made.status();
  }
  communicator_ = *std::move(made);
  return absl::OkStatus();
}

// Each daemon's text, to all of them.
absl::StatusOr<std::vector<std::string>> DeviceExchange::Ask(const Tell* tell, std::string own) {
  std::vector<std::string> all;
  if (tell == nullptr) {
    all.push_back(std::move(own));
    return all;
  }
  const std::string why = (*tell)(own, &all);
  if (!why.empty()) return MakeError(ErrorKind::kContext, why);
  return all;
}

absl::Status DeviceExchange::Decide(const std::vector<const CollectiveCall*>& calls, int self,
                                    const Tell* tell, GoesOn goes_on) {
  CHX_ASSIGN_OR_RETURN(std::vector<std::string> texts, Ask(tell, OfferOf(calls).ToText()));
  std::string refusal;
  std::set<std::string> devices;
  for (const std::string& text : texts) {
    const Offer offer = Offer::FromText(text);
    if (refusal.empty()) refusal = offer.refusal;
    for (const std::string& device : offer.devices) {
      // Two ranks are on one device now, and perhaps not later.
      if (!devices.insert(absl::StrCat(offer.machine, " ", device)).second) {
        return absl::OkStatus();
      }
    }
  }
  decided_ = true;
  across_ = tell != nullptr;
  for (const CollectiveCall* const call : calls) {
    devices_.push_back(call == nullptr ? nullptr : &call->stream->device());
  }
  if (refusal.empty()) {
    // An id that cannot be made is none, which no device takes.
    std::string id;
    if (self == 0) id = calls[0]->stream->device().NewCommunicatorId().value_or("");
    CHX_ASSIGN_OR_RETURN(texts, Ask(tell, std::move(id)));
    const absl::Status connected = Connect(calls, texts[0], goes_on);
    CHX_ASSIGN_OR_RETURN(texts, Ask(tell, std::string(connected.message())));
    for (const std::string& text : texts) {
      if (refusal.empty()) refusal = text;
    }
  }
  if (!refusal.empty()) Drop();
  static auto* const limit = new LogLimit;  // clients make groups
  Log(limit, LogLevel::kInfo,
      refusal.empty() ? "a process group exchanges arrays by its devices"
                      : "a process group exchanges arrays through the host's memory",
      {{"group", group_},
       {refusal.empty() ? "ranks" : "reason",
        refusal.empty() ? absl::StrCat(calls.size()) : refusal}});
  return absl::OkStatus();
}

absl::StatusOr<ArrayPlace> DeviceExchange::Run(const std::vector<const CollectiveCall*>& calls,
                                               int self, const Tell* tell, GoesOn goes_on) {
  if (!decided_) CHX_RETURN_IF_ERROR(Decide(calls, self, tell, goes_on));
  if (communicator_ == nullptr) return decided_ ? ArrayPlace::kAlwaysHost : ArrayPlace::kMixed;
  const CollectiveCall* any = nullptr;
  for (const CollectiveCall* const call : calls) {
    if (call != nullptr) any = call;
  }
  if (!communicator_->Takes(*any)) return ArrayPlace::kMixed;
  absl::Status status = communicator_->Queue(calls, goes_on);
  if (status.ok() && across_) status = communicator_->Wait(calls, goes_on);
  if (status.ok()) return ArrayPlace::kDevices;
  Drop();  // which ends what is under way
  return status;
}

}  // namespace chx::server
