#include "server/observability/collector.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/observability/process_stats.h"

namespace chx::server {
namespace {

constexpr absl::string_view kErrorKinds[] = {
    "chainerx",        "context",    "backend",        "device",   "dimension", "dtype",
    "not_implemented", "gradient",   "gradient_check", "index",    "type",      "value",
    "memory",          "connection", "timeout",        "cancelled"};
static_assert(std::size(kErrorKinds) == kNumErrorKinds, "one name for each");
constexpr const char* kWays[kNumWays] = {"stream", "transfer", "shared"};
constexpr const char* kEndReasons[kNumEndReasons] = {"closed", "lease",    "limit",
                                                     "killed", "protocol", "other"};
constexpr const char* kRefusals[kNumRefusals] = {"token", "limit", "other"};

using Sums = std::map<SessionLabels, std::unique_ptr<SessionCounters>>;

double Seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

Labels With(const SessionLabels& labels, Labels more = {}) {
  Labels all = {{"tenant", labels.tenant}, {"class", labels.session_class}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Family Single(std::string name, Family::Type type, std::string help, double value) {
  return {std::move(name), std::move(help), type, {{{}, value}}};
}

// One sample for each tenant and class.
template <typename ValueOf>
Family OfSessions(const Sums& sums, std::string name, Family::Type type, std::string help,
                  ValueOf value) {
  Family family{std::move(name), std::move(help), type, {}};
  for (const auto& [labels, counters] : sums) {
    family.Add(With(labels), static_cast<double>(value(*counters)));
  }
  return family;
}

// One sample for each tenant, class and entry of a list.
template <typename Names, typename ListOf>
Family OfLists(const Sums& sums, std::string name, std::string help, const char* label,
               const Names& names, ListOf list) {
  Family family{std::move(name), std::move(help), Family::kCounter, {}};
  for (const auto& [labels, counters] : sums) {
    const auto& values = list(*counters);
    for (size_t i = 0; i < values.size(); ++i) {
      family.Add(With(labels, {{label, std::string(names[i])}}),
                 static_cast<double>(values[i].value()));
    }
  }
  return family;
}

void AddSessions(const Sums& sums, std::vector<Family>* families) {
  const auto there = [](const SessionCounters& c) {
    int64_t ended = 0;
    for (const SharedCounter& each : c.ended) ended += each.value();
    return c.opened.value() - ended;
  };
  families->push_back(OfSessions(sums, "chxd_sessions", Family::kGauge,
                                 "Sessions that are open, with or without a stream.", there));
  families->push_back(OfSessions(sums, "chxd_sessions_opened_total", Family::kCounter,
                                 "Sessions that have been opened.",
                                 [](const SessionCounters& c) { return c.opened.value(); }));
  families->push_back(OfLists(
      sums, "chxd_sessions_ended_total",
      "Sessions that have ended, by reason: closed by their clients, lease run out, killed by an "
      "administrator, protocol broken.",
      "reason", kEndReasons, [](const SessionCounters& c) -> const auto& { return c.ended; }));
  families->push_back(OfSessions(sums, "chxd_session_resumes_total", Family::kCounter,
                                 "Sessions that a client has taken up again after a cut.",
                                 [](const SessionCounters& c) { return c.resumes.value(); }));
}

void AddCommands(const Sums& sums, std::vector<Family>* families) {
  families->push_back(OfSessions(sums, "chxd_commands_total", Family::kCounter,
                                 "Commands that have been carried out.",
                                 [](const SessionCounters& c) { return c.commands.value(); }));
  families->push_back(OfSessions(sums, "chxd_slow_commands_total", Family::kCounter,
                                 "Commands that took longer than --slow-command.",
                                 [](const SessionCounters& c) { return c.slow_commands.value(); }));
  families->push_back(
      OfSessions(sums, "chxd_repeated_windows_total", Family::kCounter,
                 "Windows of commands like those before them, each of which has run as one plan.",
                 [](const SessionCounters& c) { return c.repeated_windows.value(); }));
  families->push_back(OfLists(
      sums, "chxd_errors_total",
      "Commands that have failed, by kind of error; those that only inherit an error are not "
      "counted.",
      "kind", kErrorKinds, [](const SessionCounters& c) -> const auto& { return c.errors; }));
  families->push_back(OfLists(
      sums, "chxd_received_bytes_total",
      "Bytes from clients: batches of commands with small arrays (stream), elements of uploads "
      "(transfer), elements read from shared memory (shared).",
      "way", kWays, [](const SessionCounters& c) -> const auto& { return c.received_bytes; }));
  families->push_back(OfLists(
      sums, "chxd_sent_bytes_total",
      "Bytes of elements for clients: in the stream (stream), downloads (transfer), through shared "
      "memory (shared).",
      "way", kWays, [](const SessionCounters& c) -> const auto& { return c.sent_bytes; }));
  families->push_back(
      OfSessions(sums, "chxd_turn_wait_seconds_total", Family::kCounter,
                 "Seconds that sessions have waited for their turn to compute.",
                 [](const SessionCounters& c) { return Seconds(c.wait_nanoseconds.value()); }));
}

void AddMemory(const Sums& sums, const Devices& devices, std::vector<Family>* families) {
  Family memory{"chxd_array_memory_bytes",
                "Memory of sessions' arrays: in use (live), kept for the next arrays (cached), or "
                "moved to files, and from a GPU to host memory (spilled).",
                Family::kGauge,
                {}};
  Family trims{"chxd_trims_total",
               "How often a session had to give cached memory back to make room.",
               Family::kCounter,
               {}};
  for (const auto& [labels, counters] : sums) {
    for (int i = 0; i < devices.size(); ++i) {
      const DeviceCounters& device = counters->devices[i];
      const std::string& name = devices.at(i).name();
      const int64_t live = device.live_bytes.value();
      // Read one after the other while they change.
      const int64_t cached = std::max<int64_t>(device.held_bytes.value() - live, 0);
      memory.Add(With(labels, {{"device", name}, {"state", "live"}}), static_cast<double>(live));
      memory.Add(With(labels, {{"device", name}, {"state", "cached"}}),
                 static_cast<double>(cached));
      memory.Add(With(labels, {{"device", name}, {"state", "spilled"}}),
                 static_cast<double>(device.spilled_bytes.value()));
      trims.Add(With(labels, {{"device", name}}), static_cast<double>(device.trims.value()));
    }
  }
  families->push_back(std::move(memory));
  families->push_back(std::move(trims));
}

void AddDeviceTime(const Sums& sums, const Devices& devices, std::vector<Family>* families) {
  Family busy{"chxd_device_busy_seconds_total",
              "Seconds that a GPU has worked; of several at once each has its part.",
              Family::kCounter,
              {}};
  for (const auto& [labels, counters] : sums) {
    for (int i = 0; i < devices.size(); ++i) {
      const int64_t nanoseconds = counters->devices[i].busy_nanoseconds.value();
      if (nanoseconds == 0) continue;
      busy.Add(With(labels, {{"device", devices.at(i).name()}}), Seconds(nanoseconds));
    }
  }
  families->push_back(std::move(busy));
}

void AddKernels(const Sums& sums, const Devices& devices, std::vector<Family>* families) {
  Family kernels{
      "chxd_kernels_total", "Kernels that have run, by group of operators.", Family::kCounter, {}};
  Family seconds{"chxd_kernel_seconds_total",
                 "Seconds of kernels, by group of operators; on a GPU the time to queue them. An "
                 "estimate: of kernels on less than 64 KiB one in 16 is measured.",
                 Family::kCounter,
                 {}};
  const OpGroups& groups = OpGroups::Global();
  for (const auto& [labels, counters] : sums) {
    for (int i = 0; i < devices.size(); ++i) {
      for (int g = 0; g < groups.size(); ++g) {
        const DeviceCounters::Group& group = counters->devices[i].groups[g];
        if (group.kernels.value() == 0) continue;
        const Labels of_group =
            With(labels, {{"device", devices.at(i).name()}, {"group", groups.name(g)}});
        kernels.Add(of_group, static_cast<double>(group.kernels.value()));
        seconds.Add(of_group, Seconds(group.nanoseconds.value()));
      }
    }
  }
  families->push_back(std::move(kernels));
  families->push_back(std::move(seconds));
}

void AddDaemon(const MetricSources& sources, std::vector<Family>* families) {
  families->push_back({"chxd_build_info",
                       "1; the version is a label.",
                       Family::kGauge,
                       {{{{"version", sources.version}}, 1}}});
  Family total{"chxd_device_memory_bytes", "Memory that a device has.", Family::kGauge, {}};
  Family used{
      "chxd_device_used_bytes", "Memory that all sessions hold on a device.", Family::kGauge, {}};
  for (int i = 0; i < sources.devices->size(); ++i) {
    const Labels device = {{"device", sources.devices->at(i).name()}};
    total.Add(device, static_cast<double>(sources.devices->at(i).memory_bytes()));
    used.Add(device, static_cast<double>(sources.devices->slot(i).used_bytes.load()));
  }
  families->push_back(std::move(total));
  families->push_back(std::move(used));
  if (sources.budget != nullptr) {
    families->push_back(Single("chxd_memory_used_bytes", Family::kGauge,
                               "Host memory that is charged to the daemon's limit.",
                               static_cast<double>(sources.budget->used())));
    families->push_back(Single("chxd_memory_limit_bytes", Family::kGauge,
                               "The daemon's limit of host memory, --memory.",
                               static_cast<double>(sources.budget->limit())));
  }
  families->push_back(Single("chxd_turn_waiting", Family::kGauge,
                             "Sessions that wait for their turn to compute.", sources.waiting));
  Family refusals{"chxd_refusals_total",
                  "Connections, calls and sessions that the daemon has refused: wrong tokens, a "
                  "limit that is reached, others. Wrong tokens on TCP are refused, and logged, by "
                  "its front process.",
                  Family::kCounter,
                  {}};
  for (int i = 0; i < kNumRefusals; ++i) {
    refusals.Add({{"reason", kRefusals[i]}}, static_cast<double>(Refusals()[i].value()));
  }
  families->push_back(std::move(refusals));
}

// By the names that Prometheus' own clients give them.
void AddProcess(std::vector<Family>* families) {
  const ProcessStats stats = ReadProcessStats();
  const auto add = [families](const char* name, Family::Type type, const char* help, double value) {
    families->push_back(Single(name, type, help, value));
  };
  add("process_resident_memory_bytes", Family::kGauge, "Resident memory of the daemon's process.",
      static_cast<double>(stats.resident_bytes));
  add("process_cpu_seconds_total", Family::kCounter, "CPU seconds of the daemon, all threads.",
      stats.cpu_seconds);
  add("process_start_time_seconds", Family::kGauge, "When the daemon started, seconds since 1970.",
      stats.start_time);
  add("process_open_fds", Family::kGauge, "Open file descriptors of the daemon.",
      static_cast<double>(stats.open_descriptors));
  add("process_max_fds", Family::kGauge, "The limit of open file descriptors.",
      static_cast<double>(stats.max_descriptors));
  add("process_threads", Family::kGauge, "Threads of the daemon.",
      static_cast<double>(stats.threads));
}

}  // namespace

absl::string_view NameOf(ErrorKind kind) { return kErrorKinds[static_cast<int>(kind)]; }

std::vector<Family> CollectFamilies(const MetricSources& sources) {
  const Sums sums = sources.metrics->Sum();
  std::vector<Family> families;
  AddDaemon(sources, &families);
  AddSessions(sums, &families);
  AddCommands(sums, &families);
  AddMemory(sums, *sources.devices, &families);
  AddDeviceTime(sums, *sources.devices, &families);
  AddKernels(sums, *sources.devices, &families);
  AddProcess(&families);
  return families;
}

}  // namespace chx::server
