#include "server/cuda/vendor/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "absl/types/optional.h"
#include "ops/collective.h"
#include "ops/error.h"

namespace chx::server::cuda {
namespace {

constexpr auto kLook = std::chrono::microseconds(50);
constexpr auto kPatience = std::chrono::seconds(5);
// Blocks of a kernel: kernels of several groups, which wait for those on other GPUs, find room on a
// GPU beside each other (DeviceExchange::kMostCommunicators). And memory is by their number.
constexpr int kMostBlocks = 16;

// Of a reduction; none: NCCL has no such type.
absl::optional<nccl::DataType> TypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kUint8:
      return nccl::kUint8;
    case Dtype::kInt8:
      return nccl::kInt8;
    case Dtype::kInt32:
      return nccl::kInt32;
    case Dtype::kInt64:
      return nccl::kInt64;
    case Dtype::kFloat16:
      return nccl::kFloat16;
    case Dtype::kFloat32:
      return nccl::kFloat32;
    case Dtype::kFloat64:
      return nccl::kFloat64;
    case Dtype::kBfloat16:
      return nccl::kBfloat16;
    case Dtype::kInt16:
      break;
  }
  return absl::nullopt;
}

nccl::RedOp OpOf(GroupReduction reduction) {
  switch (reduction) {
    case GroupReduction::kSum:
      return nccl::kSum;
    case GroupReduction::kMean:
      return nccl::kAvg;
    case GroupReduction::kMax:
      return nccl::kMax;
    case GroupReduction::kMin:
      return nccl::kMin;
    case GroupReduction::kProd:
      break;
  }
  return nccl::kProd;
}

CollectiveMove FirstMove(const CollectiveCall& call, int size) {
  return call.op.pattern->move(0, size, RootOf(call.op, call.attrs));
}

absl::Span<const KernelTensor> CommonTensors(const CollectiveCall& call) {
  return call.op.pattern->by_output ? call.outputs : call.inputs;
}

KernelStream& StreamOfRank(Stream* stream) { return static_cast<KernelStream&>(*stream); }

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::New(
    absl::string_view id, int size, absl::Span<const DeviceRank> ranks, GoesOn goes_on) {
  CHX_ASSIGN_OR_RETURN(const NcclLibrary* const library, OpenNccl());
  std::unique_ptr<NcclCommunicator> communicator(new NcclCommunicator(library, size));
  CHX_RETURN_IF_ERROR(communicator->Init(id, ranks, goes_on));
  return std::unique_ptr<Communicator>(std::move(communicator));
}

absl::Status NcclCommunicator::Init(absl::string_view id, absl::Span<const DeviceRank> ranks,
                                    GoesOn goes_on) {
  nccl::UniqueId unique;
  if (id.size() != sizeof(unique.internal)) {
    return ValueError("cuda: an id of NCCL has ", sizeof(unique.internal), " bytes, got ",
                      id.size());
  }
  id.copy(unique.internal, id.size());
  nccl::Config config;
  config.blocking = 0;
  config.max_ctas = kMostBlocks;
  members_.resize(ranks.size());
  aborts_ = true;  // unless all goes well
  CHX_RETURN_IF_ERROR(Check("ncclGroupStart", library_.GroupStart()));
  nccl::Result result = nccl::kSuccess;
  for (size_t i = 0; i < ranks.size(); ++i) {
    members_[i].rank = ranks[i].rank;
    members_[i].device = &ranks[i].stream->device();
    StreamOfRank(ranks[i].stream).handle();  // makes the device current
    const nccl::Result begun =
        library_.CommInitRankConfig(&members_[i].comm, size_, unique, members_[i].rank, &config);
    if (result == nccl::kSuccess && begun != nccl::kInProgress) result = begun;
  }
  const nccl::Result ended = library_.GroupEnd();
  if (result == nccl::kSuccess) result = ended;
  CHX_RETURN_IF_ERROR(Await("ncclCommInitRankConfig", result, goes_on));
  aborts_ = false;
  return absl::OkStatus();
}

NcclCommunicator::~NcclCommunicator() {
  if (aborts_) AwaitEnds();
  for (const Member& member : members_) {
    // A lost device's calls are undefined, also those that destroy.
    if (member.comm == nullptr || member.device->health().lost()) continue;
    if (aborts_) {
      library_.CommAbort(member.comm);
    } else {
      library_.CommDestroy(member.comm);
    }
  }
}

// To abort ends what was queued before, too, whose results are the ranks' already. It ends by
// itself, as it was queued for all of them.
void NcclCommunicator::AwaitEnds() const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (const Member& member : members_) {
    while (member.ended != nullptr && !member.ended->IsReached() &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kLook);
    }
  }
}

absl::Status NcclCommunicator::Check(const char* what, nccl::Result result) const {
  if (result == nccl::kSuccess) return absl::OkStatus();
  return DeviceError("cuda: ", what, ": ", library_.GetErrorString(result));
}

absl::Status NcclCommunicator::Await(const char* what, nccl::Result result, GoesOn goes_on) const {
  if (result != nccl::kInProgress) CHX_RETURN_IF_ERROR(Check(what, result));
  for (;;) {
    bool busy = false;
    for (const Member& member : members_) {
      nccl::Result state = nccl::kInProgress;
      if (member.comm != nullptr) {
        CHX_RETURN_IF_ERROR(
            Check("ncclCommGetAsyncError", library_.CommGetAsyncError(member.comm, &state)));
      }
      if (state != nccl::kInProgress) CHX_RETURN_IF_ERROR(Check(what, state));
      busy = busy || state == nccl::kInProgress;
    }
    if (!busy) return absl::OkStatus();
    CHX_RETURN_IF_ERROR(goes_on());
    std::this_thread::sleep_for(kLook);
  }
}

// Of floats NCCL's greatest and least leave NaNs out, which the host's do not.
bool NcclCommunicator::Takes(const CollectiveCall& call) const {
  if (FirstMove(call, size_).from != CollectiveMove::kEvery) return true;
  const GroupReduction reduction = ReductionOf(call.op, call.attrs);
  const bool compares = reduction == GroupReduction::kMax || reduction == GroupReduction::kMin;
  const auto& tensors = call.inputs;
  return std::all_of(tensors.begin(), tensors.end(), [compares](const KernelTensor& tensor) {
    return TypeOf(tensor.dtype).has_value() && !(compares && IsFloat(tensor.dtype));
  });
}

nccl::Result NcclCommunicator::QueueArray(const Member& member, const CollectiveCall& call,
                                          size_t array, size_t block, void* stream) const {
  const CollectivePattern& pattern = *call.op.pattern;
  const int root = RootOf(call.op, call.attrs);
  const CollectiveMove first = pattern.move(0, size_, root);
  const int64_t moves = pattern.count(size_);
  const Dtype dtype = call.inputs[array].dtype;
  const auto bytes = block * static_cast<size_t>(ItemSize(dtype));
  const char* const in = call.inputs[array].data;
  char* const out = call.outputs[array].data;
  if (first.from == CollectiveMove::kEvery) {
    const nccl::DataType type = *TypeOf(dtype);
    const nccl::RedOp op = OpOf(ReductionOf(call.op, call.attrs));
    if (first.to == CollectiveMove::kEvery) {
      return library_.AllReduce(in, out, block, type, op, member.comm, stream);
    }
    if (moves == 1) {
      return library_.Reduce(in, out, block, type, op, first.to, member.comm, stream);
    }
    return library_.ReduceScatter(in, out, block, type, op, member.comm, stream);
  }
  // What is only moved may be of any dtype.
  if (first.to == CollectiveMove::kEvery) {
    if (moves == 1) {
      return library_.Broadcast(in, out, bytes, nccl::kInt8, first.from, member.comm, stream);
    }
    return library_.AllGather(in, out, bytes, nccl::kInt8, member.comm, stream);
  }
  nccl::Result result = nccl::kSuccess;
  for (int64_t i = 0; i < moves && result == nccl::kSuccess; ++i) {
    const CollectiveMove move = pattern.move(i, size_, root);
    if (move.from == member.rank) {
      result = library_.Send(in + move.from_block * bytes, bytes, nccl::kInt8, move.to, member.comm,
                             stream);
    }
    if (move.to == member.rank && result == nccl::kSuccess) {
      result = library_.Recv(out + move.to_block * bytes, bytes, nccl::kInt8, move.from,
                             member.comm, stream);
    }
  }
  return result;
}

nccl::Result NcclCommunicator::QueueOne(const Member& member, const CollectiveCall& call) const {
  void* const stream = StreamOfRank(call.stream).handle();
  const auto tensors = CommonTensors(call);
  for (size_t array = 0; array < tensors.size(); ++array) {
    const int64_t elements = tensors[array].size();
    const int64_t block = call.op.pattern->has_rows ? elements / size_ : elements;
    if (block == 0) continue;
    const nccl::Result result = QueueArray(member, call, array, static_cast<size_t>(block), stream);
    if (result != nccl::kSuccess && result != nccl::kInProgress) return result;
  }
  return nccl::kSuccess;
}

absl::Status NcclCommunicator::QueueAll(absl::Span<const CollectiveCall* const> calls,
                                        GoesOn goes_on) {
  for (const Member& member : members_) {
    KernelStream& stream = StreamOfRank(calls[member.rank]->stream);
    if (member.device->health().lost()) return member.device->health().status();
    stream.handle();
    // A communicator does one thing after the other.
    if (member.ended != nullptr && member.last != &stream) {
      CHX_RETURN_IF_ERROR(stream.After(*member.ended));
    }
  }
  CHX_RETURN_IF_ERROR(Check("ncclGroupStart", library_.GroupStart()));
  nccl::Result result = nccl::kSuccess;
  for (const Member& member : members_) {
    if (result == nccl::kSuccess) result = QueueOne(member, *calls[member.rank]);
  }
  const nccl::Result ended = library_.GroupEnd();
  if (result == nccl::kSuccess) result = ended;
  CHX_RETURN_IF_ERROR(
      Await(std::string(calls[members_[0].rank]->op.name).c_str(), result, goes_on));
  for (Member& member : members_) {
    KernelStream& stream = StreamOfRank(calls[member.rank]->stream);
    stream.handle();
    CHX_RETURN_IF_ERROR(stream.Launched());
    member.last = &stream;
    CHX_ASSIGN_OR_RETURN(member.ended, stream.NewMark());
  }
  return absl::OkStatus();
}

// Where all ranks are here, one group after the other: kernels of two groups, which wait for other
// GPUs, come to all of them in one order. Those of other daemons may wait for each other's groups.
absl::Status NcclCommunicator::Queue(absl::Span<const CollectiveCall* const> calls,
                                     GoesOn goes_on) {
  static auto* const one_at_a_time = new std::timed_mutex;
  std::unique_lock<std::timed_mutex> lock(*one_at_a_time, std::defer_lock);
  const bool all_here = static_cast<int>(members_.size()) == size_;
  while (all_here && !lock.try_lock_for(kLook)) CHX_RETURN_IF_ERROR(goes_on());
  absl::Status status = QueueAll(calls, goes_on);
  aborts_ = aborts_ || !status.ok();
  return status;
}

absl::Status NcclCommunicator::WaitForAll(absl::Span<const CollectiveCall* const> calls,
                                          GoesOn goes_on) const {
  for (;;) {
    bool done = true;
    for (const Member& member : members_) {
      CHX_ASSIGN_OR_RETURN(const bool one, StreamOfRank(calls[member.rank]->stream).IsDone());
      done = done && one;
    }
    // Also of other daemons' ranks that have gone.
    CHX_RETURN_IF_ERROR(Await("a collective", nccl::kSuccess, goes_on));
    if (done) return absl::OkStatus();
    CHX_RETURN_IF_ERROR(goes_on());
    std::this_thread::sleep_for(kLook);
  }
}

absl::Status NcclCommunicator::Wait(absl::Span<const CollectiveCall* const> calls, GoesOn goes_on) {
  absl::Status status = WaitForAll(calls, goes_on);
  aborts_ = aborts_ || !status.ok();
  return status;
}

}  // namespace chx::server::cuda
