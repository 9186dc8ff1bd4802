#include "client/ctl/top.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/ctl/text.h"

namespace chx::ctl {

std::vector<Rates> RatesOf(const std::vector<SessionStatus>& before,
                           const std::vector<SessionStatus>& after, double seconds,
                           const std::string& sort) {
  std::map<uint64_t, const SessionStatus*> earlier;
  for (const SessionStatus& session : before) earlier[session.number] = &session;
  std::vector<Rates> all;
  for (const SessionStatus& session : after) {
    Rates rates;
    rates.session = session;
    const auto found = earlier.find(session.number);
    const SessionStatus none;
    const SessionStatus& was = found == earlier.end() ? none : *found->second;
    if (seconds > 0) {
      rates.compute_share =
          std::clamp((session.compute_seconds - was.compute_seconds) / seconds, 0.0, 1.0);
      const auto commands = static_cast<double>(session.commands - was.commands);
      rates.commands_per_second = session.commands < was.commands ? 0 : commands / seconds;
    }
    all.push_back(std::move(rates));
  }
  std::stable_sort(all.begin(), all.end(), [&sort](const Rates& a, const Rates& b) {
    if (sort == "memory") return a.session.memory_bytes > b.session.memory_bytes;
    if (sort == "commands") return a.commands_per_second > b.commands_per_second;
    return a.compute_share > b.compute_share;
  });
  return all;
}

std::string TopTable(const std::vector<Rates>& rates, bool bold) {
  Table table({{"SESSION", Table::kRight},
               {"TENANT"},
               {"CLIENT"},
               {"STATE"},
               {"BUSY", Table::kRight},
               {"COMMANDS/S", Table::kRight},
               {"MEMORY", Table::kRight},
               {"LIMIT", Table::kRight},
               {"ERRORS", Table::kRight},
               {"IDLE", Table::kRight},
               {"LAST"}});
  for (const Rates& each : rates) {
    const SessionStatus& session = each.session;
    table.Add({absl::StrCat(session.number), session.tenant, session.client_name, session.state,
               absl::StrFormat("%.0f %%", each.compute_share * 100),
               FormatCount(each.commands_per_second), FormatBytes(session.memory_bytes),
               FormatLimit(session.memory_limit_bytes), absl::StrCat(session.errors),
               FormatSeconds(session.idle_seconds), session.last_operator});
  }
  return table.Render(bold);
}

}  // namespace chx::ctl
