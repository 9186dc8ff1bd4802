// How errors name ranks.
#ifndef CHX_SERVER_COLLECTIVES_RANKS_TEXT_H_
#define CHX_SERVER_COLLECTIVES_RANKS_TEXT_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace chx::server {

// "rank 2", "ranks 1, 2", "ranks 0, 1, ...": the first eight.
inline std::string RanksText(const std::vector<int>& ranks) {
  constexpr size_t kMaxNamed = 8;
  const size_t named = std::min(ranks.size(), kMaxNamed);
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks.begin(), ranks.begin() + named, ", "),
                      ranks.size() > named ? ", ..." : "");
}
// The same of those that have not come. `come`: by rank, what is false for these: a flag, or a
// pointer.
template <typename Come>
std::string AbsentRanks(const std::vector<Come>& come) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < come.size(); ++rank) {
    if (!come[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return RanksText(ranks);
}

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_RANKS_TEXT_H_
