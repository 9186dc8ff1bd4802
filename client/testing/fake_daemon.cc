#include "client/testing/fake_daemon.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <type_traits>
#include <utility>

#include "proto/command_codec.h"
#include "proto/messages.h"

namespace chx {
namespace {

constexpr char kSessionId[] = "0123456789abcdef";

// Cuts the connection when so many bytes have come.
class CuttingStream final : public ByteStream {
 public:
  CuttingStream(int socket, int64_t bytes) : stream_(socket), socket_(socket), left_(bytes) {}
  ssize_t Receive(char* out, size_t bytes, bool wait) override {
    if (left_ >= 0) bytes = std::min(bytes, static_cast<size_t>(left_));
    const ssize_t received = bytes == 0 ? 0 : stream_.Receive(out, bytes, wait);
    if (left_ > 0) left_ -= received;
    if (left_ == 0) shutdown(socket_, SHUT_RDWR);
    return received;
  }
  ssize_t Send(const char* data, size_t bytes, bool wait, bool more) override {
    return stream_.Send(data, bytes, wait, more);
  }

 private:
  SocketStream stream_;
  const int socket_;
  int64_t left_;  // negative: no end
};

template <typename C, typename = void>
constexpr bool kHasRequestId = false;
template <typename C>
constexpr bool kHasRequestId<C, std::void_t<decltype(C::request_id)>> = true;

// 0: the command is not answered.
uint64_t RequestIdOf(const Command& command) {
  const auto id_of = [](const auto& c) -> uint64_t {
    if constexpr (kHasRequestId<std::decay_t<decltype(c)>>) {
      return c.request_id;
    } else {
      return 0;
    }
  };
  return std::visit(id_of, command);
}

template <typename Message>
bool Parse(absl::string_view payload, Message* message) {
  return message->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
}

bool Write(int connection, FrameKind kind, const google::protobuf::MessageLite& message) {
  SocketStream stream(connection);
  std::string buffer;
  return WriteFrame(&stream, kind, message, &buffer);
}

}  // namespace

FakeDaemon::FakeDaemon() {
  limits.set_max_batch_bytes(4 << 20);
  limits.set_max_inflight_commands(1 << 16);
  limits.set_max_inflight_bytes(16 << 20);
  limits.set_max_inline_bytes(64 << 10);
  limits.set_lease_seconds(30);
  char directory[] = "/tmp/chx-fake-XXXXXX";
  directory_ = mkdtemp(directory);
  address_ = "unix:" + directory_ + "/socket";
  Start();
}

FakeDaemon::~FakeDaemon() {
  Stop();
  rmdir(directory_.c_str());
}

void FakeDaemon::Stop() {
  if (listener_ < 0) return;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    MutexLock lock(&mutex_);
    for (int connection : connections_) shutdown(connection, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  close(std::exchange(listener_, -1));
  unlink((directory_ + "/socket").c_str());
}

void FakeDaemon::Start() {
  const std::string path = directory_ + "/socket";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) abort();
  if (listen(listener_, 8) != 0) abort();
  acceptor_ = std::thread([this] { Accept(); });
}

void FakeDaemon::Accept() {
  for (;;) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    threads_.emplace_back([this, connection] { ServeConnection(connection); });
  }
}

void FakeDaemon::ServeConnection(int connection) {
  int64_t cut_after = -1;
  {
    MutexLock lock(&mutex_);
    connections_.push_back(connection);
    cut_after = cut_after_;
  }
  CuttingStream stream(connection, cut_after);
  FrameReader reader(&stream, 8 << 20);
  FrameKind kind;
  absl::string_view payload;
  v1::Hello hello;
  bool open = reader.Next(&kind, &payload) == FrameReader::Result::kFrame &&
              kind == FrameKind::kHello && Parse(payload, &hello);
  while (open && reader.Next(&kind, &payload) == FrameReader::Result::kFrame) {
    v1::Call call;
    v1::Submit greeting;
    if (kind == FrameKind::kCall) {
      open = Parse(payload, &call) && Answer(connection, &reader, call);
    } else {
      open = false;
      if (kind != FrameKind::kMessage || !Parse(payload, &greeting)) break;
      const absl::Status status = Serve(connection, &reader, greeting);
      if (!status.ok()) Write(connection, FrameKind::kEnd, wire::ToMessage(status));
    }
  }
  MutexLock lock(&mutex_);
  connections_.erase(std::find(connections_.begin(), connections_.end(), connection));
  close(connection);
}

bool FakeDaemon::Answer(int connection, FrameReader* reader, const v1::Call& call) {
  v1::Reply reply;
  if (call.has_open()) {
    const absl::Status status = Open(call.open(), reply.mutable_open());
    if (!status.ok()) *reply.mutable_status() = wire::ToMessage(status);
  } else if (call.has_upload()) {
    if (!ReceiveUpload(call.upload(), reader)) return false;
  } else if (call.has_cancel()) {
    MutexLock lock(&mutex_);
    cancels_.push_back(call.cancel().through_batch_seq());
  } else if (call.has_close()) {
    MutexLock lock(&mutex_);
    closed_ = forgotten_ = true;
    if (stream_ >= 0) shutdown(stream_, SHUT_RDWR);
  }
  return Write(connection, FrameKind::kReply, reply);
}

bool FakeDaemon::ReceiveUpload(const v1::UploadHeader& header, FrameReader* reader) {
  std::string data;
  FrameKind kind;
  absl::string_view payload;
  do {
    if (reader->Next(&kind, &payload) != FrameReader::Result::kFrame || kind != FrameKind::kData) {
      return false;
    }
    data.append(payload.data(), payload.size());
  } while (!payload.empty());
  MutexLock lock(&mutex_);
  uploads_.emplace(header.handle(), std::move(data));
  return true;
}

std::map<uint64_t, std::string> FakeDaemon::uploads() const {
  MutexLock lock(&mutex_);
  return uploads_;
}

std::vector<uint64_t> FakeDaemon::cancels() const {
  MutexLock lock(&mutex_);
  return cancels_;
}

void FakeDaemon::CutConnectionsAfter(int64_t bytes) {
  MutexLock lock(&mutex_);
  cut_after_ = bytes;
}

std::vector<Command> FakeDaemon::Commands() const {
  MutexLock lock(&mutex_);
  return {commands_.begin(), commands_.end()};
}

bool FakeDaemon::WaitUntil(const std::function<bool()>& done) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(&mutex_);
  while (!done()) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return false;
  }
  return true;
}

std::vector<size_t> FakeDaemon::BatchSizes() const {
  MutexLock lock(&mutex_);
  std::vector<size_t> sizes;
  for (const std::string& batch : batches_) sizes.push_back(batch.size());
  return sizes;
}

void FakeDaemon::CutStream() {
  MutexLock lock(&mutex_);
  if (stream_ >= 0) shutdown(stream_, SHUT_RDWR);
}

void FakeDaemon::Mute(bool mute) {
  MutexLock lock(&mutex_);
  mute_ = mute;
}

void FakeDaemon::ForgetSession() {
  MutexLock lock(&mutex_);
  forgotten_ = true;
}

int FakeDaemon::opens() const {
  MutexLock lock(&mutex_);
  return opens_;
}

int FakeDaemon::resumes() const {
  MutexLock lock(&mutex_);
  return resumes_;
}

int FakeDaemon::duplicates() const {
  MutexLock lock(&mutex_);
  return duplicates_;
}

bool FakeDaemon::attached() const {
  MutexLock lock(&mutex_);
  return stream_ >= 0;
}

bool FakeDaemon::closed() const {
  MutexLock lock(&mutex_);
  return closed_;
}

absl::Status FakeDaemon::Open(const v1::OpenRequest& request, v1::OpenReply* reply) {
  MutexLock lock(&mutex_);
  if (request.resume_session_id().empty()) {
    ++opens_;
    last_batch_seq_ = 0;
    next_event_seq_ = 1;
    unacked_events_.clear();
    commands_.clear();
    batches_.clear();
    uploads_.clear();
    closed_ = forgotten_ = false;
  } else {
    if (forgotten_) return absl::NotFoundError("no such session");
    ++resumes_;
  }
  reply->set_protocol(wire::kProtocolVersion);
  reply->set_session_id(kSessionId);
  for (int i = 0; i < std::min(known_ops, request.ops_size()); ++i)
    reply->add_op_ids(static_cast<uint32_t>(i) + 1);
  reply->add_devices()->set_name("native:0");
  *reply->mutable_limits() = limits;
  reply->set_last_batch_seq(last_batch_seq_);
  return absl::OkStatus();
}

absl::Status FakeDaemon::Serve(int connection, FrameReader* reader, const v1::Submit& greeting) {
  v1::Submit submit = greeting;
  bool first = true;
  absl::Status status;
  FrameKind kind;
  absl::string_view payload;
  do {
    std::vector<v1::Event> events(1);
    {
      MutexLock lock(&mutex_);
      if (first && (submit.session_id() != kSessionId || forgotten_)) {
        return absl::NotFoundError("no such session");
      }
      while (!unacked_events_.empty() &&
             unacked_events_.front().event_seq() <= submit.acked_event_seq()) {
        unacked_events_.pop_front();
      }
      if (first) events.insert(events.begin(), unacked_events_.begin(), unacked_events_.end());
      first = false;
      stream_ = connection;
      if (!Apply(submit, &events.back())) {
        status = absl::InvalidArgumentError("cannot decode the batch");
      }
      if (mute_) events.clear();
    }
    changed_.notify_all();
    for (const v1::Event& event : events) {
      if (!Write(connection, FrameKind::kMessage, event)) break;
    }
  } while (status.ok() && reader->Next(&kind, &payload) == FrameReader::Result::kFrame &&
           kind == FrameKind::kMessage && Parse(payload, &submit));
  MutexLock lock(&mutex_);
  if (stream_ == connection) stream_ = -1;
  return status;
}

bool FakeDaemon::Apply(const v1::Submit& submit, v1::Event* event) {
  event->set_acked_batch_seq(std::max(last_batch_seq_, submit.batch_seq()));
  if (submit.batch_seq() <= last_batch_seq_) {
    if (!submit.commands().empty()) ++duplicates_;
    return true;
  }
  if (submit.batch_seq() != last_batch_seq_ + 1) return false;
  last_batch_seq_ = submit.batch_seq();
  batches_.push_back(submit.commands());
  CommandReader reader(batches_.back());
  uint32_t count = 0;
  while (!reader.AtEnd()) {
    commands_.emplace_back();
    Command& command = commands_.back();
    if (!reader.Next(&command).ok()) return false;
    ++count;
    const uint64_t request_id = RequestIdOf(command);
    if (request_id == 0) continue;
    v1::FetchedValue* value = event->add_values();
    value->set_request_id(request_id);
    if (std::holds_alternative<command::Barrier>(command)) continue;
    if (answer) {
      answer(command, value);
    } else {
      value->set_data(std::string(fetch_bytes, '\0'));
    }
  }
  if (!keep) {
    commands_.clear();
    batches_.clear();
  }
  if (event->values_size() > 0) {
    event->set_event_seq(next_event_seq_++);
    unacked_events_.push_back(*event);
  }
  return count == submit.num_commands();
}

}  // namespace chx
