#include "server/collectives/peer_exchange.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "server/collectives/compare_calls.h"
#include "server/collectives/peer_messages.h"
#include "server/collectives/peer_work.h"
#include "server/collectives/ranks_text.h"
#include "server/log/log.h"

namespace chx::server {
namespace {

// Those of PeerWork are above.
constexpr uint64_t kHeaderSlot = 1;
constexpr uint64_t kTextSlot = 2;

constexpr size_t kTextBytes = 1000;

}  // namespace

std::string PeerExchange::CutIn(absl::string_view op, const std::string& why) {
  Log(LogLevel::kDebug, "an exchange between daemons failed", {{"op", op}, {"reason", why}});
  return absl::StrCat("the connection to other daemons was cut in ", op);
}

// What daemons compare before each collective: a hash that nobody can find a second call for, as
// calls that differ would write beyond each other's arrays.
struct PeerExchange::Header {
  uint8_t key[SHA256_DIGEST_LENGTH];
  uint32_t failure_kind;  // and 1; 0: none
  uint32_t zero;

  bool SameCall(const Header& other) const {
    return std::equal(std::begin(key), std::end(key), std::begin(other.key));
  }
};

// And what they say if that differs.
struct PeerExchange::Text {
  char text[kTextBytes];  // ends in 0
};

PeerExchange::PeerExchange(std::string group, GroupLayout layout, std::unique_ptr<Mesh> mesh,
                           std::chrono::milliseconds timeout)
    : group_(std::move(group)),
      layout_(std::move(layout)),
      mesh_(std::move(mesh)),
      timeout_(timeout) {}

template <typename T>
std::string PeerExchange::Gather(uint64_t slot, absl::string_view op, const T& own,
                                 std::vector<T>* all) {
  all->resize(static_cast<size_t>(layout_.num_daemons()));
  std::vector<std::unique_ptr<MeshTransfer>> sends;
  std::vector<std::unique_ptr<MeshTransfer>> receives(all->size());
  for (int daemon = 0; daemon < layout_.num_daemons(); ++daemon) {
    if (daemon == layout_.self) {
      (*all)[daemon] = own;
      continue;
    }
    receives[daemon] = mesh_->Receive(daemon, slot, &(*all)[daemon], sizeof(T));
    sends.push_back(mesh_->Send(daemon, slot, &own, sizeof(T)));
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  const auto left = [deadline] {
    return std::max(std::chrono::milliseconds(1),
                    std::chrono::duration_cast<std::chrono::milliseconds>(
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

PeerOutcome PeerExchange::Disagree(const CollectiveCall& own, int rank,
                                   const std::vector<Header>& headers,
                                   const absl::Status& compared) {
  Text text = {};
  const std::string said =
      compared.ok() ? DescribeCall(rank, own) : std::string(compared.message());
  said.copy(text.text, kTextBytes - 1);
  std::vector<Text> texts;
  std::string why = Gather(kTextSlot, own.op.name, text, &texts);
  if (!why.empty()) return {absl::OkStatus(), std::move(why)};
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
                              const absl::Status& compared, HostKernels kernels) {
  const int rank = layout_.local_ranks()[0];
  const CollectiveCall& own = *calls[rank];
  const std::string key = compared.ok() ? KeyOfCall(own) : "";
  Header header = {};
  SHA256(reinterpret_cast<const uint8_t*>(key.data()), key.size(), header.key);
  header.failure_kind = compared.ok() ? 0 : static_cast<uint32_t>(KindOf(compared)) + 1;
  std::vector<Header> headers;
  std::string why = Gather(kHeaderSlot, own.op.name, header, &headers);
  if (!why.empty()) return {absl::OkStatus(), std::move(why)};
  const bool agree = std::all_of(headers.begin(), headers.end(), [&](const Header& other) {
    return other.failure_kind == 0 && other.SameCall(header);
  });
  if (!agree) return Disagree(own, rank, headers, compared);
  PeerWork work(calls, layout_, mesh_.get(), timeout_, kernels);
  why = work.Run();
  if (!work.kernel_failed().ok()) {
    why = absl::StrCat("rank ", rank, " has failed: ", work.kernel_failed().message());
  } else if (!why.empty()) {
    why = CutIn(own.op.name, why);
  }
  return {absl::OkStatus(), std::move(why)};
}

}  // namespace chx::server
