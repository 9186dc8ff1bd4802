#include "server/collectives/peer_work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "server/collectives/reduction.h"

namespace chx::server {
namespace {

// Above those of PeerExchange. One for each block of a call, so that blocks do not wait in line.
constexpr uint64_t kBlockSlots = 1 << 8;
// Transfers that are under way at once, at most, but for those of one move.
constexpr size_t kMaxArrivals = 256;
// What one transfer has, as each has the timeout to itself.
constexpr int64_t kPiece = 16 << 20;
// What a reduction to one rank takes beside the arrays.
constexpr int64_t kScratchBytes = 4 << 20;

// Where the next array lies behind one of so many bytes.
int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

PeerWork::PeerWork(const std::vector<const CollectiveCall*>& calls, const GroupLayout& layout,
                   Mesh* mesh, RingReduction* ring, std::chrono::milliseconds timeout,
                   HostKernels kernels)
    : calls_(calls),
      layout_(layout),
      mesh_(*mesh),
      ring_(*ring),
      timeout_(timeout),
      kernels_(kernels),
      pattern_(*Own().op.pattern),
      root_(RootOf(Own().op, Own().attrs)),
      reduction_(ReductionOf(Own().op, Own().attrs)) {}

int64_t PeerWork::BlockBytes(size_t array) const {
  const KernelTensor& common = pattern_.by_output ? Own().outputs[array] : Own().inputs[array];
  const int64_t bytes = common.size() * ItemSize(common.dtype);
  return pattern_.has_rows ? bytes / layout_.num_ranks() : bytes;
}

char* PeerWork::In(size_t array, int rank, int64_t block) const {
  return calls_[rank]->inputs[array].data + block * BlockBytes(array);
}

char* PeerWork::Out(size_t array, int rank, int64_t block) const {
  return calls_[rank]->outputs[array].data + block * BlockBytes(array);
}

std::vector<char*> PeerWork::Destinations(size_t array, const CollectiveMove& move) const {
  std::vector<char*> destinations;
  for (const int rank : layout_.local_ranks()) {
    if (move.to != CollectiveMove::kEvery && move.to != rank) continue;
    destinations.push_back(Out(array, rank, move.to_block));
  }
  return destinations;
}

std::string PeerWork::Settle() {
  std::string failed;
  for (const Arrival& arrival : arrivals_) {
    std::string why;
    if (!arrival.transfer->Wait(timeout_, &why)) {
      failed = why.empty() ? "it was interrupted" : why;
      break;  // others may be waited for in vain, each for as long
    }
    for (char* copy : arrival.copies) std::memcpy(copy, arrival.data, arrival.bytes);
  }
  arrivals_.clear();
  return failed;
}

void PeerWork::Move(size_t array, int64_t number, const CollectiveMove& move) {
  const uint64_t slot = kBlockSlots + static_cast<uint64_t>(number);
  const std::vector<char*> here = Destinations(array, move);
  const int from = layout_.daemon_of[move.from];
  const bool own = from == layout_.self;
  if (!own && here.empty()) return;
  char* const source = own ? In(array, move.from, move.from_block) : nullptr;
  const int64_t block = BlockBytes(array);
  for (int64_t begin = 0; begin < block; begin += kPiece) {
    const auto bytes = static_cast<size_t>(std::min(kPiece, block - begin));
    if (!own) {
      Arrival arrival = {
          mesh_.Receive(from, slot, here[0] + begin, bytes), here[0] + begin, bytes, {}};
      for (size_t i = 1; i < here.size(); ++i) arrival.copies.push_back(here[i] + begin);
      arrivals_.push_back(std::move(arrival));
      continue;
    }
    for (char* destination : here) std::memcpy(destination + begin, source + begin, bytes);
    for (int daemon = 0; daemon < layout_.num_daemons(); ++daemon) {
      if (daemon == layout_.self) continue;
      if (move.to != CollectiveMove::kEvery && layout_.daemon_of[move.to] != daemon) continue;
      arrivals_.push_back({mesh_.Send(daemon, slot, source + begin, bytes), nullptr, bytes, {}});
    }
  }
}

void PeerWork::Note(const absl::Status& status) {
  if (status.ok() || !kernel_failed_.ok()) return;
  kernel_failed_ = status;
  mesh_.Abort();  // else others would take unfinished results for theirs
}

Mesh::Reduction PeerWork::Reduction(Dtype dtype) {
  return [this, dtype](void* out, const void* a, const void* b, size_t count) {
    // Kernels write to what they are given as the output only.
    char* const inputs[] = {static_cast<char*>(const_cast<void*>(a)),
                            static_cast<char*>(const_cast<void*>(b))};
    Note(ReduceElements(reduction_, dtype, static_cast<int64_t>(count), inputs,
                        static_cast<char*>(out), kernels_));
  };
}

const char* PeerWork::ReduceOwn(size_t array, const CollectiveMove& move, int64_t begin,
                                int64_t count, char* scratch) {
  const Dtype dtype = Own().inputs[array].dtype;
  absl::InlinedVector<char*, 16> inputs;
  for (const int rank : layout_.local_ranks()) {
    inputs.push_back(In(array, rank, move.from_block) + begin * ItemSize(dtype));
  }
  if (inputs.size() == 1) return inputs[0];
  Note(ReduceElements(reduction_, dtype, count, inputs, scratch, kernels_));
  return scratch;
}

void PeerWork::FinishToAll(size_t array, const std::vector<char*>& here) {
  const Dtype dtype = Own().inputs[array].dtype;
  const int64_t bytes = BlockBytes(array);
  Note(FinishReduction(reduction_, dtype, bytes / ItemSize(dtype), layout_.num_ranks(), here[0],
                       kernels_));
  for (size_t i = 1; i < here.size(); ++i) {
    std::memcpy(here[i], here[0], static_cast<size_t>(bytes));
  }
}

bool PeerWork::ReducesToAll() const {
  const int num_ranks = layout_.num_ranks();
  if (pattern_.count(num_ranks) != 1) return false;
  const CollectiveMove move = pattern_.move(0, num_ranks, root_);
  return move.from == CollectiveMove::kEvery && move.to == CollectiveMove::kEvery;
}

int64_t PeerWork::Give(char* elements, int64_t room) {
  if (!ReducesToAll()) return 0;
  const CollectiveMove move = pattern_.move(0, layout_.num_ranks(), root_);
  given_.assign(Own().inputs.size(), false);
  int64_t given = 0;
  for (size_t array = 0; array < given_.size(); ++array) {
    const int64_t bytes = BlockBytes(array);
    if (bytes > room - given) continue;
    given_[array] = true;
    char* const place = elements + given;
    const int64_t count = bytes / ItemSize(Own().inputs[array].dtype);
    const char* const own = ReduceOwn(array, move, 0, count, place);
    if (own != place && bytes > 0) std::memcpy(place, own, static_cast<size_t>(bytes));
    given = std::min(room, given + Aligned(bytes));
  }
  return given;
}

void PeerWork::Take(absl::FunctionRef<char*(int daemon)> elements) {
  absl::InlinedVector<char*, 16> inputs;
  for (int daemon = 0; daemon < layout_.num_daemons(); ++daemon) inputs.push_back(elements(daemon));
  for (size_t array = 0; array < given_.size(); ++array) {
    const int64_t bytes = BlockBytes(array);
    if (!given_[array] || bytes == 0) continue;
    const Dtype dtype = Own().inputs[array].dtype;
    const std::vector<char*> here = Destinations(array, {});
    Note(ReduceElements(reduction_, dtype, bytes / ItemSize(dtype), inputs, here[0], kernels_));
    FinishToAll(array, here);
    for (char*& input : inputs) input += Aligned(bytes);
  }
}

std::string PeerWork::ReduceToAll() {
  const CollectiveMove move = pattern_.move(0, layout_.num_ranks(), root_);
  std::vector<RingReduction::Part> parts;
  for (size_t array = 0; array < Own().inputs.size(); ++array) {
    if (given_[array] || BlockBytes(array) == 0) continue;
    const Dtype dtype = Own().inputs[array].dtype;
    RingReduction::Part part;
    part.out = Destinations(array, move)[0];
    part.item = ItemSize(dtype);
    part.count = BlockBytes(array) / part.item;
    part.in = ReduceOwn(array, move, 0, part.count, part.out);
    part.add = Reduction(dtype);
    parts.push_back(std::move(part));
  }
  std::string why = ring_.Run(parts);
  if (!why.empty()) return why;
  for (size_t array = 0; array < Own().inputs.size(); ++array) {
    if (!given_[array] && BlockBytes(array) > 0) FinishToAll(array, Destinations(array, move));
  }
  return "";
}

std::string PeerWork::ReduceToOne(size_t array, const CollectiveMove& move) {
  const Dtype dtype = Own().inputs[array].dtype;
  const int64_t item = ItemSize(dtype);
  const int64_t count = BlockBytes(array) / item;
  const int64_t part = std::min(count, kScratchBytes / item);
  const std::vector<char*> here = Destinations(array, move);
  std::unique_ptr<char[]> scratch;
  if (here.empty()) scratch.reset(new char[static_cast<size_t>(part * item)]);
  for (int64_t begin = 0; begin < count; begin += part) {
    const int64_t n = std::min(part, count - begin);
    char* const out = here.empty() ? scratch.get() : here[0] + begin * item;
    const char* const own = ReduceOwn(array, move, begin, n, out);
    std::string why = mesh_.Reduce(own, out, static_cast<size_t>(n), static_cast<size_t>(item),
                                   Reduction(dtype), layout_.daemon_of[move.to], timeout_);
    if (!why.empty()) return why;
    if (here.empty()) continue;
    Note(FinishReduction(reduction_, dtype, n, layout_.num_ranks(), out, kernels_));
  }
  return "";
}

std::string PeerWork::Run() {
  if (ReducesToAll()) return ReduceToAll();
  const size_t num_arrays = (pattern_.by_output ? Own().outputs : Own().inputs).size();
  const int64_t moves = pattern_.count(layout_.num_ranks());
  std::string why;
  for (size_t array = 0; array < num_arrays && why.empty(); ++array) {
    if (BlockBytes(array) == 0) continue;
    for (int64_t i = 0; i < moves && why.empty(); ++i) {
      const CollectiveMove move = pattern_.move(i, layout_.num_ranks(), root_);
      if (move.from != CollectiveMove::kEvery) {
        Move(array, i, move);
      } else {
        why = ReduceToOne(array, move);
      }
      // By numbers of moves, so that all daemons wait for the same ones.
      if (why.empty() && (i + 1) % kMaxArrivals == 0) why = Settle();
    }
    if (why.empty()) why = Settle();
  }
  return why;
}

}  // namespace chx::server
