#include "client/testing/fake_daemon.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "proto/frame.h"

namespace chx {
namespace {

constexpr char kSessionId[] = "0123456789abcdef";

}  // namespace

FakeDaemon::FakeDaemon(bool local) {
  limits.set_max_batch_bytes(4 << 20);
  limits.set_max_inflight_commands(1 << 16);
  limits.set_max_inflight_bytes(16 << 20);
  limits.set_max_inline_bytes(64 << 10);
  char directory[] = "/tmp/chx-fake-XXXXXX";
  directory_ = mkdtemp(directory);
  address_ = "unix:" + directory_ + "/socket";
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (local) ListenLocally();
}

FakeDaemon::~FakeDaemon() {
  Stop();
  unlink((directory_ + "/socket").c_str());
  unlink(StreamSocketOf(directory_ + "/socket").c_str());
  rmdir(directory_.c_str());
}

void FakeDaemon::Stop() {
  if (server_ == nullptr) return;
  if (listener_ >= 0) {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      MutexLock lock(&mutex_);
      for (int connection : connections_) shutdown(connection, SHUT_RDWR);
    }
    for (std::thread& thread : local_threads_) thread.join();
    close(listener_);
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_ = nullptr;
}

void FakeDaemon::ListenLocally() {
  const std::string path = StreamSocketOf(directory_ + "/socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) abort();
  if (listen(listener_, 8) != 0) abort();
  acceptor_ = std::thread([this] {
    for (;;) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      local_threads_.emplace_back([this, connection] { ServeLocally(connection); });
    }
  });
}

void FakeDaemon::ServeLocally(int connection) {
  {
    MutexLock lock(&mutex_);
    connections_.push_back(connection);
    ++local_streams_;
  }
  FrameReader reader(connection, 8 << 20);
  std::string buffer;
  const grpc::Status status = Serve(
      [&reader](v1::Submit* submit) {
        FrameKind kind;
        absl::string_view payload;
        return reader.Next(&kind, &payload) == FrameReader::Result::kFrame &&
               submit->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
      },
      [&](const v1::Event& event) {
        return WriteFrame(connection, FrameKind::kMessage, event, &buffer);
      },
      [connection] { shutdown(connection, SHUT_RDWR); });
  v1::StreamEnd end;
  end.set_code(static_cast<uint32_t>(status.error_code()));
  end.set_message(status.error_message());
  if (!status.ok()) WriteFrame(connection, FrameKind::kEnd, end, &buffer);
  MutexLock lock(&mutex_);
  connections_.erase(std::find(connections_.begin(), connections_.end(), connection));
  close(connection);
}

std::vector<Command> FakeDaemon::Commands() const {
  MutexLock lock(&mutex_);
  return {commands_.begin(), commands_.end()};
}

std::vector<Command> FakeDaemon::Commands(CommandKind kind) const {
  MutexLock lock(&mutex_);
  std::vector<Command> commands;
  for (const Command& command : commands_) {
    if (command.kind == kind) commands.push_back(command);
  }
  return commands;
}

bool FakeDaemon::WaitFor(CommandKind kind, size_t count) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(&mutex_);
  for (;;) {
    const auto found = std::count_if(commands_.begin(), commands_.end(),
                                     [kind](const Command& c) { return c.kind == kind; });
    if (static_cast<size_t>(found) >= count) return true;
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return false;
  }
}

std::vector<size_t> FakeDaemon::BatchSizes() const {
  MutexLock lock(&mutex_);
  std::vector<size_t> sizes;
  for (const std::string& batch : batches_) sizes.push_back(batch.size());
  return sizes;
}

void FakeDaemon::CutStream() {
  MutexLock lock(&mutex_);
  if (stream_ != nullptr) (*stream_)();
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
  return stream_ != nullptr;
}

bool FakeDaemon::closed() const {
  MutexLock lock(&mutex_);
  return closed_;
}

int FakeDaemon::local_streams() const {
  MutexLock lock(&mutex_);
  return local_streams_;
}

grpc::Status FakeDaemon::Open(grpc::ServerContext* context, const v1::OpenRequest* request,
                              v1::OpenReply* reply) {
  MutexLock lock(&mutex_);
  if (request->resume_session_id().empty()) {
    ++opens_;
    last_batch_seq_ = 0;
    next_event_seq_ = 1;
    unacked_events_.clear();
    commands_.clear();
    batches_.clear();
    closed_ = forgotten_ = false;
  } else {
    if (forgotten_) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such session");
    ++resumes_;
  }
  reply->set_protocol(1);
  reply->set_session_id(kSessionId);
  for (int i = 0; i < std::min(known_ops, request->ops_size()); ++i)
    reply->add_op_ids(static_cast<uint32_t>(i) + 1);
  reply->add_devices()->set_name("native:0");
  *reply->mutable_limits() = limits;
  reply->set_last_batch_seq(last_batch_seq_);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::Execute(grpc::ServerContext* context,
                                 grpc::ServerReaderWriter<v1::Event, v1::Submit>* stream) {
  return Serve([stream](v1::Submit* submit) { return stream->Read(submit); },
               [stream](const v1::Event& event) { return stream->Write(event); },
               [context] { context->TryCancel(); });
}

grpc::Status FakeDaemon::Serve(const std::function<bool(v1::Submit*)>& read,
                               const std::function<bool(const v1::Event&)>& write,
                               const Cancel& cancel) {
  v1::Submit submit;
  bool first = true;
  grpc::Status status;
  while (status.ok() && read(&submit)) {
    std::vector<v1::Event> events(1);
    {
      MutexLock lock(&mutex_);
      if (first && (submit.session_id() != kSessionId || forgotten_)) {
        return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such session");
      }
      while (!unacked_events_.empty() &&
             unacked_events_.front().event_seq() <= submit.acked_event_seq()) {
        unacked_events_.pop_front();
      }
      if (first) events.insert(events.begin(), unacked_events_.begin(), unacked_events_.end());
      first = false;
      stream_ = &cancel;
      if (!Apply(submit, &events.back())) {
        status = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "cannot decode the batch");
      }
      if (mute_) events.clear();
    }
    changed_.notify_all();
    for (const v1::Event& event : events) {
      if (!write(event)) break;
    }
  }
  MutexLock lock(&mutex_);
  if (stream_ == &cancel) stream_ = nullptr;
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
    if (!IsAnswered(command)) continue;
    v1::FetchedValue* value = event->add_values();
    value->set_request_id(command.request_id);
    if (command.kind == CommandKind::kBarrier) continue;
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

grpc::Status FakeDaemon::Close(grpc::ServerContext* context, const v1::CloseRequest* request,
                               v1::CloseReply* reply) {
  MutexLock lock(&mutex_);
  closed_ = forgotten_ = true;
  if (stream_ != nullptr) (*stream_)();
  return grpc::Status::OK;
}

}  // namespace chx
