#include "server/collectives/peer_exchange.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "ops/error.h"
#include "server/collectives/compare_calls.h"
#include "server/collectives/peer_messages.h"
#include "server/collectives/peer_work.h"
#include "server/collectives/ranks_text.h"
#include "server/log/log.h"

namespace chx::server {
namespace {

// Above that of CallBoxes, below those of PeerWork.
constexpr uint64_t kTextSlot = 2;

constexpr size_t kTextBytes = 1000;

// What all daemons make of it.
ArrayPlace PlaceOfAll(const std::vector<CallHeader>& headers) {
  const auto any = [&headers](ArrayPlace place) {
    return std::any_of(headers.begin(), headers.end(),
                       [place](const CallHeader& header) { return header.place == place; });
  };
  if (!any(ArrayPlace::kDevices) && !any(ArrayPlace::kMixed)) return ArrayPlace::kHost;
  if (any(ArrayPlace::kAlwaysHost)) return ArrayPlace::kAlwaysHost;
  const bool all = !any(ArrayPlace::kHost) && !any(ArrayPlace::kMixed);
  return all ? ArrayPlace::kDevices : ArrayPlace::kMixed;
}

}  // namespace

std::string PeerExchange::CutIn(absl::string_view op, const std::string& why) {
  Log(LogLevel::kDebug, "an exchange between daemons failed", {{"op", op}, {"reason", why}});
  return absl::StrCat("the connection to other daemons was cut in ", op);
}

// What daemons say if their calls differ.
struct PeerExchange::Text {
  char text[kTextBytes];  // ends in 0
};

PeerExchange::PeerExchange(std::string group, GroupLayout layout, std::unique_ptr<Mesh> mesh,
                           std::chrono::milliseconds timeout)
    : group_(std::move(group)),
      layout_(std::move(layout)),
      mesh_(std::move(mesh)),
      timeout_(timeout),
      boxes_(layout_, mesh_.get()),
      ring_(mesh_.get(), layout_.self, layout_.num_daemons(), timeout) {}

std::string PeerExchange::WaitFor(absl::string_view op, const CallBoxes::Transfers& receives,
                                  const CallBoxes::Transfers& sends) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  // Rounded up: a wait that ends before the deadline is taken for a cut.
  const auto left = [deadline] {
    return std::max(std::chrono::milliseconds(1), std::chrono::ceil<std::chrono::milliseconds>(
                                                      deadline - std::chrono::steady_clock::now()));
  };
  std::string why;
  std::vector<int> absent;
  for (size_t daemon = 0; daemon < receives.size(); ++daemon) {
    std::string failed;
    // After one that has failed the mesh is of no use, but says of others whether they have come.
    if (receives[daemon] == nullptr || receives[daemon]->Wait(left(), &failed)) continue;
    if (why.empty()) why = failed;
    absent.insert(absent.end(), layout_.ranks[daemon].begin(), layout_.ranks[daemon].end());
  }
  for (const auto& send : sends) {
    if (why.empty()) send->Wait(left(), &why);
  }
  if (why.empty()) return why;
  std::sort(absent.begin(), absent.end());
  if (absent.empty() || std::chrono::steady_clock::now() < deadline) {
    return CutIn(op, why);
  }
  return absl::StrCat(RanksText(absent), " did not come to ", op, " within ",
                      absl::FormatDuration(absl::FromChrono(timeout_)));
}

std::string PeerExchange::Gather(absl::string_view op, const Text& own, std::vector<Text>* all) {
  all->resize(static_cast<size_t>(layout_.num_daemons()));
  CallBoxes::Transfers sends;
  CallBoxes::Transfers receives(all->size());
  for (int daemon = 0; daemon < layout_.num_daemons(); ++daemon) {
    if (daemon == layout_.self) {
      (*all)[daemon] = own;
      continue;
    }
    receives[daemon] = mesh_->Receive(daemon, kTextSlot, &(*all)[daemon], sizeof(Text));
    sends.push_back(mesh_->Send(daemon, kTextSlot, &own, sizeof(Text)));
  }
  return WaitFor(op, receives, sends);
}

std::string PeerExchange::Tell(absl::string_view op, const std::string& own,
                               std::vector<std::string>* all) {
  Text text = {};
  static_assert(kMaxText + sizeof(uint32_t) <= kTextBytes, "a text has its size before it");
  const auto size = static_cast<uint32_t>(std::min(own.size(), kMaxText));
  std::memcpy(text.text, &size, sizeof(size));
  std::memcpy(text.text + sizeof(size), own.data(), size);
  std::vector<Text> texts;
  std::string why = Gather(op, text, &texts);
  if (!why.empty()) return why;
  for (const Text& other : texts) {
    uint32_t other_size = 0;
    std::memcpy(&other_size, other.text, sizeof(other_size));
    all->emplace_back(other.text + sizeof(other_size), std::min<size_t>(other_size, kMaxText));
  }
  return why;
}

std::string PeerExchange::TellCall(const CollectiveCall& own, const CallHeader& header,
                                   std::vector<CallHeader>* headers) {
  const CallBoxes::Transfers receives = boxes_.TakeReceives();
  const CallBoxes::Transfers sends = boxes_.Send(header);
  std::string why = WaitFor(own.op.name, receives, sends);
  if (!why.empty()) return why;
  boxes_.ReceiveNext();
  for (int daemon = 0; daemon < layout_.num_daemons(); ++daemon) {
    headers->push_back(boxes_.header(daemon));
  }
  return why;
}

PeerOutcome PeerExchange::Disagree(const CollectiveCall& own, int rank,
                                   const std::vector<CallHeader>& headers,
                                   const absl::Status& compared) {
  Text text = {};
  const std::string said =
      compared.ok() ? DescribeCall(rank, own) : std::string(compared.message());
  said.copy(text.text, kTextBytes - 1);
  std::vector<Text> texts;
  std::string why = Gather(own.op.name, text, &texts);
  if (!why.empty()) return PeerOutcome::Unanswered(std::move(why));
  for (size_t daemon = 0; daemon < headers.size(); ++daemon) {
    const uint32_t kind = headers[daemon].failure_kind;
    if (kind == 0) continue;
    texts[daemon].text[kTextBytes - 1] = '\0';
    return {MakeError(static_cast<ErrorKind>(std::min<uint32_t>(kind, kNumErrorKinds) - 1),
                      texts[daemon].text),
            ""};
  }
  std::vector<std::string> calls;
  for (size_t daemon = 0; daemon < headers.size(); ++daemon) {
    if (daemon > 0 && headers[daemon].SameCall(headers[0])) continue;
    texts[daemon].text[kTextBytes - 1] = '\0';
    calls.emplace_back(texts[daemon].text);
  }
  return {DifferentCallsError(own.op.name, group_, calls), ""};
}

PeerOutcome PeerExchange::Run(const std::vector<const CollectiveCall*>& calls,
                              const absl::Status& compared, ArrayPlace place_here,
                              HostKernels kernels) {
  const int rank = layout_.local_ranks()[0];
  const CollectiveCall& own = *calls[rank];
  const std::string key = compared.ok() ? KeyOfCall(own) : "";
  CallHeader header;
  SHA256(reinterpret_cast<const uint8_t*>(key.data()), key.size(), header.key);
  header.failure_kind = compared.ok() ? 0 : static_cast<uint32_t>(KindOf(compared)) + 1;
  header.place = place_here;
  const bool in_host = place_here == ArrayPlace::kHost || place_here == ArrayPlace::kAlwaysHost;
  boxes_.Turn();
  absl::optional<PeerWork> work;
  if (compared.ok() && in_host)
    work.emplace(calls, layout_, mesh_.get(), &ring_, timeout_, kernels);
  if (work.has_value()) {
    header.bytes = static_cast<uint32_t>(work->Give(boxes_.elements(layout_.self), boxes_.room()));
  }
  std::vector<CallHeader> headers;
  std::string why = TellCall(own, header, &headers);
  if (!why.empty()) return PeerOutcome::Unanswered(std::move(why));
  const ArrayPlace place = PlaceOfAll(headers);
  const bool agree = std::all_of(headers.begin(), headers.end(), [&](const CallHeader& other) {
    return other.failure_kind == 0 && other.SameCall(header) &&
           (place != ArrayPlace::kHost || other.bytes == header.bytes);
  });
  if (!agree) return Disagree(own, rank, headers, compared);
  if (place != ArrayPlace::kHost) return {absl::OkStatus(), "", place};
  work->Take([this](int daemon) { return boxes_.elements(daemon); });
  why = work->Run();
  if (!work->kernel_failed().ok()) {
    why = absl::StrCat("rank ", rank, " has failed: ", work->kernel_failed().message());
  } else if (!why.empty()) {
    return PeerOutcome::Unanswered(CutIn(own.op.name, why));
  }
  return {absl::OkStatus(), std::move(why), {}};
}

}  // namespace chx::server
