#include "server/collectives/silent_daemons.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/collectives/ranks_text.h"

namespace chx::server {
namespace {

constexpr std::chrono::milliseconds kAnswerWithin(1000);

}  // namespace

SilentDaemons::SilentDaemons(PeerNetwork* network, const groups::Notice::Formed& formed, int self)
    : network_(*network) {
  for (int i = 0; i < formed.daemons_size(); ++i) {
    if (i == self) continue;
    const groups::Notice::Formed::Daemon& daemon = formed.daemons(i);
    addresses_.push_back(daemon.address());
    ranks_.emplace_back(daemon.ranks().begin(), daemon.ranks().end());
  }
}

std::string SilentDaemons::Name() const {
  std::vector<int> ranks;
  std::vector<std::string> addresses;
  for (const size_t i : network_.FindSilent(addresses_, kAnswerWithin)) {
    ranks.insert(ranks.end(), ranks_[i].begin(), ranks_[i].end());
    addresses.push_back(addresses_[i]);
  }
  if (ranks.empty()) return "";
  std::sort(ranks.begin(), ranks.end());
  return absl::StrCat(RanksText(ranks), ranks.size() == 1 ? " does" : " do", " not answer, nor ",
                      addresses.size() == 1 ? "does the daemon at " : "do the daemons at ",
                      absl::StrJoin(addresses, ", "));
}

}  // namespace chx::server
