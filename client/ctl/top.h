// What sessions use, from two looks at them.
#ifndef CHX_CLIENT_CTL_TOP_H_
#define CHX_CLIENT_CTL_TOP_H_

#include <string>
#include <vector>

#include "client/admin/admin.h"

namespace chx::ctl {

struct Rates {
  SessionStatus session;     // as of the second look
  double compute_share = 0;  // of the time between the looks
  double commands_per_second = 0;
};

// In the order of `sort`: "compute", "memory" or "commands", the largest first. A session that was
// not there at the first look has what it has done since it was opened.
std::vector<Rates> RatesOf(const std::vector<SessionStatus>& before,
                           const std::vector<SessionStatus>& after, double seconds,
                           const std::string& sort);
std::string TopTable(const std::vector<Rates>& rates, bool bold);

}  // namespace chx::ctl

#endif  // CHX_CLIENT_CTL_TOP_H_
