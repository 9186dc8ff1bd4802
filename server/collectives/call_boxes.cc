#include "server/collectives/call_boxes.h"

#include <cstring>

namespace chx::server {
namespace {

// The first slot; those of PeerWork are above.
constexpr uint64_t kSlot = 1;
// Of all daemons together, and of each.
constexpr int64_t kMaxRoom = 256 << 10;
constexpr int64_t kMaxRoomOfOne = 64 << 10;
// The elements lie behind the header, both aligned.
constexpr int64_t kAlignment = 64;
static_assert(sizeof(CallHeader) <= kAlignment, "the elements lie behind the header");

}  // namespace

CallBoxes::CallBoxes(const GroupLayout& layout, Mesh* mesh)
    : layout_(layout),
      mesh_(*mesh),
      room_(std::min(kMaxRoomOfOne, kMaxRoom / layout.num_daemons())) {
  for (int i = 0; i < 2 * layout_.num_daemons(); ++i) {
    memory_.emplace_back(new char[static_cast<size_t>(2 * kAlignment + room_)]);
  }
  Receive(0);
}

char* CallBoxes::BoxOf(int set, int daemon) const {
  char* const memory = memory_[static_cast<size_t>(set * layout_.num_daemons() + daemon)].get();
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return memory + (kAlignment - address % kAlignment) % kAlignment;
}

char* CallBoxes::elements(int daemon) { return BoxOf(current_, daemon) + kAlignment; }

CallHeader CallBoxes::header(int daemon) const {
  CallHeader header;
  std::memcpy(&header, BoxOf(current_, daemon), sizeof(header));
  return header;
}

CallBoxes::Transfers CallBoxes::Send(const CallHeader& header) {
  char* const own = BoxOf(current_, layout_.self);
  std::memcpy(own, &header, sizeof(header));
  Transfers sends;
  for (int i = 1; i < layout_.num_daemons(); ++i) {
    // Not all to the same one first.
    const int daemon = (layout_.self + i) % layout_.num_daemons();
    sends.push_back(mesh_.Send(daemon, kSlot, own, static_cast<size_t>(kAlignment + header.bytes)));
  }
  return sends;
}

void CallBoxes::Receive(int set) {
  receives_.resize(static_cast<size_t>(layout_.num_daemons()));
  for (int daemon = 0; daemon < layout_.num_daemons(); ++daemon) {
    if (daemon == layout_.self) continue;
    receives_[static_cast<size_t>(daemon)] =
        mesh_.Receive(daemon, kSlot, BoxOf(set, daemon), static_cast<size_t>(kAlignment + room_));
  }
}

}  // namespace chx::server
