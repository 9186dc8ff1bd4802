// Frames of all kinds through the daemon's own handlers, one connection an input: a Hello, then the
// input as it is, or, by its first byte, as one frame's payload or as commands for a session; in
// one piece or many, and perhaps cut. kSessionId stands for the id of a session that is there.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/chxd.pb.h"
#include "proto/command_codec.h"
#include "proto/frame.h"
#include "server/daemon.h"
#include "server/native/native_backend.h"
#include "tests/fuzz/command_counts.h"
#include "tests/fuzz/generator.h"
#include "tests/fuzz/target.h"
#include "tests/rpc/rpc_client.h"

namespace chx {
namespace {

using server::Backend;
using server::ConnectTo;
using server::Daemon;
using server::FrameClient;
using server::Options;
using server::ParseListen;
using server::RpcClient;
using server::SocketDirectory;

constexpr char kSessionId[] = "the session's id";  // as long as one
constexpr size_t kIdBytes = sizeof(kSessionId) - 1;
constexpr uint8_t kRaw = 0;             // the input is frames
constexpr uint8_t kCommands = 7;        // a session executes what generator.h makes of the input
constexpr uint8_t kInsteadOfHello = 8;  // the input is all there is

// On a busy machine a session's lease may end before its stream has begun.
void Check(const absl::Status& status) {
  if (status.ok() || absl::IsNotFound(status)) return;
  std::cerr << status << std::endl;
  std::abort();
}

struct {
  uint64_t connections = 0;
  uint64_t cut = 0;
  uint64_t sessions = 0;
  CommandCounts commands;
  std::array<uint64_t, 64> calls = {};  // of well-formed single calls, by field number
  std::array<uint64_t, 32> codes = {};  // of the daemon's replies and ends
  std::array<uint64_t, 8> frames = {};  // the daemon's, by kind
} counts;

// For the life of the process.
struct World {
  std::unique_ptr<Backend> backend = server::CreateNativeBackend({1});
  SocketDirectory directory;
  std::unique_ptr<Daemon> daemon;
  std::unique_ptr<RpcClient> client;

  World() {
    Options options;
    options.devices = "native:0";
    options.session_memory = 4 << 20;
    options.lease = std::chrono::milliseconds(200);  // those that Open makes go soon
    options.collective_timeout = std::chrono::milliseconds(1);
    options.listeners = *ParseListen("unix:" + directory.Socket());
    daemon = std::move(*Daemon::Start(options, {backend.get()}));
    NewSession();
  }
  std::string address() const { return "unix:" + directory.Socket(); }
  void NewSession() {
    client = std::make_unique<RpcClient>(address());
    Check(client->Open());
    Check(client->Upload(1, {1, 2}, 100));
  }
};

std::string FrameOf(uint32_t kind, const std::string& payload) {
  const uint32_t header[] = {static_cast<uint32_t>(payload.size()), kind};
  return std::string(reinterpret_cast<const char*>(header), sizeof(header)) + payload;
}

void CountCode(const v1::Status& status) { ++counts.codes[std::min(status.code(), 31u)]; }

// Reads all that the daemon says, which has to be frames of its kinds, and to end.
void ReadToTheEnd(int fd) {
  SocketStream stream(fd);
  FrameReader reader(&stream, 64 << 20);
  FrameKind kind;
  absl::string_view payload;
  FrameReader::Result result;
  while ((result = reader.Next(&kind, &payload)) == FrameReader::Result::kFrame) {
    ++counts.frames[static_cast<size_t>(kind)];
    const int size = static_cast<int>(payload.size());
    v1::Reply reply;
    v1::Event event;
    v1::Status status;
    bool good = kind == FrameKind::kData;
    if (kind == FrameKind::kReply && (good = reply.ParseFromArray(payload.data(), size))) {
      CountCode(reply.status());
    }
    if (kind == FrameKind::kEnd && (good = status.ParseFromArray(payload.data(), size))) {
      CountCode(status);
    }
    if (kind == FrameKind::kMessage) good = event.ParseFromArray(payload.data(), size);
    if (!good) std::abort();
  }
  // Silence is no end: the socket's timeout has passed.
  if (result == FrameReader::Result::kBad || errno == EAGAIN) std::abort();
}

// `how`: 0 sends all at once and reads the answers; else pieces of so many bytes, and every second
// time the connection is cut.
void Exchange(int fd, absl::string_view bytes, size_t how) {
  ++counts.connections;
  SocketStream stream(fd);
  const size_t piece = how == 0 ? bytes.size() : how;
  while (!bytes.empty() && SendAll(&stream, bytes.substr(0, piece))) {
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (how % 2 == 1) {
    ++counts.cut;
    return;
  }
  shutdown(fd, SHUT_WR);
  ReadToTheEnd(fd);
}

// A session of its own, whose stream carries commands to the end, and answers each batch.
void ExecuteCommands(const std::string& address, absl::string_view bytes) {
  RpcClient client(address);
  Check(client.Open());
  client.Connect();
  ++counts.sessions;
  Choices choices(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  CommandGenerator generator(&choices);
  std::string batch;
  for (const Command& command : InitialArrays()) CommandWriter(&batch).Write(command);
  uint64_t barrier = uint64_t{1} << 40;  // beyond the generator's numbers of requests
  for (bool more = true; more;) {
    Command command;
    while (batch.size() < (32 << 10) && (more = generator.Next(&command))) {
      if (TakesLong(command)) continue;
      counts.commands.Add(command);
      CommandWriter(&batch).Write(command);
    }
    CommandWriter(&batch).Write(command::Barrier{++barrier});
    if (!client.Send(std::exchange(batch, ""))) return Check(client.FinishStream());
    for (bool answered = false; !answered;) {
      v1::Event event;
      if (!client.Read(&event)) {
        const absl::Status end = client.FinishStream();
        if (end.ok()) std::abort();  // without a word
        return Check(end);
      }
      client.acked_event_seq = event.event_seq();
      for (const v1::FetchedValue& value : event.values()) {
        answered = answered || value.request_id() == barrier;
      }
    }
  }
  v1::CloseReply reply;
  Check(client.Close(&reply));
}

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static chx::World* const world = new chx::World;
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t place = bytes.find(chx::kSessionId);
  if (place != std::string::npos) {
    bytes.replace(place, chx::kIdBytes, world->client->session_id());
  }
  const uint8_t what = data[0] % (chx::kInsteadOfHello + 1);
  const size_t how = data[0] / (chx::kInsteadOfHello + 1);
  if (what == chx::kCommands) {
    chx::ExecuteCommands(world->address(), bytes);
  } else if (what == chx::kInsteadOfHello) {
    const int fd = chx::ConnectTo(world->address());
    chx::Exchange(fd, bytes, how);
    close(fd);
  } else {
    chx::v1::Call call;
    if (what == static_cast<uint8_t>(chx::FrameKind::kCall) && call.ParseFromString(bytes)) {
      ++chx::counts.calls[std::min<size_t>(call.method_case(), 31)];
    }
    chx::FrameClient client(world->address());
    if (what != chx::kRaw) bytes = chx::FrameOf(what, bytes);
    chx::Exchange(client.fd(), bytes, how);
  }
  // Closed by what we sent, or its lease has ended.
  std::vector<float> values;
  if (!world->client->Download(1, &values).ok()) world->NewSession();
  return 0;
}

namespace chx {

std::string FuzzCounts() {
  std::string text = absl::StrCat("connections ", counts.connections, ", cut ", counts.cut, "\n");
  const google::protobuf::Descriptor* const calls = v1::Call::descriptor();
  for (int i = 0; i < calls->field_count(); ++i) {
    absl::StrAppend(&text, "  call ", calls->field(i)->name(), " ",
                    counts.calls[static_cast<size_t>(calls->field(i)->number())], "\n");
  }
  for (size_t code = 0; code < counts.codes.size(); ++code) {
    if (counts.codes[code] == 0) continue;
    absl::StrAppend(&text, "  replies ",
                    absl::StatusCodeToString(static_cast<absl::StatusCode>(code)), " ",
                    counts.codes[code], "\n");
  }
  for (size_t kind = 0; kind < counts.frames.size(); ++kind) {
    absl::StrAppend(&text, "  frames of kind ", kind, ": ", counts.frames[kind], "\n");
  }
  return absl::StrCat(text, "sessions ", counts.sessions, ", ", counts.commands.ToString());
}

namespace {

struct Seeds {
  std::vector<std::string> all;

  // Returns the message's frame, for seeds of several frames.
  std::string Add(FrameKind kind, const google::protobuf::Message& message) {
    const std::string payload = message.SerializeAsString();
    const auto number = static_cast<uint32_t>(kind);
    all.push_back(std::string(1, static_cast<char>(number)) + payload);
    return FrameOf(number, payload);
  }
  void AddRaw(const std::string& frames) {
    all.push_back(std::string(1, static_cast<char>(kRaw)) + frames);
  }
};

// A session is opened, taken up again, and gets commands.
void AddOpenings(Seeds* seeds) {
  v1::Hello hello;
  hello.set_min_protocol(1);
  hello.set_max_protocol(9);
  hello.set_token("token");
  seeds->Add(FrameKind::kHello, hello);
  seeds->all.push_back(std::string(1, static_cast<char>(kInsteadOfHello)) +
                       hello.SerializeAsString());
  v1::Call call;
  call.mutable_open()->set_client_name("fuzz");
  v1::OpSignature* op = call.mutable_open()->add_ops();
  op->set_name("add");
  op->set_hash(7);
  seeds->Add(FrameKind::kCall, call);
  call.mutable_open()->set_resume_session_id(kSessionId);
  const std::string resumed = seeds->Add(FrameKind::kCall, call);
  v1::Submit submit;
  submit.set_session_id(kSessionId);
  submit.set_batch_seq(1);
  submit.set_num_commands(1);
  std::string commands;
  CommandWriter(&commands).Write(command::Fetch{1, 1});
  submit.set_commands(commands);
  const std::string greeting = seeds->Add(FrameKind::kMessage, submit);
  submit.set_batch_seq(2);
  seeds->AddRaw(resumed + greeting + seeds->Add(FrameKind::kMessage, submit));
}

void AddCalls(Seeds* seeds) {
  v1::Call call;
  call.mutable_close()->set_session_id(kSessionId);
  seeds->Add(FrameKind::kCall, call);
  call.mutable_cancel()->set_session_id(kSessionId);
  call.mutable_cancel()->set_through_batch_seq(9);
  seeds->Add(FrameKind::kCall, call);
  call.mutable_upload()->set_session_id(kSessionId);
  call.mutable_upload()->set_handle(2);
  call.mutable_upload()->set_dtype(7);
  call.mutable_upload()->add_shape(2);
  const auto data = static_cast<uint32_t>(FrameKind::kData);
  seeds->AddRaw(seeds->Add(FrameKind::kCall, call) + FrameOf(data, "12345678") + FrameOf(data, ""));
  call.mutable_download()->set_session_id(kSessionId);
  call.mutable_download()->set_handle(1);
  const std::string download = seeds->Add(FrameKind::kCall, call);
  seeds->AddRaw(download + download);
  v1::StartRunRequest& start = *call.mutable_start_run();
  start.set_session_id(kSessionId);
  start.mutable_spec()->set_name("run");
  start.mutable_spec()->set_steps(2);
  start.mutable_spec()->set_log_every(1);
  start.mutable_spec()->mutable_step()->set_program(1);
  start.mutable_spec()->mutable_step()->set_batch_size(1);
  start.mutable_spec()->mutable_step()->add_data(1);
  start.mutable_spec()->mutable_step()->add_metrics()->set_name("loss");
  start.mutable_spec()->add_rules()->set_kind(1);
  start.mutable_spec()->mutable_step()->set_rest(2);
  start.mutable_spec()->set_rows(3);
  start.mutable_spec()->set_marks(4);
  seeds->Add(FrameKind::kCall, call);
  call.mutable_watch_run()->set_session_id(kSessionId);
  call.mutable_watch_run()->set_name("run");
  seeds->Add(FrameKind::kCall, call);
  call.mutable_control_run()->set_session_id(kSessionId);
  call.mutable_control_run()->set_name("run");
  seeds->Add(FrameKind::kCall, call);
  call.mutable_list_runs()->set_session_id(kSessionId);
  seeds->Add(FrameKind::kCall, call);
  call.mutable_list_devices();
  seeds->Add(FrameKind::kCall, call);
  call.mutable_list_sessions();
  seeds->Add(FrameKind::kCall, call);
  call.mutable_kill_session()->set_number(1);
  seeds->Add(FrameKind::kCall, call);
  call.mutable_health();
  seeds->Add(FrameKind::kCall, call);
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  Seeds seeds;
  for (size_t length : {50, 300, 2000}) {
    std::string any(1, static_cast<char>(kCommands));
    uint32_t state = 1;
    while (any.size() < length) {
      state = state * 1664525 + 1013904223;
      any.push_back(static_cast<char>(state >> 24));
    }
    seeds.all.push_back(any);
  }
  AddOpenings(&seeds);
  AddCalls(&seeds);
  return seeds.all;
}

}  // namespace chx
