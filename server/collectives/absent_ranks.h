// How errors name the ranks that others wait for.
#ifndef CHX_SERVER_COLLECTIVES_ABSENT_RANKS_H_
#define CHX_SERVER_COLLECTIVES_ABSENT_RANKS_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace chx::server {

// "rank 2", "ranks 1, 2", "ranks 0, 1, ...": the first eight that have not come. `come`: by rank,
// what is false for these: a flag, or a pointer.
template <typename Come>
std::string AbsentRanks(const std::vector<Come>& come) {
  constexpr size_t kMaxNamed = 8;
  std::vector<size_t> ranks;
  size_t count = 0;
  for (size_t rank = 0; rank < come.size(); ++rank) {
    if (!come[rank] && ++count <= kMaxNamed) ranks.push_back(rank);
  }
  return absl::StrCat(count == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "),
                      count > kMaxNamed ? ", ..." : "");
}

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_ABSENT_RANKS_H_
