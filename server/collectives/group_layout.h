// Which daemon has which ranks of a group.
#ifndef CHX_SERVER_COLLECTIVES_GROUP_LAYOUT_H_
#define CHX_SERVER_COLLECTIVES_GROUP_LAYOUT_H_

#include <vector>

namespace chx::server {

// Daemons are numbered by their lowest ranks.
struct GroupLayout {
  int self = 0;                         // this daemon
  std::vector<std::vector<int>> ranks;  // by daemon, ascending; none is empty
  std::vector<int> daemon_of;           // by rank

  int num_daemons() const { return static_cast<int>(ranks.size()); }
  int num_ranks() const { return static_cast<int>(daemon_of.size()); }
  bool is_local(int rank) const { return daemon_of[rank] == self; }
  const std::vector<int>& local_ranks() const { return ranks[self]; }
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_GROUP_LAYOUT_H_
