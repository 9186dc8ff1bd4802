#include "server/collectives/peer_messages.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/collective.h"
#include "ops/error.h"

namespace chx::server {
namespace {

// Of the elements: a receiver that cannot use them takes them all the same, piece by piece.
constexpr int64_t kPieceBytes = 4 << 20;

constexpr std::chrono::hours kForEver(24 * 365);

// A slot for each pair of ranks and each tag, above those of collectives. Beyond kDirectTags tags
// share slots, which is noticed.
constexpr uint64_t kMessageSlots = uint64_t{1} << 61;
constexpr int kTagBits = 39;
constexpr uint64_t kDirectTags = uint64_t{1} << (kTagBits - 1);

uint64_t SlotOf(int from, int to, int64_t tag) {
  auto place = static_cast<uint64_t>(tag);
  if (place >= kDirectTags) place = kDirectTags + place % kDirectTags;
  const uint64_t pair = static_cast<uint64_t>(from) * kMaxGroupSize + static_cast<uint64_t>(to);
  return kMessageSlots + (((pair << kTagBits) + place) << 1);
}

static_assert((uint64_t{1} << (kTagBits + 1)) * kMaxGroupSize * kMaxGroupSize <= kMessageSlots,
              "slots of different pairs differ");

}  // namespace

PeerExchange::~PeerExchange() {
  mesh_->Abort();
  if (sweeper_.joinable()) {
    {
      const MutexLock lock(&mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    sweeper_.join();
  }
}

bool PeerExchange::HasUnsent() {
  const MutexLock lock(&mutex_);
  return !sent_.empty();
}

void PeerExchange::Sweep() {
  const MutexLock lock(&mutex_);
  while (true) {
    while (!ended_ && sent_.empty()) changed_.wait(mutex_);
    if (ended_) return;
    const Sent& first = *sent_.front();
    mutex_.Unlock();
    // Without a connection there is nobody to fetch it.
    std::string why;
    for (const auto& transfer : first.transfers) transfer->Wait(kForEver, &why);
    mutex_.Lock();
    sent_.pop_front();
  }
}

std::string PeerExchange::Send(int rank, const CollectiveCall& call, MemoryCharge charge) {
  const absl::StatusOr<PeerAttrs> to = PeerAttrs::From(call.op, call.attrs);
  if (!to.ok()) return std::string(to.status().message());
  auto sent = std::make_unique<Sent>();
  sent->charge = std::move(charge);
  MessageHeader& header = sent->header;
  header = {};
  header.tag = to->tag;
  absl::string_view text = call.location;
  if (!call.failed.ok()) {
    header.failure_kind = static_cast<uint32_t>(KindOf(call.failed)) + 1;
    text = call.failed.message();
  } else {
    const KernelTensor& x = call.inputs[0];
    header.ndim = static_cast<uint32_t>(x.ndim());
    header.dtype = static_cast<uint32_t>(x.dtype);
    std::copy(x.shape.begin(), x.shape.end(), header.shape);
    sent->data.assign(x.data, static_cast<size_t>(x.size() * ItemSize(x.dtype)));
  }
  text.substr(0, MessageHeader::kTextBytes - 1).copy(header.text, MessageHeader::kTextBytes - 1);
  const int daemon = layout_.daemon_of[to->peer];
  const uint64_t slot = SlotOf(rank, to->peer, to->tag);
  sent->transfers.push_back(mesh_->Send(daemon, slot, &header, sizeof(header)));
  for (size_t begin = 0; begin < sent->data.size(); begin += kPieceBytes) {
    const size_t bytes = std::min<size_t>(kPieceBytes, sent->data.size() - begin);
    sent->transfers.push_back(mesh_->Send(daemon, slot + 1, &sent->data[begin], bytes));
  }
  const MutexLock lock(&mutex_);
  sent_.push_back(std::move(sent));
  changed_.notify_all();
  if (sweeper_.joinable()) return "";
  try {
    sweeper_ = std::thread([this] { Sweep(); });
  } catch (const std::system_error& error) {
    return absl::StrCat("there is no thread for messages of rank ", rank, ": ", error.what());
  }
  return "";
}

PeerExchange::Receiving::Receiving() : header_(new MessageHeader) {}
PeerExchange::Receiving::~Receiving() = default;

void PeerExchange::Receiving::Interrupt() {
  const MutexLock lock(&mutex_);
  transfer_->Interrupt();
}

void PeerExchange::Receiving::Begin(std::unique_ptr<MeshTransfer> transfer) {
  const MutexLock lock(&mutex_);
  transfer_.swap(transfer);
}

bool PeerExchange::Receiving::Wait(Patience patience, std::string* why) {
  const TimePoint began = std::chrono::steady_clock::now();
  MeshTransfer* transfer = nullptr;
  {
    const MutexLock lock(&mutex_);
    transfer = transfer_.get();
  }
  while (true) {
    const TimePoint now = std::chrono::steady_clock::now();
    const std::chrono::milliseconds left = patience(began);
    if (transfer->Wait(std::max(left, std::chrono::milliseconds(1)), why)) return true;
    if (why->empty()) continue;  // it was interrupted
    if (std::chrono::steady_clock::now() - now >= left) why->clear();
    return false;
  }
}

std::unique_ptr<PeerExchange::Receiving> PeerExchange::BeginReceive(int rank, PeerAttrs from) {
  auto receiving = std::make_unique<Receiving>();
  receiving->from_ = from;
  receiving->rank_ = rank;
  receiving->slot_ = SlotOf(from.peer, rank, from.tag);
  receiving->Begin(mesh_->Receive(layout_.daemon_of[from.peer], receiving->slot_,
                                  receiving->header_.get(), sizeof(MessageHeader)));
  return receiving;
}

PeerOutcome PeerExchange::Receive(const CollectiveCall& call, Patience patience,
                                  Receiving* receiving) {
  std::string why;
  if (!receiving->Wait(patience, &why)) {
    if (!why.empty()) return PeerOutcome::Unanswered(CutIn(call.op.name, why));
    return PeerOutcome::Unanswered(
        absl::StrCat("rank ", receiving->from_.peer, " did not send to rank ", receiving->rank_,
                     " within ", absl::FormatDuration(absl::FromChrono(timeout_))));
  }
  MessageHeader& header = *receiving->header_;
  header.text[MessageHeader::kTextBytes - 1] = '\0';
  if (header.tag != receiving->from_.tag || header.ndim > kMaxNdim) {
    return {absl::OkStatus(),
            absl::StrCat("rank ", receiving->from_.peer,
                         " uses a tag that cannot be told from tag ", receiving->from_.tag)};
  }
  return TakeElements(call, header, patience, receiving);
}

PeerOutcome PeerExchange::TakeElements(const CollectiveCall& call, const MessageHeader& header,
                                       Patience patience, Receiving* receiving) {
  const int peer = receiving->from_.peer;
  const std::string text = header.text;
  if (header.failure_kind != 0) {
    const uint32_t kind = std::min<uint32_t>(header.failure_kind, kNumErrorKinds);
    return {MakeError(static_cast<ErrorKind>(kind - 1), absl::StrCat(text, ", at rank ", peer)),
            ""};
  }
  Shape shape;
  bool valid = IsValidDtype(static_cast<int>(header.dtype));
  for (uint32_t i = 0; i < header.ndim; ++i) {
    shape.push_back(header.shape[i]);
    valid = valid && header.shape[i] >= 0;
  }
  if (!valid) return {absl::OkStatus(), absl::StrCat("rank ", peer, " did not send an array")};
  const ArraySpec sent(static_cast<Dtype>(header.dtype), shape);
  absl::Status wrong = call.failed;
  if (wrong.ok()) {
    const ArraySpec expected(call.outputs[0].dtype, call.outputs[0].shape);
    if (sent.dtype != expected.dtype || sent.shape != expected.shape) {
      wrong = ValueError("[", call.op.name, "] expects ", expected.ToString(), ", got ",
                         sent.ToString(), ", sent at rank ", peer,
                         text.empty() ? "" : absl::StrCat(" (", text, ")"));
    }
  }
  std::unique_ptr<char[]> scratch;
  const int64_t total = NumElements(sent.shape) * ItemSize(sent.dtype);
  if (!wrong.ok() && total > 0) scratch.reset(new char[std::min(total, kPieceBytes)]);
  for (int64_t begin = 0; begin < total; begin += kPieceBytes) {
    char* const place = wrong.ok() ? call.outputs[0].data + begin : scratch.get();
    const auto bytes = static_cast<size_t>(std::min(kPieceBytes, total - begin));
    receiving->Begin(mesh_->Receive(layout_.daemon_of[peer], receiving->slot_ + 1, place, bytes));
    std::string why;
    if (receiving->Wait(patience, &why)) continue;
    return PeerOutcome::Unanswered(CutIn(call.op.name, why));
  }
  return {std::move(wrong), ""};
}

}  // namespace chx::server
