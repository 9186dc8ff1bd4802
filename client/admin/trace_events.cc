#include "client/admin/trace_events.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace chx {
namespace {

constexpr int kDaemonPid = 1;
// Of devices: beyond all sessions' numbers that a viewer would show. Each has room for its lanes.
constexpr uint64_t kFirstDeviceTid = uint64_t{1} << 40;
constexpr uint64_t kLanes = 1 << 16;

constexpr const char* kCategories[] = {"batch", "wait", "command", "transfer"};

double Microseconds(uint64_t ns) { return static_cast<double>(ns) / 1000; }

Json Named(const char* what, int pid, uint64_t tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

Json Complete(const std::string& name, const char* category, uint64_t tid,
              const v1::TracedSpan& span) {
  Json event = {{"ph", "X"},
                {"name", name},
                {"cat", category},
                {"pid", kDaemonPid},
                {"tid", tid},
                {"ts", Microseconds(span.begin_ns())},
                {"dur", Microseconds(span.duration_ns())},
                {"args", Json::object()}};
  if (span.batch() != 0) event["args"]["batch"] = span.batch();
  if (span.bytes() != 0) event["args"]["bytes"] = span.bytes();
  return event;
}

std::string NameOf(const v1::TracedSession& session, const v1::TracedSpan& span) {
  const bool known = span.name() < static_cast<uint32_t>(session.names_size());
  return known ? session.names(static_cast<int>(span.name())) : "?";
}

// `device`: as TracedSpan's.
std::string DeviceName(const v1::ReadTraceReply& part, uint32_t device) {
  const bool known = device <= static_cast<uint32_t>(part.devices_size());
  return known ? part.devices(static_cast<int>(device) - 1) : absl::StrCat("device ", device - 1);
}

// What ran on one device: spans in threads such that none overlap in a thread.
class DeviceRows {
 public:
  struct Piece {
    const v1::TracedSession* session;
    const v1::TracedSpan* span;
  };
  void Add(Piece piece) { pieces_.push_back(piece); }

  void Write(const std::string& device, uint64_t first_tid, Json* events) {
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
      return a.span->begin_ns() < b.span->begin_ns();
    });
    std::vector<uint64_t> ends;  // of the lanes
    for (const Piece& piece : pieces_) {
      const uint64_t begin = piece.span->begin_ns();
      size_t lane = 0;
      while (lane < ends.size() && ends[lane] > begin) ++lane;
      if (lane == ends.size()) {
        if (lane + 1 == kLanes) continue;
        ends.push_back(0);
        events->push_back(Named("thread_name", kDaemonPid, first_tid + lane,
                                lane == 0 ? device : absl::StrCat(device, " #", lane + 1)));
      }
      ends[lane] = begin + piece.span->duration_ns();
      Json event =
          Complete(NameOf(*piece.session, *piece.span), "device", first_tid + lane, *piece.span);
      event["args"]["session"] = piece.session->number();
      events->push_back(std::move(event));
    }
  }

 private:
  std::vector<Piece> pieces_;
};

struct Row {
  std::string client_name;
  std::string tenant;
  uint64_t dropped = 0;
  std::vector<Json> events;
};

void SortEvents(std::vector<Json>* events) {
  // Of those that begin at once the outer one comes first.
  const auto key = [](const Json& event) {
    return std::make_pair(event["ts"].get<double>(), -event["dur"].get<double>());
  };
  std::stable_sort(events->begin(), events->end(),
                   [&](const Json& a, const Json& b) { return key(a) < key(b); });
}

bool IsTrace(const Json& trace) {
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array() ||
      !trace.contains("otherData") || !trace["otherData"].is_object()) {
    return false;
  }
  const Json& other = trace["otherData"];
  if (!other.contains("start_unix_ns") || !other["start_unix_ns"].is_number_unsigned()) {
    return false;
  }
  return std::all_of(trace["traceEvents"].begin(), trace["traceEvents"].end(), [](const Json& e) {
    const auto text = [&e](const char* key) { return e.contains(key) && e[key].is_string(); };
    const auto number = [&e](const char* key) { return e.contains(key) && e[key].is_number(); };
    return e.is_object() && text("ph") && text("name") && number("pid") && number("tid") &&
           (e["ph"] == "M" || number("ts")) && (e["ph"] != "X" || number("dur"));
  });
}

using BatchKey = std::pair<uint64_t, uint64_t>;  // the session's number and the batch's

// 0 if there is none.
uint64_t Argument(const Json& event, const char* name) {
  if (!event.contains("args") || !event["args"].is_object()) return 0;
  const Json& args = event["args"];
  if (!args.contains(name) || !args[name].is_number_unsigned()) return 0;
  return args[name].get<uint64_t>();
}

struct Place {
  uint64_t tid;
  double ts;
};

// Where the daemon's sessions have begun their batches.
std::map<BatchKey, Place> Batches(const Json& events) {
  std::map<BatchKey, Place> batches;
  for (const Json& event : events) {
    if (event["pid"] != kDaemonPid || event["ph"] != "X" || !event.contains("cat") ||
        event["cat"] != "batch") {
      continue;
    }
    const uint64_t session = event["tid"].get<uint64_t>();
    batches.emplace(BatchKey{session, Argument(event, "batch")},
                    Place{session, event["ts"].get<double>()});
  }
  return batches;
}

Json Flow(const char* phase, uint64_t id, int pid, uint64_t tid, double ts) {
  Json event = {{"ph", phase}, {"name", "batch"}, {"cat", "flow"}, {"id", id},
                {"pid", pid},  {"tid", tid},      {"ts", ts}};
  if (phase[0] == 'f') event["bp"] = "e";
  return event;
}

}  // namespace

Json TraceEvents(const std::vector<v1::ReadTraceReply>& parts) {
  std::map<uint64_t, Row> rows;
  std::map<uint32_t, DeviceRows> devices;
  for (const v1::ReadTraceReply& part : parts) {
    for (const v1::TracedSession& session : part.sessions()) {
      Row& row = rows[session.number()];
      row.client_name = session.client_name();
      row.tenant = session.tenant();
      row.dropped = session.dropped();
      for (const v1::TracedSpan& span : session.spans()) {
        const size_t kind = std::min<size_t>(span.kind(), std::size(kCategories) - 1);
        Json event = Complete(NameOf(session, span), kCategories[kind], session.number(), span);
        if (span.device() != 0) {
          event["args"]["device"] = DeviceName(parts.front(), span.device());
          devices[span.device()].Add({&session, &span});
        }
        row.events.push_back(std::move(event));
      }
    }
  }
  Json events = Json::array();
  events.push_back(Named("process_name", kDaemonPid, 0, "chxd"));
  Json sessions = Json::array();
  uint64_t dropped = 0;
  for (auto& [number, row] : rows) {
    sessions.push_back(
        {{"number", number}, {"client_name", row.client_name}, {"tenant", row.tenant}});
    std::string name = absl::StrCat("session ", number, ": ", row.client_name);
    if (row.dropped != 0) absl::StrAppend(&name, " (", row.dropped, " spans left out)");
    dropped += row.dropped;
    events.push_back(Named("thread_name", kDaemonPid, number, name));
    SortEvents(&row.events);
    for (Json& event : row.events) events.push_back(std::move(event));
  }
  for (auto& [device, pieces] : devices) {
    pieces.Write(DeviceName(parts.front(), device), kFirstDeviceTid + device * kLanes, &events);
  }
  const v1::ReadTraceReply& first =
      parts.empty() ? v1::ReadTraceReply::default_instance() : parts.front();
  return {{"traceEvents", std::move(events)},
          {"displayTimeUnit", "ns"},
          {"otherData",
           {{"start_unix_ns", first.start_unix_ns()},
            {"dropped_spans", dropped},
            {"version", first.version()},
            {"host", first.host()},
            {"instance", absl::StrFormat("%016x", first.epoch())},
            {"sessions", std::move(sessions)}}}};
}

absl::Status MergeClientTrace(const Json& client, Json* trace) {
  if (!IsTrace(*trace)) {
    return absl::InvalidArgumentError("[trace] expects a trace that chxctl has written");
  }
  if (!IsTrace(client)) {
    return absl::InvalidArgumentError("[trace] expects a trace that a client has written");
  }
  Json& events = (*trace)["traceEvents"];
  int pid = kDaemonPid;
  uint64_t flow = 0;
  for (const Json& event : events) {
    pid = std::max(pid, event["pid"].get<int>());
    if (event.contains("id") && event["id"].is_number_unsigned()) {
      flow = std::max(flow, event["id"].get<uint64_t>());
    }
  }
  ++pid;
  const std::map<BatchKey, Place> batches = Batches(events);
  const auto start = [](const Json& file) {
    return file["otherData"]["start_unix_ns"].get<int64_t>();
  };
  const double shift = static_cast<double>(start(client) - start(*trace)) / 1000;
  std::vector<Json> arrows;
  for (Json event : client["traceEvents"]) {
    event["pid"] = pid;
    if (event["ph"] != "M") event["ts"] = event["ts"].get<double>() + shift;
    const auto batch = batches.find({Argument(event, "session"), Argument(event, "batch")});
    if (event["ph"] == "X" && event["name"] == "flush" && batch != batches.end()) {
      ++flow;
      arrows.push_back(
          Flow("s", flow, pid, event["tid"].get<uint64_t>(), event["ts"].get<double>()));
      arrows.push_back(Flow("f", flow, kDaemonPid, batch->second.tid, batch->second.ts));
    }
    events.push_back(std::move(event));
  }
  for (Json& arrow : arrows) events.push_back(std::move(arrow));
  return absl::OkStatus();
}

}  // namespace chx
