// What the daemon counts, for whom: the counters of its sessions, and their sums.
#ifndef CHX_SERVER_OBSERVABILITY_METRICS_H_
#define CHX_SERVER_OBSERVABILITY_METRICS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "server/observability/counters.h"

namespace chx::server {

// By what sessions are added up: labels of metrics, so there are few of each.
struct SessionLabels {
  std::string tenant;
  std::string session_class;

  bool operator<(const SessionLabels& other) const {
    return std::tie(tenant, session_class) < std::tie(other.tenant, other.session_class);
  }
};

using SessionCountersPtr = std::shared_ptr<SessionCounters>;

// A command that took longer than --slow-command.
struct SlowCommand {
  uint64_t session = 0;  // its number
  std::string tenant;
  std::string op;
  std::string inputs;    // shapes and dtypes, no values
  std::string location;  // the client's file:line
  int64_t milliseconds = 0;
  std::chrono::system_clock::time_point ended;
};

// The daemon's one; thread-safe. Made by make_shared: counters of sessions outlive it if need be.
class Metrics : public std::enable_shared_from_this<Metrics> {
 public:
  // Tenants beyond so many are counted together, as "other".
  static constexpr size_t kMaxTenants = 64;
  static constexpr size_t kMaxSlowCommands = 64;

  explicit Metrics(int num_devices) : num_devices_(num_devices) {}

  // A session's, until the last pointer to them is gone; what they have counted stays. Whether it
  // is opened is the caller's to count: it may still be refused.
  SessionCountersPtr Open(SessionLabels labels);
  // All sessions', with those that have ended. No number is ever smaller than before, but for live
  // and held bytes.
  std::map<SessionLabels, std::unique_ptr<SessionCounters>> Sum() const;

  void AddSlow(SlowCommand command);
  // The last ones, newest first.
  std::vector<SlowCommand> SlowCommands() const;

 private:
  struct Totals {
    explicit Totals(int num_devices) : ended(num_devices) {}
    SessionCounters ended;
    absl::flat_hash_set<const SessionCounters*> live;
  };
  void Close(const SessionLabels& labels, const SessionCounters* counters);

  const int num_devices_;
  mutable Mutex mutex_;
  std::map<SessionLabels, std::unique_ptr<Totals>> totals_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> tenants_ ABSL_GUARDED_BY(mutex_);
  std::deque<SlowCommand> slow_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_OBSERVABILITY_METRICS_H_
