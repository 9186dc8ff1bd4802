// Collectives of ranks whose devices exchange their arrays by themselves.
#ifndef CHX_SERVER_COLLECTIVES_DEVICE_EXCHANGE_H_
#define CHX_SERVER_COLLECTIVES_DEVICE_EXCHANGE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/collectives/call_boxes.h"
#include "server/engine/backend.h"
#include "server/engine/collectives.h"
#include "server/engine/communicator.h"

namespace chx::server {

// Of one group. Whether there is a communicator is decided once, by the first call in which each
// rank has its arrays on a device of its own, and by all daemons together. Used by one thread at a
// time: that of the last rank to come, while the others wait.
class DeviceExchange {
 public:
  // Of all groups, at most: a communicator has memory of each device that is no session's, and its
  // kernels, which wait for those on other devices, take room there.
  static constexpr int kMostCommunicators = 8;

  explicit DeviceExchange(std::string group) : group_(std::move(group)) {}
  ~DeviceExchange() { Drop(); }
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  // Of the calls' arrays: kDevices only if each rank has its own, and that of the communicator,
  // where there is one already. `calls`: by rank; null: it is elsewhere.
  ArrayPlace PlaceOf(const std::vector<const CollectiveCall*>& calls) const;

  // Lets the devices do what all ranks have come to, whose calls agree and are on devices. Returns
  // kDevices when that is queued, or, with other daemons, done; else nothing was done, and the
  // arrays have to pass through the host's memory. An error: the ranks are out of step.
  //
  // `tell`: null: all ranks are here; else as PeerExchange::Tell of daemon number `self`.
  using Tell =
      absl::FunctionRef<std::string(const std::string& own, std::vector<std::string>* all)>;
  absl::StatusOr<ArrayPlace> Run(const std::vector<const CollectiveCall*>& calls, int self,
                                 const Tell* tell, GoesOn goes_on);

 private:
  struct Offer;

  // The outcome is the same at all daemons, but an error, which breaks the group.
  absl::Status Decide(const std::vector<const CollectiveCall*>& calls, int self, const Tell* tell,
                      GoesOn goes_on);
  Offer OfferOf(const std::vector<const CollectiveCall*>& calls) const;
  static absl::StatusOr<std::vector<std::string>> Ask(const Tell* tell, std::string own);
  absl::Status Connect(const std::vector<const CollectiveCall*>& calls, const std::string& id,
                       GoesOn goes_on);
  void Drop();

  const std::string group_;
  bool decided_ = false;
  bool across_ = false;                 // daemons
  std::vector<const Device*> devices_;  // by rank; null: it is elsewhere
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_DEVICE_EXCHANGE_H_
