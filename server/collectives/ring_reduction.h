// Reductions over all daemons of a group, in a ring.
#ifndef CHX_SERVER_COLLECTIVES_RING_REDUCTION_H_
#define CHX_SERVER_COLLECTIVES_RING_REDUCTION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/collectives/mesh.h"

namespace chx::server {

// Each daemon sends to the next one only. The elements are cut into as many chunks as there are
// daemons. A chunk goes around once, while each daemon adds its own elements, and is whole at the
// last one; then it goes around as it is. Chunks go in segments: while one is reduced, others are
// on their way. A segment is reduced at one daemon after the other, so all get the same bits.
//
// Unlike Gloo's allreduce it needs no copy of the input first, and its memory is used again.
class RingReduction {
 public:
  // `count` elements of `item` bytes; `in` may be `out`.
  struct Part {
    const char* in = nullptr;
    char* out = nullptr;
    int64_t count = 0;
    int64_t item = 1;
    Mesh::Reduction add;
  };

  RingReduction(Mesh* mesh, int self, int size, std::chrono::milliseconds timeout);

  // One after the other. Empty, or what went wrong.
  std::string Run(const std::vector<Part>& parts);

 private:
  // Elements whose chunks go around together.
  struct Round {
    Part part;
    int64_t segments = 1;                               // of a chunk
    std::vector<std::unique_ptr<MeshTransfer>> whole;   // received by step and segment
    std::vector<std::unique_ptr<MeshTransfer>> others;  // that only have to end
  };
  struct Segment {
    int64_t count = 0;
    int64_t begin = 0;  // bytes
    int64_t bytes = 0;
  };
  struct Place {
    std::unique_ptr<char[]> memory;
    std::unique_ptr<MeshTransfer> receive;
    std::unique_ptr<MeshTransfer> send;  // of what was received and reduced there
  };

  // Segment i of a chunk.
  Segment At(const Round& round, int chunk, int64_t i) const;
  // That this daemon sends in a step; in the same step it receives that of the next step.
  int ChunkOf(int step) const { return ((self_ - step) % size_ + size_) % size_; }
  // Transfers to the next daemon, and from the one before.
  std::unique_ptr<MeshTransfer> Send(uint64_t slot, const char* elements, int64_t bytes);
  std::unique_ptr<MeshTransfer> Receive(uint64_t slot, char* elements, int64_t bytes);
  // These return what went wrong.
  std::string Begin(Round* round);
  std::string Reduce(Round* round);
  std::string Finish(Round* round);
  // Receives the segment of that number, in the order of steps and segments, at its place.
  std::string Expect(const Round& round, int64_t number);
  std::string Wait(std::unique_ptr<MeshTransfer> transfer);

  Mesh& mesh_;
  const int self_;
  const int size_;
  const std::chrono::milliseconds timeout_;
  std::vector<Place> places_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_RING_REDUCTION_H_
