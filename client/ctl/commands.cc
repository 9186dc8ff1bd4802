#include "client/ctl/commands.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/admin/admin.h"
#include "client/admin/json.h"
#include "client/admin/trace_events.h"
#include "client/ctl/files.h"
#include "client/ctl/text.h"
#include "client/ctl/top.h"
#include "ops/error.h"

namespace chx::ctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookForSessions(100);

bool ForATerminal() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}
void PrintJson(const Json& json) { Print(absl::StrCat(Dump(json), "\n")); }

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

volatile sig_atomic_t interrupted = 0;

// While it exists Ctrl-C ends its Sleep, and nothing else.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigaction(SIGINT, &action, &former_);
  }
  ~Interruptible() { sigaction(SIGINT, &former_, nullptr); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  static void Sleep(double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    for (auto now = Clock::now(); interrupted == 0 && now < end; now = Clock::now()) {
      ctl::Sleep(std::min(0.05, std::chrono::duration<double>(end - now).count()));
    }
  }

 private:
  struct sigaction former_ = {};
};

std::string DeviceTable(const std::vector<DeviceStatus>& devices) {
  Table table({{"DEVICE"},
               {"KIND"},
               {"MEMORY", Table::kRight},
               {"USED", Table::kRight},
               {"FREE", Table::kRight},
               {"STATE"}});
  for (const DeviceStatus& device : devices) {
    const uint64_t free = device.memory_bytes - std::min(device.memory_bytes, device.used_bytes);
    table.Add({device.name, device.kind, FormatBytes(device.memory_bytes),
               FormatBytes(device.used_bytes), FormatBytes(free),
               device.lost.empty() ? "serving" : "lost"});
  }
  return table.Render(ForATerminal());
}

std::string SessionTable(const std::vector<SessionStatus>& sessions) {
  Table table({{"SESSION", Table::kRight},
               {"TENANT"},
               {"CLIENT"},
               {"PEER"},
               {"STATE"},
               {"AGE", Table::kRight},
               {"IDLE", Table::kRight},
               {"MEMORY", Table::kRight},
               {"LIMIT", Table::kRight},
               {"ARRAYS", Table::kRight},
               {"COMMANDS", Table::kRight},
               {"ERRORS", Table::kRight},
               {"LAST"}});
  for (const SessionStatus& each : sessions) {
    table.Add({absl::StrCat(each.number), each.tenant, each.client_name, each.peer, each.state,
               FormatSeconds(each.age_seconds), FormatSeconds(each.idle_seconds),
               FormatBytes(each.memory_bytes), FormatLimit(each.memory_limit_bytes),
               FormatBytes(each.host_array_bytes + each.device_array_bytes),
               FormatCount(static_cast<double>(each.commands)), absl::StrCat(each.errors),
               each.last_operator});
  }
  return table.Render(ForATerminal());
}

std::string TenantTable(const std::vector<TenantStatus>& tenants) {
  Table table({{"TENANT"},
               {"WEIGHT", Table::kRight},
               {"PRIORITY"},
               {"SESSIONS", Table::kRight},
               {"MOST", Table::kRight},
               {"MEMORY", Table::kRight},
               {"LIMIT", Table::kRight},
               {"COMMANDS", Table::kRight}});
  for (const TenantStatus& each : tenants) {
    table.Add({each.name, absl::StrFormat("%g", each.weight), each.priority,
               absl::StrCat(each.sessions),
               each.max_sessions == 0 ? "-" : absl::StrCat(each.max_sessions),
               FormatBytes(each.memory_bytes), FormatLimit(each.memory_limit_bytes),
               FormatCount(static_cast<double>(each.commands))});
  }
  return table.Render(ForATerminal());
}

std::string RunTable(const std::vector<RunStatus>& runs) {
  Table table({{"SESSION", Table::kRight},
               {"NAME"},
               {"TENANT"},
               {"RUN"},
               {"STATE"},
               {"STEP", Table::kRight},
               {"STEPS", Table::kRight},
               {"EPOCH", Table::kRight},
               {"METRIC"},
               {"AGE", Table::kRight},
               {"LEFT", Table::kRight},
               {"REASON"}});
  for (const RunStatus& each : runs) {
    const RunStatus::Metrics& metrics = each.metrics;
    table.Add(
        {absl::StrCat(each.session), each.session_name, each.tenant, each.name, each.state,
         absl::StrCat(each.step), absl::StrCat(each.steps), absl::StrFormat("%.1f", each.epoch),
         metrics.empty() ? "-" : absl::StrFormat("%s=%.4g", metrics[0].first, metrics[0].second),
         FormatSeconds(each.age_seconds),
         each.left_seconds > 0 ? FormatSeconds(each.left_seconds) : "-",
         each.message.empty() ? each.reason : absl::StrCat(each.reason, ": ", each.message)});
  }
  return table.Render(ForATerminal());
}

std::string StatusText(const DaemonStatus& daemon) {
  std::string state = daemon.draining ? "draining" : "serving";
  if (daemon.tracing) state += ", tracing";
  return absl::StrCat("version   ", Plain(daemon.version), "\nstate     ", state, "\nuptime    ",
                      FormatSeconds(daemon.uptime_seconds), "\nsessions  ", daemon.sessions, " of ",
                      daemon.max_sessions, ", ", daemon.attached, " attached\nmemory    ",
                      FormatBytes(daemon.memory_bytes), " of ",
                      FormatBytes(daemon.memory_limit_bytes), "\n");
}

class Commands {
 public:
  Commands(const Options& options, Admin* admin) : options_(options), admin_(*admin) {}

  absl::Status Status() {
    CHX_ASSIGN_OR_RETURN(const DaemonStatus daemon, admin_.Describe());
    options_.json ? PrintJson(ToJson(daemon)) : Print(StatusText(daemon));
    return absl::OkStatus();
  }
  absl::Status Devices() { return List(admin_.Devices(), DeviceTable); }
  absl::Status Sessions() { return List(admin_.Sessions(), SessionTable); }
  absl::Status Tenants() { return List(admin_.Tenants(), TenantTable); }
  absl::Status Runs() { return List(admin_.Runs(), RunTable); }

  absl::Status StopRun() { return Order(RunAction::kStop, "stopped"); }
  absl::Status PauseRun() { return Order(RunAction::kPause, "paused"); }
  absl::Status ResumeRun() { return Order(RunAction::kResume, "resumed"); }

  absl::Status Kill() {
    CHX_RETURN_IF_ERROR(admin_.KillSession(options_.session));
    Say({{"session", options_.session}, {"killed", true}},
        absl::StrCat("session ", options_.session, " has ended"));
    return absl::OkStatus();
  }
  absl::Status Limit() {
    CHX_RETURN_IF_ERROR(admin_.LimitSession(options_.session, options_.memory));
    Say({{"session", options_.session}, {"memory_limit_bytes", options_.memory}},
        absl::StrCat("session ", options_.session, " may hold ", FormatBytes(options_.memory)));
    return absl::OkStatus();
  }
  absl::Status Snapshot() {
    CHX_RETURN_IF_ERROR(admin_.Snapshot());
    Say({{"written", true}}, "the state is written");
    return absl::OkStatus();
  }

  absl::Status Drain() {
    CHX_RETURN_IF_ERROR(admin_.Drain());
    CHX_ASSIGN_OR_RETURN(DaemonStatus daemon, admin_.Describe());
    const auto end = Clock::now() + std::chrono::duration<double>(options_.timeout);
    while (options_.wait && daemon.sessions != 0) {
      if (options_.timeout > 0 && Clock::now() >= end) {
        return absl::DeadlineExceededError(
            absl::StrCat("there are still ", daemon.sessions, " sessions"));
      }
      std::this_thread::sleep_for(kLookForSessions);
      CHX_ASSIGN_OR_RETURN(daemon, admin_.Describe());
    }
    Say({{"draining", true}, {"sessions", daemon.sessions}},
        absl::StrCat("no more sessions are opened; there are ", daemon.sessions));
    return absl::OkStatus();
  }

  absl::Status Trace() {
    const Interruptible interruptible;
    CHX_RETURN_IF_ERROR(admin_.StartTrace(options_.session, options_.seconds));
    Interruptible::Sleep(options_.seconds);
    CHX_ASSIGN_OR_RETURN(const std::vector<v1::ReadTraceReply> parts, admin_.ReadTrace());
    return WriteTrace(TraceEvents(parts));
  }
  // Without a daemon, too.
  static absl::Status Merge(const Options& options, Json trace) {
    for (const std::string& path : options.merge) {
      CHX_ASSIGN_OR_RETURN(const Json client, ReadTraceFile("--merge", path));
      CHX_RETURN_IF_ERROR(MergeClientTrace(client, &trace));
    }
    return WriteFile(options.out, absl::StrCat(Dump(trace), "\n"));
  }
  static absl::StatusOr<Json> ReadTraceFile(const std::string& flag, const std::string& path) {
    CHX_ASSIGN_OR_RETURN(const std::string text, ReadFile(flag, path));
    Json trace = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!trace.is_discarded()) return trace;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " expects a trace in JSON, got ", path, ", which is none"));
  }

  absl::Status Top() {
    CHX_ASSIGN_OR_RETURN(std::vector<SessionStatus> before, admin_.Sessions());
    auto looked = Clock::now();
    for (;;) {
      Sleep(options_.interval);
      CHX_ASSIGN_OR_RETURN(std::vector<SessionStatus> after, admin_.Sessions());
      const auto now = Clock::now();
      const double seconds = std::chrono::duration<double>(now - looked).count();
      Show(RatesOf(before, after, seconds, options_.sort));
      if (options_.once) return absl::OkStatus();
      before = std::move(after);
      looked = now;
    }
  }

 private:
  absl::Status Order(RunAction order, const char* what) {
    CHX_RETURN_IF_ERROR(admin_.OrderRun(options_.session, options_.run, order));
    Say({{"session", options_.session}, {"run", options_.run}, {"asked", what}},
        absl::StrCat("run ", Plain(options_.run), " of session ", options_.session, " is ", what,
                     " after its step"));
    return absl::OkStatus();
  }
  template <typename Status>
  absl::Status List(const absl::StatusOr<std::vector<Status>>& list,
                    std::string (*table)(const std::vector<Status>&)) {
    CHX_RETURN_IF_ERROR(list.status());
    options_.json ? PrintJson(ToJson(*list)) : Print(table(*list));
    return absl::OkStatus();
  }
  void Say(const Json& json, const std::string& text) const {
    options_.json ? PrintJson(json) : Print(absl::StrCat(text, "\n"));
  }
  absl::Status WriteTrace(Json trace) const {
    const auto dropped = trace["otherData"]["dropped_spans"].get<uint64_t>();
    if (dropped != 0) {
      absl::FPrintF(stderr, "chxctl: %d spans are left out: there was no room for them\n", dropped);
    }
    return Merge(options_, std::move(trace));
  }
  void Show(const std::vector<Rates>& rates) const {
    if (options_.json) {
      Json json = Json::array();
      for (const Rates& each : rates) {
        json.push_back(ToJson(each.session));
        json.back()["compute_share"] = each.compute_share;
        json.back()["commands_per_second"] = each.commands_per_second;
      }
      PrintJson(json);
      return;
    }
    const bool redraw = !options_.once && isatty(STDOUT_FILENO) != 0;
    Print(absl::StrCat(redraw ? "\x1b[H\x1b[2J" : "", TopTable(rates, ForATerminal())));
  }

  const Options& options_;
  Admin& admin_;
};

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "chxctl: %s\n", Plain(status.message()));
  return KindOf(status) == ErrorKind::kConnection ? kNoDaemon : kRefused;
}

absl::Status Merged(const Options& options) {
  CHX_ASSIGN_OR_RETURN(Json trace, Commands::ReadTraceFile("--from", options.from));
  return Commands::Merge(options, std::move(trace));
}

}  // namespace

int Run(const Options& options) {
  if (options.command == "completion") {
    Print(CompletionScript(options.shell));
    return kDone;
  }
  if (!options.from.empty()) {
    const absl::Status merged = Merged(options);
    return merged.ok() ? kDone : Fail(merged);
  }
  const absl::StatusOr<ConnectOptions> connect = ConnectOptionsOf(options);
  if (!connect.ok()) return Fail(connect.status());
  const absl::StatusOr<std::unique_ptr<Admin>> admin = Admin::Connect(AddressOf(options), *connect);
  if (!admin.ok()) return Fail(admin.status());
  using Method = absl::Status (Commands::*)();
  const absl::flat_hash_map<std::string, Method> methods = {
      {"status", &Commands::Status},
      {"devices", &Commands::Devices},
      {"sessions", &Commands::Sessions},
      {"tenants", &Commands::Tenants},
      {"runs", &Commands::Runs},
      {"run stop", &Commands::StopRun},
      {"run pause", &Commands::PauseRun},
      {"run resume", &Commands::ResumeRun},
      {"session kill", &Commands::Kill},
      {"session limit", &Commands::Limit},
      {"session trace", &Commands::Trace},
      {"trace", &Commands::Trace},
      {"snapshot", &Commands::Snapshot},
      {"drain", &Commands::Drain},
      {"top", &Commands::Top},
  };
  const auto method = methods.find(options.command);
  if (method == methods.end()) return kUsage;
  Commands commands(options, admin->get());
  const absl::Status status = (commands.*method->second)();
  return status.ok() ? kDone : Fail(status);
}

}  // namespace chx::ctl
