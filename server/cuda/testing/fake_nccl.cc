#include "server/cuda/testing/fake_nccl.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "server/cuda/vendor/nccl_api.h"

using namespace chx::server::cuda::nccl;  // NOLINT(google-build-using-namespace)

namespace {

constexpr auto kInvalidArgument = static_cast<Result>(4);
constexpr auto kInvalidUsage = static_cast<Result>(5);
constexpr auto kRemoteError = static_cast<Result>(6);

chx::server::cuda::FakeNccl fake;
std::mutex mutex;  // of all that follows

enum class Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kRecv };

// One call of a rank.
struct Part {
  Kind kind;
  const char* in;
  char* out;
  size_t count;
  DataType type;
  RedOp op;
  int root;  // or the other rank
};
using Batch = std::vector<Part>;  // of one group of calls

struct Clique;

// State that a Comm points to.
struct Member {
  Clique* clique;
  int rank;
  std::deque<Batch> queued;
  Result error = kSuccess;
};

struct Clique {
  std::vector<Member*> members;  // by rank; null: it has not come, or is gone
  bool complete = false;
  bool failed = false;  // at a rank, which others learn
};

std::map<std::string, Clique>& Cliques() {
  static auto* const cliques = new std::map<std::string, Clique>;
  return *cliques;
}

// Of a thread: how deep it is in groups, and what it has called there.
thread_local int depth = 0;
thread_local std::map<Member*, Batch>* called = nullptr;

Member* From(Comm comm) { return reinterpret_cast<Member*>(comm); }

size_t ItemSize(DataType type) {
  switch (type) {
    case kInt8:
    case kUint8:
      return 1;
    case kFloat16:
    case kBfloat16:
      return 2;
    case kInt32:
    case kFloat32:
      return 4;
    case kInt64:
    case kFloat64:
      break;
  }
  return 8;
}

// A bfloat16 is the upper half of a float, rounded to even.
struct Bfloat16 {
  uint16_t bits;

  explicit Bfloat16(float value) {
    uint32_t all = 0;
    std::memcpy(&all, &value, sizeof(all));
    bits = static_cast<uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const uint32_t all = uint32_t{bits} << 16;
    float value = 0;
    std::memcpy(&value, &all, sizeof(value));
    return value;
  }
};

// `Wide`: what T is computed in.
template <typename T, typename Wide>
void ReduceAs(const std::vector<const char*>& inputs, size_t count, RedOp op, char* out) {
  for (size_t i = 0; i < count; ++i) {
    const auto value = [&](size_t rank) {
      return static_cast<Wide>(reinterpret_cast<const T*>(inputs[rank])[i]);
    };
    Wide sum = value(0);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      const Wide next = value(rank);
      if (op == kProd) {
        sum = static_cast<Wide>(sum * next);
      } else if (op == kMax) {
        sum = std::max(sum, next);
      } else if (op == kMin) {
        sum = std::min(sum, next);
      } else {
        sum = static_cast<Wide>(sum + next);
      }
      sum = static_cast<Wide>(static_cast<T>(sum));
    }
    if (op == kAvg) sum = static_cast<Wide>(sum / static_cast<Wide>(inputs.size()));
    reinterpret_cast<T*>(out)[i] = static_cast<T>(sum);
  }
}

bool ReduceInto(const std::vector<const char*>& inputs, size_t count, DataType type, RedOp op,
                char* out) {
  switch (type) {
    case kInt8:
      ReduceAs<int8_t, int8_t>(inputs, count, op, out);
      return true;
    case kUint8:
      ReduceAs<uint8_t, uint8_t>(inputs, count, op, out);
      return true;
    case kInt32:
      ReduceAs<int32_t, int32_t>(inputs, count, op, out);
      return true;
    case kInt64:
      ReduceAs<int64_t, int64_t>(inputs, count, op, out);
      return true;
    case kFloat32:
      ReduceAs<float, float>(inputs, count, op, out);
      return true;
    case kFloat64:
      ReduceAs<double, double>(inputs, count, op, out);
      return true;
    case kBfloat16:
      ReduceAs<Bfloat16, float>(inputs, count, op, out);
      return true;
    case kFloat16:
      break;
  }
  return false;  // nobody needs it here
}

bool IsMessage(const Part& part) { return part.kind == Kind::kSend || part.kind == Kind::kRecv; }

// A collective of all ranks, in whose parts only the pointers differ.
bool RunCollective(const std::vector<const Part*>& parts) {
  const Part& one = *parts[0];
  const size_t bytes = one.count * ItemSize(one.type);
  for (const Part* part : parts) {
    if (part->kind != one.kind || part->count != one.count || part->type != one.type ||
        part->op != one.op || part->root != one.root) {
      return false;
    }
  }
  const bool rows = one.kind == Kind::kReduceScatter;
  // Results may lie where the inputs are.
  std::vector<std::vector<char>> copies;
  copies.reserve(parts.size());
  for (const Part* part : parts) {
    copies.emplace_back(part->in, part->in + bytes * (rows ? parts.size() : 1));
  }
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    char* const out = parts[rank]->out;
    if (one.kind == Kind::kBroadcast) {
      std::memcpy(out, copies[static_cast<size_t>(one.root)].data(), bytes);
      continue;
    }
    if (one.kind == Kind::kAllGather) {
      for (size_t i = 0; i < parts.size(); ++i)
        std::memcpy(out + i * bytes, copies[i].data(), bytes);
      continue;
    }
    if (one.kind == Kind::kReduce && static_cast<int>(rank) != one.root) continue;
    std::vector<const char*> inputs;
    inputs.reserve(parts.size());
    for (const auto& copy : copies) inputs.push_back(copy.data() + (rows ? rank * bytes : 0));
    if (!ReduceInto(inputs, one.count, one.type, one.op, out)) return false;
  }
  return true;
}

// Sends and receives between two ranks go together in their order.
bool RunMessages(const std::vector<Batch>& batches) {
  std::map<std::pair<int, int>, std::deque<const Part*>> sends;  // from, to
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    for (const Part& part : batches[rank]) {
      if (part.kind == Kind::kSend) sends[{static_cast<int>(rank), part.root}].push_back(&part);
    }
  }
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    for (const Part& part : batches[rank]) {
      if (part.kind != Kind::kRecv) continue;
      std::deque<const Part*>& from = sends[{part.root, static_cast<int>(rank)}];
      if (from.empty() || from.front()->count != part.count) return false;
      std::memcpy(part.out, from.front()->in, part.count * ItemSize(part.type));
      from.pop_front();
    }
  }
  return std::all_of(sends.begin(), sends.end(),
                     [](const auto& left) { return left.second.empty(); });
}

bool RunBatches(const std::vector<Batch>& batches) {
  std::vector<std::vector<const Part*>> collectives(batches.size());  // by rank
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    for (const Part& part : batches[rank]) {
      if (!IsMessage(part)) collectives[rank].push_back(&part);
    }
    if (collectives[rank].size() != collectives[0].size()) return false;
  }
  for (size_t i = 0; i < collectives[0].size(); ++i) {
    std::vector<const Part*> parts;
    parts.reserve(collectives.size());
    for (const auto& of_rank : collectives) parts.push_back(of_rank[i]);
    if (!RunCollective(parts)) return false;
  }
  return RunMessages(batches);
}

// Does what all ranks have queued.
void Advance(Clique* clique) {
  auto& members = clique->members;
  const auto has_queued = [](const Member* member) {
    return member != nullptr && !member->queued.empty();
  };
  while (!fake.stalls && std::all_of(members.begin(), members.end(), has_queued)) {
    std::vector<Batch> batches;
    for (Member* member : members) {
      batches.push_back(std::move(member->queued.front()));
      member->queued.pop_front();
    }
    const bool done = RunBatches(batches);
    for (Member* member : members) {
      if (!done) member->error = kInvalidUsage;
      ++fake.parts;
    }
  }
}

Result Call(Comm comm, const Part& part) {
  if (depth == 0 || comm == nullptr) return kInvalidUsage;
  const int failed = fake.next_collective.exchange(0);
  if (failed != 0) return static_cast<Result>(failed);
  (*called)[From(comm)].push_back(part);
  return kSuccess;
}

Result Remove(Comm comm, bool failed) {
  const std::lock_guard<std::mutex> lock(mutex);
  Member* const member = From(comm);
  member->clique->failed = member->clique->failed || failed;
  member->clique->members[member->rank] = nullptr;
  delete member;
  --fake.communicators;
  return kSuccess;
}

}  // namespace

extern "C" {

chx::server::cuda::FakeNccl* ChxFakeNccl() { return &fake; }

Result ncclGetVersion(int* version) {
  *version = kLeastVersion;
  return kSuccess;
}
Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> number{0};
  *id = {};
  const int own = ++number;
  std::memcpy(id->internal, &own, sizeof(own));
  return kSuccess;
}
const char* ncclGetErrorString(Result) { return "a fake result"; }

Result ncclGroupStart() {
  if (++depth == 1) called = new std::map<Member*, Batch>;
  return kSuccess;
}
Result ncclGroupEnd() {
  if (depth == 0) return kInvalidUsage;
  if (--depth > 0) return kSuccess;
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto& [member, batch] : *called) {
    member->queued.push_back(std::move(batch));
    Advance(member->clique);
  }
  delete called;
  return kInProgress;
}

Result ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  if (depth == 0 || config->magic != Config().magic || config->size != sizeof(Config) ||
      config->version != kLeastVersion || config->blocking != 0) {
    return kInvalidArgument;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  Clique& clique = Cliques()[std::string(id.internal, sizeof(id.internal))];
  const int failed = fake.next_init.exchange(0);
  if (failed != 0) {
    clique.failed = true;
    return static_cast<Result>(failed);
  }
  clique.members.resize(static_cast<size_t>(size));
  if (clique.members[rank] != nullptr) return kInvalidUsage;
  auto* const member = new Member{&clique, rank, {}};
  clique.members[rank] = member;
  clique.complete = std::all_of(clique.members.begin(), clique.members.end(),
                                [](const Member* other) { return other != nullptr; });
  *comm = reinterpret_cast<Comm>(member);
  ++fake.communicators;
  return kSuccess;
}
Result ncclCommDestroy(Comm comm) {
  ++fake.destroyed;
  return Remove(comm, false);
}
Result ncclCommAbort(Comm comm) {
  ++fake.aborted;
  return Remove(comm, true);
}
Result ncclCommGetAsyncError(Comm comm, Result* error) {
  const std::lock_guard<std::mutex> lock(mutex);
  const Member& member = *From(comm);
  const bool busy = fake.stalls || !member.clique->complete || !member.queued.empty();
  *error = member.clique->failed ? kRemoteError : busy ? kInProgress : member.error;
  return kSuccess;
}

Result ncclAllReduce(const void* in, void* out, size_t count, DataType type, RedOp op, Comm comm,
                     void*) {
  return Call(comm, {Kind::kAllReduce, static_cast<const char*>(in), static_cast<char*>(out), count,
                     type, op, 0});
}
Result ncclReduce(const void* in, void* out, size_t count, DataType type, RedOp op, int root,
                  Comm comm, void*) {
  return Call(comm, {Kind::kReduce, static_cast<const char*>(in), static_cast<char*>(out), count,
                     type, op, root});
}
Result ncclBroadcast(const void* in, void* out, size_t count, DataType type, int root, Comm comm,
                     void*) {
  return Call(comm, {Kind::kBroadcast, static_cast<const char*>(in), static_cast<char*>(out), count,
                     type, kSum, root});
}
Result ncclAllGather(const void* in, void* out, size_t count, DataType type, Comm comm, void*) {
  return Call(comm, {Kind::kAllGather, static_cast<const char*>(in), static_cast<char*>(out), count,
                     type, kSum, 0});
}
Result ncclReduceScatter(const void* in, void* out, size_t count, DataType type, RedOp op,
                         Comm comm, void*) {
  return Call(comm, {Kind::kReduceScatter, static_cast<const char*>(in), static_cast<char*>(out),
                     count, type, op, 0});
}
Result ncclSend(const void* in, size_t count, DataType type, int peer, Comm comm, void*) {
  return Call(comm, {Kind::kSend, static_cast<const char*>(in), nullptr, count, type, kSum, peer});
}
Result ncclRecv(void* out, size_t count, DataType type, int peer, Comm comm, void*) {
  return Call(comm, {Kind::kRecv, nullptr, static_cast<char*>(out), count, type, kSum, peer});
}

}  // extern "C"
