// A daemon's connections to other daemons of its operator's.
#ifndef CHX_SERVER_PEERS_PEER_NETWORK_H_
#define CHX_SERVER_PEERS_PEER_NETWORK_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/owned_fd.h"
#include "server/peers/encrypted_links.h"
#include "server/peers/handshake.h"
#include "server/peers/peer_options.h"

namespace chx::server {

// Listens on one port, for connections about groups and for those of groups. Whoever comes has a
// few seconds for the handshake, on a thread of its own, and a bounded number may be at it.
// Thread-safe.
class PeerNetwork {
 public:
  // `serve` has the connections about groups, each on its thread, until it returns; to be told by
  // Stop's shutting the socket down.
  using Serve = std::function<void(int socket)>;
  // The connection from that position of a group.
  using Take = std::function<void(int from, OwnedFd socket)>;

  static absl::StatusOr<std::unique_ptr<PeerNetwork>> Start(PeerOptions options, Serve serve);
  ~PeerNetwork() { Stop(); }
  PeerNetwork(const PeerNetwork&) = delete;
  PeerNetwork& operator=(const PeerNetwork&) = delete;

  const std::string& address() const { return options_.address; }
  // An error unless groups may meet there: a client may name no other place.
  absl::Status CheckMeetingPlace(const std::string& address) const;

  // A connection about groups.
  absl::StatusOr<OwnedFd> ConnectAboutGroups(const std::string& address, Deadline deadline);
  // One of a group with that key.
  absl::StatusOr<OwnedFd> ConnectInGroup(const std::string& address, const PeerPurpose& purpose,
                                         const std::string& key, Deadline deadline);
  // Of these daemons, by position, those that do not answer: that are not there, or say nothing to
  // who connects, as they are stopped. Of many that are silent some. Within twice the patience,
  // also where names are not found; at once if all answer.
  std::vector<size_t> FindSilent(const std::vector<std::string>& addresses,
                                 std::chrono::milliseconds patience);
  // From now on until ForgetGroup connections of the group are let in, each position once.
  void ExpectGroup(const GroupNumber& group, const std::string& key, Take take);
  // `take` is not called any more.
  void ForgetGroup(const GroupNumber& group);

  // Ends all connections about groups, and waits for their threads; nobody connects any more. Those
  // of groups are theirs; without their encryption, which ends with this object.
  void Stop();
  bool stopped() const;

 private:
  struct Expected {
    std::string key;
    Take take;
    std::vector<int> come;
  };
  struct Look;  // for silent daemons

  explicit PeerNetwork(PeerOptions options, Serve serve)
      : options_(std::move(options)),
        serve_(std::move(serve)),
        encryption_(options_.encrypted ? std::make_unique<EncryptedLinks>() : nullptr) {}
  absl::Status Listen();
  void Accept();
  void Attend(OwnedFd socket);
  // One thread's part.
  void LookAround(Look* look);
  bool IsSilent(const std::string& address, Deadline deadline);
  // Lets the other side in: the socket is then that for what is not encrypted.
  absl::StatusOr<PeerPurpose> Greet(OwnedFd* socket);
  // Calls fn() with the socket among those that Stop shuts down, unless it has.
  void UnlessStopped(int socket, absl::FunctionRef<void()> fn);
  // False: it has stopped before.
  bool Pause(Deadline until);
  void ShutDownNoMore(int socket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where what is not encrypted is read and written; the socket itself if nothing is.
  absl::StatusOr<OwnedFd> PlainEnd(OwnedFd socket, EncryptedLinks::Side side,
                                   const Proved& proved) const;
  // Waits a little for a group that others know already.
  absl::StatusOr<std::string> KeyOf(const PeerPurpose& purpose, Deadline deadline);
  void Give(const PeerPurpose& purpose, OwnedFd socket);

  PeerOptions options_;
  const Serve serve_;
  const std::unique_ptr<EncryptedLinks> encryption_;  // null: there is none
  OwnedFd listener_;
  OwnedFd stop_reading_, stop_writing_;  // a pipe: its end ends the thread
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  size_t threads_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t greeting_ ABSL_GUARDED_BY(mutex_) = 0;    // of them, in the handshake
  std::vector<int> open_ ABSL_GUARDED_BY(mutex_);  // their sockets
  std::map<GroupNumber, Expected> expected_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_PEERS_PEER_NETWORK_H_
