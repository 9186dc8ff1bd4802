// All metrics of a daemon, as they are at this moment.
#ifndef CHX_SERVER_OBSERVABILITY_COLLECTOR_H_
#define CHX_SERVER_OBSERVABILITY_COLLECTOR_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/engine/devices.h"
#include "server/engine/memory_budget.h"
#include "server/observability/families.h"
#include "server/observability/metrics.h"

namespace chx::server {

// What a daemon consists of, as far as it is measured. Null: there is none.
struct MetricSources {
  const Metrics* metrics = nullptr;
  const Devices* devices = nullptr;
  const MemoryBudget* budget = nullptr;
  int waiting = 0;  // sessions that wait for their turn to compute
  std::string version;
};

// Takes no session's lock. docs/for_operators.md has a row for each.
std::vector<Family> CollectFamilies(const MetricSources& sources);

// As labels name it: "memory", "not_implemented".
absl::string_view NameOf(ErrorKind kind);

}  // namespace chx::server

#endif  // CHX_SERVER_OBSERVABILITY_COLLECTOR_H_
