#include "tests/rpc/rpc_client.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/strip.h"
#include "ops/dtype.h"
#include "proto/messages.h"

namespace chx::server {
namespace {

template <typename Message>
bool Parse(absl::string_view payload, Message* message) {
  return message->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
}

}  // namespace

SocketDirectory::SocketDirectory() {
  char path[] = "/tmp/chxd-rpc-XXXXXX";
  if (mkdtemp(path) == nullptr) std::abort();
  path_ = path;
}

SocketDirectory::~SocketDirectory() {
  unlink(Socket().c_str());
  rmdir(path_.c_str());
}

int ConnectTo(const std::string& address) {
  absl::string_view path = address;
  const bool local = absl::ConsumePrefix(&path, "unix:");
  sockaddr_un here = {};
  here.sun_family = AF_UNIX;
  sockaddr_in there = {};
  there.sin_family = AF_INET;
  if (local) {
    std::memcpy(here.sun_path, path.data(), path.size());
  } else {
    const size_t colon = address.rfind(':');
    there.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &there.sin_addr);
  }
  const int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* const name =
      local ? reinterpret_cast<const sockaddr*>(&here) : reinterpret_cast<const sockaddr*>(&there);
  if (connect(fd, name, local ? sizeof(here) : sizeof(there)) != 0) {
    close(fd);
    return -1;
  }
  const timeval timeout = {30, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  return fd;
}

FrameClient::FrameClient(const std::string& address, const std::string& token)
    : fd_(ConnectTo(address)), stream_(fd_), reader_(&stream_, 1 << 30) {
  v1::Hello hello;
  hello.set_min_protocol(wire::kProtocolVersion);
  hello.set_max_protocol(wire::kProtocolVersion);
  hello.set_token(token);
  Write(FrameKind::kHello, hello);
}

FrameClient::~FrameClient() { close(fd_); }

bool FrameClient::Write(FrameKind kind, const google::protobuf::MessageLite& message) {
  return WriteFrame(&stream_, kind, message, &buffer_);
}

bool FrameClient::WriteData(absl::string_view data) {
  return WriteFrame(&stream_, FrameKind::kData, data);
}

absl::Status FrameClient::Call(const v1::Call& call, v1::Reply* reply) {
  Write(FrameKind::kCall, call);
  return ReadReply(reply);
}

absl::Status FrameClient::ReadReply(v1::Reply* reply) {
  FrameKind kind;
  absl::string_view payload;
  if (!Read(&kind, &payload) || kind != FrameKind::kReply || !Parse(payload, reply)) {
    return absl::UnavailableError("cut");
  }
  return wire::FromMessage(reply->status());
}

bool FrameClient::Read(FrameKind* kind, absl::string_view* payload) {
  return reader_.Next(kind, payload) == FrameReader::Result::kFrame;
}

bool FrameClient::ReadEvent(v1::Event* event) {
  FrameKind kind;
  absl::string_view payload;
  if (!Read(&kind, &payload)) return false;
  if (kind == FrameKind::kMessage) return Parse(payload, event);
  v1::Status end;
  if (kind == FrameKind::kEnd && Parse(payload, &end)) end_ = wire::FromMessage(end);
  return false;
}

absl::Status FrameClient::End() {
  v1::Event event;
  while (ReadEvent(&event)) {
  }
  return end_;
}

absl::Status CallOnce(const std::string& address, const std::string& token, const v1::Call& call,
                      v1::Reply* reply) {
  return FrameClient(address, token).Call(call, reply);
}

v1::ListSessionsReply SessionsAt(const std::string& address, const std::string& token) {
  v1::Call call;
  call.mutable_list_sessions();
  v1::Reply reply;
  if (!CallOnce(address, token, call, &reply).ok()) std::abort();
  return reply.list_sessions();
}

absl::Status RpcClient::Open() {
  v1::Call call;
  call.mutable_open()->set_client_name("test");
  call.mutable_open()->set_resume_session_id(session_id_);
  v1::Reply reply;
  const absl::Status status = CallOnce(address_, token_, call, &reply);
  opened = reply.open();
  session_id_ = opened.session_id();
  return status;
}

absl::Status RpcClient::Close(v1::CloseReply* reply) {
  v1::Call call;
  call.mutable_close()->set_session_id(session_id_);
  v1::Reply answer;
  const absl::Status status = CallOnce(address_, token_, call, &answer);
  *reply = answer.close();
  return status;
}

void RpcClient::Connect() {
  stream_ = std::make_unique<FrameClient>(address_, token_);
  first_ = true;
}

bool RpcClient::Send(std::string commands) { return Send(next_batch_seq_, std::move(commands)); }

bool RpcClient::Send(uint64_t batch_seq, std::string commands) {
  v1::Submit submit;
  if (first_) submit.set_session_id(session_id_);
  first_ = false;
  next_batch_seq_ = batch_seq + 1;
  submit.set_batch_seq(batch_seq);
  submit.set_acked_event_seq(acked_event_seq);
  submit.set_commands(std::move(commands));
  return stream_->Write(FrameKind::kMessage, submit);
}

absl::Status RpcClient::StreamEnd() { return stream_->End(); }

absl::Status RpcClient::FinishStream() {
  shutdown(stream_->fd(), SHUT_WR);
  return stream_->End();
}

absl::Status RpcClient::Upload(uint64_t handle, const std::vector<float>& values,
                               size_t chunk_bytes, bool again) {
  v1::Call call;
  v1::UploadHeader* header = call.mutable_upload();
  header->set_session_id(session_id_);
  header->set_handle(handle);
  header->set_dtype(static_cast<uint32_t>(Dtype::kFloat32));
  header->add_shape(static_cast<int64_t>(values.size()));
  header->set_again(again);
  FrameClient client(address_, token_);
  client.Write(FrameKind::kCall, call);
  absl::string_view data(reinterpret_cast<const char*>(values.data()),
                         values.size() * sizeof(float));
  while (!data.empty() && client.WriteData(data.substr(0, chunk_bytes))) {
    data.remove_prefix(std::min(chunk_bytes, data.size()));
  }
  client.WriteData("");
  v1::Reply reply;
  return client.ReadReply(&reply);
}

absl::Status RpcClient::Download(uint64_t handle, std::vector<float>* values) {
  v1::Call call;
  call.mutable_download()->set_session_id(session_id_);
  call.mutable_download()->set_handle(handle);
  v1::Reply reply;
  FrameClient client(address_, token_);
  const absl::Status status = client.Call(call, &reply);
  if (!status.ok()) return status;
  std::string data;
  FrameKind kind;
  absl::string_view payload;
  while (data.size() < reply.download().bytes()) {
    if (!client.Read(&kind, &payload) || kind != FrameKind::kData) {
      return absl::UnavailableError("cut");
    }
    data.append(payload.data(), payload.size());
  }
  values->resize(data.size() / sizeof(float));
  if (!data.empty()) std::memcpy(values->data(), data.data(), data.size());
  return absl::OkStatus();
}

}  // namespace chx::server
