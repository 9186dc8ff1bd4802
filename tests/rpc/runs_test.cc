// Runs, by calls that no client of ours makes.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/registry.h"
#include "proto/command_codec.h"
#include "server/tenancy/token_hash.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx::server {
namespace {

constexpr char kVision[] = "the token of vision, made up";
constexpr char kSpeech[] = "the token of speech, made up";
constexpr uint64_t kProgram = 7;
constexpr Handle kData = 1;
constexpr Handle kOne = 2;
constexpr Handle kUnrecorded = 100;
constexpr Handle kOfRuns = Handle{3} << 62;

class RunsTest : public DaemonTest {
 protected:
  // A session with data (4, 2) and a program that gives a minibatch's sum.
  void Prepare() {
    client_ = std::make_unique<RpcClient>(address(), token_);
    ASSERT_TRUE(client_->Open().ok());
    client_->Connect();
    const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8};
    const auto bytes = [&rows](size_t count) {
      return absl::string_view(reinterpret_cast<const char*>(rows.data()), count * sizeof(float));
    };
    std::string batch;
    CommandWriter writer(&batch);
    writer.Write(command::Upload{kData, Dtype::kFloat32, 0, {4, 2}, bytes(8)});
    writer.Write(command::Upload{kOne, Dtype::kFloat32, 0, {1, 2}, bytes(2)});
    writer.Write(command::BeginProgram{kProgram, {kOne}});
    writer.Write(Sum(kOne, kUnrecorded));
    command::EndProgram end;
    end.request_id = 1;
    end.program = kProgram;
    end.outputs = {kUnrecorded};
    writer.Write(end);
    ASSERT_TRUE(client_->Send(batch));
    v1::Event event;
    ASSERT_TRUE(client_->Read(&event));
    ASSERT_EQ(event.values_size(), 1) << event.ShortDebugString();
    ASSERT_FALSE(event.values(0).has_error()) << event.ShortDebugString();
  }

  static command::ApplyOp Sum(Handle input, Handle result) {
    command::ApplyOp call;
    call.op = static_cast<uint16_t>(OpRegistry::Global().Find("sum")->id + 1);
    call.inputs = {HandleOperand(input)};
    call.results = {result};
    call.attrs = {AttrValue(), AttrValue(false), AttrValue()};
    return call;
  }

  v1::Call ACall() {
    v1::Call call;
    call.mutable_start_run()->set_session_id(client_->session_id());
    v1::RunSpec& spec = *call.mutable_start_run()->mutable_spec();
    spec.set_name("run");
    spec.set_attempt(1);
    v1::RunCalls& step = *spec.mutable_step();
    step.set_program(kProgram);
    step.add_data(kData);
    step.set_batch_size(1);
    v1::RunMetric& metric = *step.add_metrics();
    metric.set_name("sum");
    spec.set_steps(6);
    spec.set_log_every(1);
    return call;
  }
  absl::Status Ask(const v1::Call& call, v1::Reply* reply) {
    return CallOnce(address(), token_, call, reply);
  }
  absl::Status Ask(const v1::Call& call) {
    v1::Reply reply;
    return Ask(call, &reply);
  }
  // The last events.
  v1::WatchRunReply WatchToEnd(const std::string& name = "run") {
    v1::Call call;
    call.mutable_watch_run()->set_session_id(client_->session_id());
    call.mutable_watch_run()->set_name(name);
    call.mutable_watch_run()->set_wait_seconds(5);
    for (;;) {
      v1::Reply reply;
      const absl::Status status = Ask(call, &reply);
      EXPECT_TRUE(status.ok()) << status;
      const v1::WatchRunReply& news = reply.watch_run();
      if (!status.ok() || (news.events_size() > 0 && news.events().rbegin()->kind() == 6)) {
        return news;
      }
      if (news.events_size() > 0) {
        call.mutable_watch_run()->set_from(news.events().rbegin()->number() + 1);
      }
    }
  }
  // The run to its end, and the first metric of each log event.
  v1::WatchRunReply WatchAll(std::vector<double>* logged) {
    WatchToEnd();
    v1::Call watch;
    v1::Reply reply;
    watch.mutable_watch_run()->set_session_id(client_->session_id());
    watch.mutable_watch_run()->set_name("run");
    EXPECT_TRUE(Ask(watch, &reply).ok());
    logged->clear();
    for (const v1::RunEvent& event : reply.watch_run().events()) {
      if (event.kind() == 1) logged->push_back(event.values(0));
    }
    return reply.watch_run();
  }
  int Count() {
    v1::Call call;
    v1::Reply reply;
    call.mutable_list_runs()->set_session_id(client_->session_id());
    EXPECT_TRUE(Ask(call, &reply).ok());
    return reply.list_runs().runs_size();
  }
  absl::Status Stop(const std::string& name) {
    v1::Call call;
    call.mutable_control_run()->set_session_id(client_->session_id());
    call.mutable_control_run()->set_name(name);
    call.mutable_control_run()->set_order(2);
    return Ask(call);
  }
  void ExpectAlive() {
    std::vector<float> values;
    ASSERT_TRUE(client_->Download(kData, &values).ok());
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  }

  std::string token_;
  std::unique_ptr<RpcClient> client_;
};

TEST_F(RunsTest, TakesRowAfterRow) {
  Start();
  Prepare();
  v1::Call call = ACall();
  ASSERT_TRUE(Ask(call).ok());
  ASSERT_TRUE(Ask(call).ok());  // the same attempt
  std::vector<double> sums;
  const v1::WatchRunReply all = WatchAll(&sums);
  EXPECT_EQ(sums, (std::vector<double>{3, 7, 11, 15, 3, 7}));
  EXPECT_EQ(all.run().steps_per_epoch(), 4);
  EXPECT_EQ(all.events().rbegin()->reason(), "done");
  ASSERT_TRUE(Ask(call).ok());
  EXPECT_EQ(Count(), 1);
  call.mutable_start_run()->mutable_spec()->set_attempt(2);  // it has ended, and makes room
  ASSERT_TRUE(Ask(call).ok());
  WatchToEnd();
  EXPECT_EQ(Count(), 1);
}

TEST_F(RunsTest, RefusesWhatItDoesNotHave) {
  Start();
  Prepare();
  const std::vector<std::function<void(v1::StartRunRequest*)>> changes = {
      [](auto* r) { r->set_epoch(12345); },
      [](auto* r) { r->clear_spec(); },
      [](auto* r) { r->mutable_spec()->clear_step(); },
      [](auto* r) { r->mutable_spec()->set_name(std::string(1 << 16, 'x')); },
      [](auto* r) { r->mutable_spec()->mutable_step()->set_program(8); },
      [](auto* r) { r->mutable_spec()->mutable_step()->set_program(kOfRuns); },
      [](auto* r) { r->mutable_spec()->mutable_step()->set_data(0, 0); },
      [](auto* r) { r->mutable_spec()->mutable_step()->set_data(0, 99); },
      [](auto* r) { r->mutable_spec()->mutable_step()->set_data(0, kOfRuns); },
      [](auto* r) { r->mutable_spec()->mutable_step()->mutable_metrics(0)->set_output(1); },
      [](auto* r) { r->mutable_spec()->mutable_step()->mutable_metrics(0)->set_output(~0u); },
      [](auto* r) { r->mutable_spec()->set_done(2); },
      [](auto* r) { r->mutable_spec()->set_done(-1); },
      [](auto* r) { r->mutable_spec()->set_done(1); },
      [](auto* r) { r->mutable_spec()->set_done(7); },
      [](auto* r) { r->mutable_spec()->set_done(std::numeric_limits<int64_t>::max()); },
      [](auto* r) { r->mutable_spec()->mutable_step()->set_rest(8); },
      [](auto* r) { r->mutable_spec()->mutable_step()->set_rest(kProgram); },  // none are left over
      [](auto* r) {
        r->mutable_spec()->mutable_step()->set_batch_size(3);
        r->mutable_spec()->mutable_step()->set_rest(kOfRuns);
      },
      [](auto* r) { r->mutable_spec()->set_rows(99); },
      [](auto* r) { r->mutable_spec()->set_rows(kData); },
      [](auto* r) { r->mutable_spec()->set_marks(99); },
      [](auto* r) { r->mutable_spec()->set_marks(kData); },
      [](auto* r) { r->mutable_spec()->add_first(kUnrecorded); },
      [](auto* r) { r->mutable_spec()->set_values(kData); },
      [](auto* r) { r->mutable_spec()->set_values(99); },
      [](auto* r) { r->mutable_spec()->mutable_evaluation()->set_program(9); },
      [](auto* r) {
        *r->mutable_spec()->mutable_evaluation() = r->spec().step();
        r->mutable_spec()->set_evaluate_every(1);
        r->mutable_spec()->mutable_evaluation()->set_batch_size(5);
      },
      [](auto* r) { r->mutable_spec()->add_rules()->set_kind(4); },
      [](auto* r) { r->mutable_spec()->add_rules()->set_metric(1); },
      [](auto* r) { r->mutable_spec()->add_rules()->set_of_evaluation(true); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    v1::Call call = ACall();
    changes[i](call.mutable_start_run());
    EXPECT_FALSE(Ask(call).ok()) << i;
  }
  EXPECT_EQ(Count(), 0);
  v1::Call control;
  control.mutable_control_run()->set_session_id(client_->session_id());
  control.mutable_control_run()->set_name("run");
  EXPECT_FALSE(Ask(control).ok());
  ASSERT_TRUE(Ask(ACall()).ok());
  for (uint32_t order : {3u, 4u, ~0u}) {  // 3 is the daemon's own
    control.mutable_control_run()->set_order(order);
    EXPECT_FALSE(Ask(control).ok());
  }
  WatchToEnd();
  ExpectAlive();
}

TEST_F(RunsTest, TablesAreChecked) {
  Start();
  Prepare();
  Handle handle = 1000;
  const auto upload = [&](const std::vector<int64_t>& shape, const std::vector<int64_t>& values) {
    std::string batch;
    CommandWriter(&batch).Write(
        command::Upload{++handle,
                        Dtype::kInt64,
                        0,
                        {shape.begin(), shape.end()},
                        {reinterpret_cast<const char*>(values.data()), 8 * values.size()}});
    CommandWriter(&batch).Write(command::Fetch{7, handle});
    EXPECT_TRUE(client_->Send(batch));
    v1::Event event;
    EXPECT_TRUE(client_->Read(&event));  // it is there
    EXPECT_EQ(event.values_size(), 1);
    return handle;
  };
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  using Table = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
  for (const auto& [shape, values] : std::vector<Table>{{{6, 1}, {0, 1, 2, 3, 0, 4}},
                                                        {{6, 1}, {0, 1, 2, -1, 0, 3}},
                                                        {{6, 1}, {kMin, 1, 2, 3, 0, 3}},
                                                        {{6, 1}, {0, 1, 2, 3, 0, kMax}},
                                                        {{6}, {0, 1, 2, 3, 0, 3}},
                                                        {{1, 6}, {0, 1, 2, 3, 0, 3}},
                                                        {{5, 1}, {0, 1, 2, 3, 0}},
                                                        {{0, 1}, {}},
                                                        {{}, {0}}}) {
    v1::Call call = ACall();
    call.mutable_start_run()->mutable_spec()->set_rows(upload(shape, values));
    EXPECT_FALSE(Ask(call).ok()) << testing::PrintToString(values);
  }
  for (const auto& [shape, values] : std::vector<Table>{{{1, 2}, {0, 1}},
                                                        {{1, 2}, {7, 1}},
                                                        {{1, 2}, {-1, 1}},
                                                        {{1, 2}, {kMax, 1}},
                                                        {{1, 2}, {kMin, 1}},
                                                        {{1, 2}, {1, 8}},
                                                        {{1, 2}, {1, -1}},
                                                        {{1, 2}, {1, kMin}},
                                                        {{2, 2}, {2, 1, 2, 1}},
                                                        {{2, 2}, {3, 1, 2, 1}},
                                                        {{2}, {1, 1}},
                                                        {{1, 3}, {1, 1, 1}},
                                                        {{}, {1}}}) {
    v1::Call call = ACall();
    call.mutable_start_run()->mutable_spec()->set_marks(upload(shape, values));
    EXPECT_FALSE(Ask(call).ok()) << testing::PrintToString(values);
  }
  EXPECT_EQ(Count(), 0);
  v1::Call call = ACall();
  call.mutable_start_run()->mutable_spec()->set_log_every(100);
  call.mutable_start_run()->mutable_spec()->set_rows(upload({6, 1}, {3, 3, 0, 1, 0, 3}));
  call.mutable_start_run()->mutable_spec()->set_marks(upload({3, 2}, {2, 1, 5, 3, 6, 0}));
  ASSERT_TRUE(Ask(call).ok());
  std::vector<double> means;
  WatchAll(&means);
  EXPECT_EQ(means, (std::vector<double>{15, 13.0 / 3, 15}));
  // Steps that the client has made: what it says of them, in an array of them all.
  call = ACall();
  call.mutable_start_run()->mutable_spec()->set_attempt(2);
  call.mutable_start_run()->mutable_spec()->set_done(5);
  call.mutable_start_run()->mutable_spec()->add_first(upload({5}, {50, 40, 30, 20, 10}));
  ASSERT_TRUE(Ask(call).ok());
  WatchAll(&means);
  EXPECT_EQ(means, (std::vector<double>{50, 40, 30, 20, 10, 7}));
  for (auto [count, done] : {std::pair(5, 4), {5, 6}, {0, 5}, {0, 1}}) {
    call.mutable_start_run()->mutable_spec()->set_attempt(3);
    call.mutable_start_run()->mutable_spec()->set_done(done);
    call.mutable_start_run()->mutable_spec()->set_first(
        0, upload({count}, std::vector<int64_t>(static_cast<size_t>(count))));
    EXPECT_FALSE(Ask(call).ok()) << count << " " << done;
  }
  ExpectAlive();
}

TEST_F(RunsTest, RandomSpecsDoNoHarm) {
  Start();
  Prepare();
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<int64_t> numbers = {0,
                                        1,
                                        2,
                                        3,
                                        4,
                                        5,
                                        -1,
                                        int64_t{1} << 20,
                                        int64_t{1} << 40,
                                        std::numeric_limits<int64_t>::max(),
                                        std::numeric_limits<int64_t>::min()};
  const auto number = [&] { return numbers[random() % numbers.size()]; };
  for (int round = 0; round < 300; ++round) {
    v1::Call call = ACall();
    v1::RunSpec& spec = *call.mutable_start_run()->mutable_spec();
    spec.set_attempt(random());
    spec.set_name(absl::StrCat("run", random() % 3));
    for (int change = 0; change < 3; ++change) {
      switch (random() % 13) {
        case 0:
          spec.mutable_step()->set_batch_size(number());
          break;
        case 1:
          spec.set_steps(number());
          break;
        case 2:
          spec.set_shuffle(static_cast<uint64_t>(number()));
          break;
        case 3:
          spec.set_log_every(number());
          break;
        case 4:
          *spec.mutable_evaluation() = spec.step();
          spec.set_evaluate_every(number());
          break;
        case 5: {
          v1::RunRule& rule = *spec.add_rules();
          rule.set_kind(static_cast<uint32_t>(random() % 4));
          rule.set_bound(static_cast<double>(number()));
          rule.set_patience(number());
          break;
        }
        case 6:
          spec.set_time_limit(static_cast<double>(number()));
          break;
        case 7:
          spec.mutable_step()->set_data(0, static_cast<uint64_t>(number()));
          break;
        case 8:
          spec.set_rows(static_cast<uint64_t>(number()));
          break;
        case 9:
          spec.set_marks(static_cast<uint64_t>(number()));
          break;
        case 10:
          spec.mutable_step()->set_rest(random() % 2 == 0 ? kProgram : random());
          spec.mutable_step()->set_batch_size(static_cast<int64_t>(random() % 4));
          break;
        case 11:
          spec.set_done(number());
          break;
        default:
          spec.set_values(static_cast<uint64_t>(number()));
      }
    }
    const bool started = Ask(call).ok();
    if (random() % 2 == 0 && started) {
      EXPECT_TRUE(Stop(spec.name()).ok());
    }
  }
  for (const char* name : {"run0", "run1", "run2"}) {
    if (Stop(name).ok()) WatchToEnd(name);
  }
  ExpectAlive();
}

// What is under them is not the client's: a batch that names one is malformed.
TEST_F(RunsTest, HandlesOfRunsAreNotForClients) {
  Start();
  Prepare();
  v1::Call call = ACall();
  call.mutable_start_run()->mutable_spec()->mutable_step()->set_data(0, uint64_t{1} << 63);
  const absl::Status status = Ask(call);
  EXPECT_NE(status.message().find("below 2^63"), absl::string_view::npos) << status;
  std::string batch;
  CommandWriter(&batch).Release({kOfRuns});
  v1::Event event;
  EXPECT_FALSE(client_->Send(batch) && client_->Read(&event));
}

TEST_F(RunsTest, AreTheirTenantsOnly) {
  for (const auto& [name, token] : {std::pair("vision", kVision), std::pair("speech", kSpeech)}) {
    Tenant tenant;
    tenant.name = name;
    tenant.tokens = {{HashToken(token), absl::InfiniteFuture()}};
    options.credentials.tenants.push_back(std::move(tenant));
  }
  Start();
  token_ = kVision;
  Prepare();
  v1::Call start = ACall();
  start.mutable_start_run()->mutable_spec()->set_steps(int64_t{1} << 40);
  ASSERT_TRUE(Ask(start).ok());
  std::vector<v1::Call> calls = {start, {}, {}, {}};
  calls[1].mutable_watch_run()->set_session_id(client_->session_id());
  calls[1].mutable_watch_run()->set_name("run");
  calls[2].mutable_control_run()->set_session_id(client_->session_id());
  calls[2].mutable_control_run()->set_name("run");
  calls[2].mutable_control_run()->set_order(1);
  calls[3].mutable_list_runs()->set_session_id(client_->session_id());
  for (const v1::Call& call : calls) {
    v1::Reply reply;
    EXPECT_TRUE(absl::IsNotFound(CallOnce(address(), kSpeech, call, &reply)));
    EXPECT_TRUE(Ask(call).ok()) << call.ShortDebugString();
  }
  // Nor do administrators see and order what is another tenant's.
  v1::Call list;
  list.mutable_list_all_runs();
  v1::Call stop;
  stop.mutable_order_run()->set_session(client_->opened.session_number());
  stop.mutable_order_run()->set_name("run");
  stop.mutable_order_run()->set_order(2);
  v1::Reply reply;
  ASSERT_TRUE(CallOnce(address(), kSpeech, list, &reply).ok());
  EXPECT_EQ(reply.list_all_runs().num_runs(), 0u);
  EXPECT_EQ(reply.list_all_runs().runs_size(), 0);
  EXPECT_TRUE(absl::IsNotFound(CallOnce(address(), kSpeech, stop, &reply)));
  ASSERT_TRUE(Ask(list, &reply).ok());
  ASSERT_EQ(reply.list_all_runs().runs_size(), 1);
  EXPECT_EQ(reply.list_all_runs().runs(0).tenant(), "vision");
  EXPECT_EQ(reply.list_all_runs().runs(0).run().name(), "run");
  stop.mutable_order_run()->set_order(3);
  EXPECT_FALSE(Ask(stop).ok());
  stop.mutable_order_run()->set_order(2);
  EXPECT_TRUE(Ask(stop).ok());
  EXPECT_EQ(WatchToEnd().events().rbegin()->reason(), "stopped");
}

TEST_F(RunsTest, EndWithTheirSessionAndTheDaemon) {
  Start();
  for (int i = 0; i < 3; ++i) {
    Prepare();
    v1::Call start = ACall();
    start.mutable_start_run()->mutable_spec()->set_steps(int64_t{1} << 40);
    ASSERT_TRUE(Ask(start).ok());
    if (i == 2) break;  // the fixture ends the daemon
    v1::CloseReply reply;
    EXPECT_TRUE(client_->Close(&reply).ok());
    EXPECT_TRUE(absl::IsNotFound(Stop("run")));
  }
}

}  // namespace
}  // namespace chx::server
