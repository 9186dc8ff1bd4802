#include "server/collectives/ring_reduction.h"

#include <algorithm>
#include <utility>

namespace chx::server {
namespace {

// Above those of PeerExchange: one for each step of a chunk that is reduced, then one for each step
// of a whole one.
constexpr uint64_t kFirstSlot = 1 << 8;
// Bytes: small enough to be on their way while others are reduced, large enough for few messages.
constexpr int64_t kMinSegment = 512 << 10;
constexpr int64_t kMaxSegment = 1 << 20;
constexpr int64_t kMaxItem = 8;
// Of one chunk, at most.
constexpr int64_t kSegments = 4;

}  // namespace

RingReduction::RingReduction(Mesh* mesh, int self, int size, std::chrono::milliseconds timeout)
    : mesh_(*mesh), self_(self), size_(size), timeout_(timeout) {}

RingReduction::Segment RingReduction::At(const Round& round, int chunk, int64_t i) const {
  const int64_t parts = size_ * round.segments;
  const int64_t n = chunk * round.segments + i;
  const int64_t longer = round.part.count % parts;  // parts by one element
  const int64_t count = round.part.count / parts;
  Segment segment;
  segment.count = count + (n < longer ? 1 : 0);
  segment.begin = (count * n + std::min(longer, n)) * round.part.item;
  segment.bytes = segment.count * round.part.item;
  return segment;
}

std::string RingReduction::Wait(std::unique_ptr<MeshTransfer> transfer) {
  std::string why;
  if (transfer == nullptr || transfer->Wait(timeout_, &why)) return "";
  return why.empty() ? "it was interrupted" : why;
}

std::unique_ptr<MeshTransfer> RingReduction::Send(uint64_t slot, const char* elements,
                                                  int64_t bytes) {
  return mesh_.Send((self_ + 1) % size_, kFirstSlot + slot, elements, static_cast<size_t>(bytes));
}

std::unique_ptr<MeshTransfer> RingReduction::Receive(uint64_t slot, char* elements, int64_t bytes) {
  return mesh_.Receive((self_ + size_ - 1) % size_, kFirstSlot + slot, elements,
                       static_cast<size_t>(bytes));
}

std::string RingReduction::Expect(const Round& round, int64_t number) {
  if (number >= (size_ - 1) * round.segments) return "";
  Place& place = places_[static_cast<size_t>(number) % places_.size()];
  std::string why = Wait(std::move(place.send));
  if (!why.empty()) return why;
  const auto step = static_cast<int>(number / round.segments);
  const Segment segment = At(round, ChunkOf(step + 1), number % round.segments);
  if (place.memory == nullptr) place.memory.reset(new char[kMaxSegment + kMaxItem]);
  place.receive = Receive(static_cast<uint64_t>(step), place.memory.get(), segment.bytes);
  return "";
}

// Where `in` is `out`, nothing is written over what is still to be read: what comes of another
// daemon's has this daemon's elements in it already.
std::string RingReduction::Begin(Round* round) {
  const Part& part = round->part;
  const int64_t chunk_bytes = (part.count + size_ - 1) / size_ * part.item;
  round->segments = std::min(kSegments, std::max<int64_t>(1, chunk_bytes / kMinSegment));
  // More than a chunk has: else each daemon might wait for room at the next one.
  const int64_t all = (size_ - 1) * round->segments;
  const auto places = static_cast<size_t>(std::min(round->segments + 2, all));
  if (places_.size() < places) places_.resize(places);
  const int64_t ahead = std::min(all, static_cast<int64_t>(places_.size()));
  std::string why;
  for (int64_t number = 0; number < ahead && why.empty(); ++number) why = Expect(*round, number);
  for (int64_t i = 0; i < round->segments; ++i) {
    const Segment segment = At(*round, self_, i);
    round->others.push_back(Send(0, part.in + segment.begin, segment.bytes));
  }
  for (int step = 0; step < size_ - 1; ++step) {
    for (int64_t i = 0; i < round->segments; ++i) {
      const Segment segment = At(*round, ChunkOf(step), i);
      round->whole.push_back(
          Receive(static_cast<uint64_t>(size_ + step), part.out + segment.begin, segment.bytes));
    }
  }
  return why;
}

std::string RingReduction::Reduce(Round* round) {
  std::string why;
  const Part& part = round->part;
  const auto ahead = static_cast<int64_t>(places_.size());
  for (int64_t number = 0; number < (size_ - 1) * round->segments; ++number) {
    Place& place = places_[static_cast<size_t>(number % ahead)];
    why = Wait(std::move(place.receive));
    if (!why.empty()) return why;
    const auto step = static_cast<int>(number / round->segments);
    const Segment segment = At(*round, ChunkOf(step + 1), number % round->segments);
    const bool last = step + 1 == size_ - 1;
    char* const received = place.memory.get();
    char* const out = last ? part.out + segment.begin : received;
    part.add(out, received, part.in + segment.begin, static_cast<size_t>(segment.count));
    if (last) {
      round->others.push_back(Send(static_cast<uint64_t>(size_), out, segment.bytes));
    } else {
      place.send = Send(static_cast<uint64_t>(step + 1), out, segment.bytes);
    }
    why = Expect(*round, number + ahead);
    if (!why.empty()) return why;
  }
  return why;
}

std::string RingReduction::Finish(Round* round) {
  std::string why;
  for (size_t i = 0; i < round->whole.size(); ++i) {
    why = Wait(std::move(round->whole[i]));
    if (!why.empty()) return why;
    const auto number = static_cast<int64_t>(i);
    const auto step = static_cast<int>(number / round->segments);
    if (step + 1 == size_ - 1) continue;  // it has been everywhere
    const Segment segment = At(*round, ChunkOf(step), number % round->segments);
    round->others.push_back(Send(static_cast<uint64_t>(size_ + step + 1),
                                 round->part.out + segment.begin, segment.bytes));
  }
  for (auto& transfer : round->others) {
    why = Wait(std::move(transfer));
    if (!why.empty()) return why;
  }
  return why;
}

std::string RingReduction::Run(const std::vector<Part>& parts) {
  std::string why;
  std::unique_ptr<Round> round;
  for (const Part& part : parts) {
    const int64_t most = size_ * kSegments * kMaxSegment / part.item;
    for (int64_t begin = 0; begin < part.count && why.empty(); begin += most) {
      auto next = std::make_unique<Round>();
      next->part = part;
      next->part.in += begin * part.item;
      next->part.out += begin * part.item;
      next->part.count = std::min(most, part.count - begin);
      why = Begin(next.get());  // its chunks are on their way while the last ones' end
      if (why.empty() && round != nullptr) why = Finish(round.get());
      if (why.empty()) why = Reduce(next.get());
      round = std::move(next);
    }
  }
  if (why.empty() && round != nullptr) why = Finish(round.get());
  for (Place& place : places_) {
    if (why.empty()) why = Wait(std::move(place.send));
  }
  return why;
}

}  // namespace chx::server
