#include "client/admin/trace_events.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace chx {
namespace {

void AddSpan(v1::TracedSession* session, v1::TracedKind kind, uint64_t begin, uint64_t duration,
             uint32_t device = 0, uint64_t batch = 1) {
  v1::TracedSpan* span = session->add_spans();
  span->set_kind(kind);
  span->set_begin_ns(begin);
  span->set_duration_ns(duration);
  span->set_batch(batch);
  span->set_device(device);
}

std::vector<v1::ReadTraceReply> Parts() {
  std::vector<v1::ReadTraceReply> parts(1);
  parts[0].set_start_unix_ns(1000000);
  parts[0].add_devices("native:0");
  parts[0].set_version("1.2.3");
  parts[0].set_host("node");
  parts[0].set_epoch(0x1234);
  for (uint64_t number = 1; number <= 2; ++number) {
    v1::TracedSession* session = parts[0].add_sessions();
    session->set_number(number);
    session->set_client_name("client");
    session->set_tenant("research");
    session->add_names("add");
    // In the order of their ends, as sessions record them.
    AddSpan(session, v1::TRACED_COMMAND, 2000, 1000, 1);
    AddSpan(session, v1::TRACED_COMMAND, 3000, 500, 1);
    AddSpan(session, v1::TRACED_BATCH, 1000, 3000);
  }
  return parts;
}

Json ClientTrace() {
  return {{"traceEvents",
           {{{"ph", "X"},
             {"name", "flush"},
             {"pid", 77},
             {"tid", 78},
             {"ts", 5.0},
             {"dur", 1.0},
             {"args", {{"session", 2u}, {"batch", 1u}}}},
            {{"ph", "X"},
             {"name", "flush"},
             {"pid", 77},
             {"tid", 78},
             {"ts", 6.5},
             {"dur", 1.0},
             {"args", {{"session", 2u}, {"batch", 9u}}}}}},
          {"otherData", {{"start_unix_ns", 999000u}}}};
}

TEST(TraceEventsTest, RowsAreInOrderAndNothingOverlapsInPart) {
  const Json trace = TraceEvents(Parts());
  std::map<uint64_t, std::vector<std::pair<double, double>>> rows;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"];
    rows[event["tid"]].emplace_back(begin, begin + event["dur"].get<double>());
  }
  // Two sessions, and two rows of the device on which both compute at a time.
  EXPECT_EQ(rows.size(), 4u);
  for (const auto& [tid, spans] : rows) {
    std::vector<double> open;
    double last = 0;
    for (const auto& [begin, end] : spans) {
      EXPECT_GE(begin, last);
      last = begin;
      while (!open.empty() && open.back() <= begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(end, open.back()) << tid;
      }
      open.push_back(end);
    }
  }
  EXPECT_EQ(trace["otherData"]["start_unix_ns"], 1000000u);
}

TEST(TraceEventsTest, TellsWhereItWasRecordedAndWhose) {
  std::vector<v1::ReadTraceReply> parts = Parts();
  AddSpan(parts[0].mutable_sessions(1), v1::TRACED_TRANSFER, 5000, 100, 0, 0);
  parts[0].mutable_sessions(1)->mutable_spans()->rbegin()->set_bytes(4096);
  const Json trace = TraceEvents(parts);
  const Json& other = trace["otherData"];
  EXPECT_EQ(other["version"], "1.2.3");
  EXPECT_EQ(other["host"], "node");
  EXPECT_EQ(other["instance"], "0000000000001234");
  ASSERT_EQ(other["sessions"].size(), 2u);
  EXPECT_EQ(other["sessions"][1]["number"], 2u);
  EXPECT_EQ(other["sessions"][1]["tenant"], "research");
  EXPECT_EQ(other["sessions"][1]["client_name"], "client");
  int on_device = 0;
  int transfers = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    if (event["cat"] == "command") on_device += event["args"]["device"] == "native:0" ? 1 : 0;
    if (event["cat"] != "transfer") continue;
    ++transfers;
    EXPECT_EQ(event["args"], Json({{"bytes", 4096u}}));
  }
  EXPECT_EQ(on_device, 4);
  EXPECT_EQ(transfers, 1);
}

TEST(TraceEventsTest, AClientsBatchesPointToTheDaemons) {
  Json trace = TraceEvents(Parts());
  ASSERT_TRUE(MergeClientTrace(ClientTrace(), &trace).ok());
  std::map<std::string, Json> flows;
  int moved = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f") flows[event["ph"]] = event;
    if (event["name"] == "flush" && event["pid"] == 2) {
      // The client's file begins 1 microsecond earlier.
      moved += event["ts"] == 4.0 || event["ts"] == 5.5 ? 1 : 0;
    }
  }
  EXPECT_EQ(moved, 2);
  ASSERT_EQ(flows.size(), 2u);  // the daemon has no batch 9
  EXPECT_EQ(flows["s"]["id"], flows["f"]["id"]);
  EXPECT_EQ(flows["f"]["pid"], 1);
  EXPECT_EQ(flows["f"]["tid"], 2);
  EXPECT_EQ(flows["f"]["ts"], 1.0);
  EXPECT_EQ(flows["s"]["ts"], 4.0);
  // Another client is another process.
  ASSERT_TRUE(MergeClientTrace(ClientTrace(), &trace).ok());
  bool third = false;
  for (const Json& event : trace["traceEvents"]) third = third || event["pid"] == 3;
  EXPECT_TRUE(third);
}

TEST(TraceEventsTest, OtherFilesAreRefused) {
  Json trace = TraceEvents(Parts());
  for (const char* text : {
           "[]",
           "{}",
           "{\"traceEvents\": 1}",
           "{\"traceEvents\": []}",
           "{\"traceEvents\": [], \"otherData\": {\"start_unix_ns\": \"x\"}}",
           "{\"traceEvents\": [1], \"otherData\": {\"start_unix_ns\": 1}}",
           "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\", \"pid\": 1, \"tid\": 1, "
           "\"ts\": 1}], \"otherData\": {\"start_unix_ns\": 1}}",
           "{\"traceEvents\": [{\"ph\": \"s\", \"name\": \"a\", \"pid\": \"x\", \"tid\": 1, "
           "\"ts\": 1}], \"otherData\": {\"start_unix_ns\": 1}}",
       }) {
    EXPECT_FALSE(MergeClientTrace(Json::parse(text), &trace).ok()) << text;
    Json other = Json::parse(text);
    EXPECT_FALSE(MergeClientTrace(ClientTrace(), &other).ok()) << text;
  }
  // Odd, but no reason to fail.
  const char* odd =
      "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"flush\", \"pid\": 1.5, \"tid\": -3, \"ts\": "
      "1e300, \"dur\": -1, \"cat\": [], \"id\": {}, \"args\": 3}], \"otherData\": "
      "{\"start_unix_ns\": 18446744073709551615}}";
  EXPECT_TRUE(MergeClientTrace(Json::parse(odd), &trace).ok());
}

}  // namespace
}  // namespace chx
