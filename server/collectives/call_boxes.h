// What the daemons of a group tell each other at the beginning of a collective.
#ifndef CHX_SERVER_COLLECTIVES_CALL_BOXES_H_
#define CHX_SERVER_COLLECTIVES_CALL_BOXES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "server/collectives/group_layout.h"
#include "server/collectives/mesh.h"

namespace chx::server {

// Where a daemon's ranks have their arrays.
enum class ArrayPlace : uint32_t {
  kHost,        // all in the host's memory
  kDevices,     // all on devices that may exchange them
  kMixed,       // some here, some there
  kAlwaysHost,  // as kHost, and that will be so
};

// Which call it is: a hash that nobody can find a second call for, as calls that differ would write
// beyond each other's arrays.
struct CallHeader {
  uint8_t key[32] = {};
  uint32_t failure_kind = 0;  // and 1; 0: none
  uint32_t bytes = 0;         // of elements that follow
  ArrayPlace place = ArrayPlace::kHost;

  bool SameCall(const CallHeader& other) const {
    return std::equal(std::begin(key), std::end(key), std::begin(other.key));
  }
};

// A message from each daemon to each other one: a header, and the elements of the call where these
// are few, so that it needs no second message. Receives begin a call ahead, as the transport sends
// at once only to who waits already. Used by one thread at a time.
class CallBoxes {
 public:
  using Transfers = std::vector<std::unique_ptr<MeshTransfer>>;

  CallBoxes(const GroupLayout& layout, Mesh* mesh);

  // The boxes are those of the next call from now on.
  void Turn() { current_ = 1 - current_; }
  // Of another daemon when they are received; this daemon's are for it to fill before Send.
  char* elements(int daemon);  // `room` bytes, aligned for any kernel
  int64_t room() const { return room_; }
  // Of this daemon, with header.bytes of its elements, to each other one.
  Transfers Send(const CallHeader& header);
  // This daemon's own, too.
  CallHeader header(int daemon) const;
  // Which fill the others' boxes; null for this daemon.
  Transfers TakeReceives() { return std::move(receives_); }
  // When these are done: into the boxes that are not those of this call.
  void ReceiveNext() { Receive(1 - current_); }

 private:
  char* BoxOf(int set, int daemon) const;
  void Receive(int set);

  const GroupLayout& layout_;
  Mesh& mesh_;
  const int64_t room_;
  std::vector<std::unique_ptr<char[]>> memory_;  // two sets, by daemon
  Transfers receives_;
  int current_ = 1;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_CALL_BOXES_H_
