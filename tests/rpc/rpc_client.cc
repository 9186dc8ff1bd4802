#include "tests/rpc/rpc_client.h"

#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "ops/dtype.h"

namespace chx {
namespace {

void Configure(const std::string& token, grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
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

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& token, const std::string& message, std::string* reply) {
  grpc::ClientContext context;
  Configure(token, &context);
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  grpc::GenericStub stub(channel);
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  wait();
  const grpc::Slice slice(message);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  wait();
  // To the end: the status does not come before the last message is read.
  grpc::ByteBuffer buffer;
  for (call->Read(&buffer, nullptr); wait(); call->Read(&buffer, nullptr)) {
    std::vector<grpc::Slice> slices;
    if (!buffer.Dump(&slices).ok()) continue;
    for (const grpc::Slice& part : slices) {
      reply->append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return status;
}

RpcClient::RpcClient(std::shared_ptr<grpc::Channel> channel, std::string token)
    : channel_(std::move(channel)),
      token_(std::move(token)),
      sessions_(v1::SessionService::NewStub(channel_)),
      transfers_(v1::TransferService::NewStub(channel_)) {}

std::unique_ptr<grpc::ClientContext> RpcClient::NewContext() const {
  auto context = std::make_unique<grpc::ClientContext>();
  Configure(token_, context.get());
  return context;
}

grpc::Status RpcClient::Open() {
  v1::OpenRequest request;
  request.set_min_protocol(1);
  request.set_max_protocol(1);
  request.set_client_name("test");
  request.set_resume_session_id(session_id_);
  const grpc::Status status = sessions_->Open(NewContext().get(), request, &opened);
  session_id_ = opened.session_id();
  return status;
}

grpc::Status RpcClient::Close(v1::CloseReply* reply) {
  v1::CloseRequest request;
  request.set_session_id(session_id_);
  return sessions_->Close(NewContext().get(), request, reply);
}

void RpcClient::Connect() {
  stream_.reset();
  context_ = NewContext();
  stream_ = sessions_->Execute(context_.get());
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
  return stream_->Write(submit);
}

grpc::Status RpcClient::FinishStream() {
  stream_->WritesDone();
  v1::Event event;
  while (stream_->Read(&event)) {
  }
  return stream_->Finish();
}

grpc::Status RpcClient::Upload(uint64_t handle, const std::vector<float>& values,
                               size_t chunk_bytes) {
  v1::UploadReply reply;
  const auto context = NewContext();
  const auto writer = transfers_->Upload(context.get(), &reply);
  v1::UploadChunk chunk;
  v1::UploadHeader* header = chunk.mutable_header();
  header->set_session_id(session_id_);
  header->set_handle(handle);
  header->set_dtype(static_cast<uint32_t>(Dtype::kFloat32));
  header->add_shape(static_cast<int64_t>(values.size()));
  std::string data(values.size() * sizeof(float), '\0');
  if (!data.empty()) std::memcpy(&data[0], values.data(), data.size());
  for (size_t offset = 0; offset < data.size() || offset == 0; offset += chunk_bytes) {
    chunk.set_data(data.substr(offset, chunk_bytes));
    if (!writer->Write(chunk)) break;
    chunk.clear_header();
  }
  writer->WritesDone();
  return writer->Finish();
}

grpc::Status RpcClient::Download(uint64_t handle, std::vector<float>* values) {
  v1::DownloadRequest request;
  request.set_session_id(session_id_);
  request.set_handle(handle);
  const auto context = NewContext();
  const auto reader = transfers_->Download(context.get(), request);
  v1::DownloadChunk chunk;
  std::string data;
  while (reader->Read(&chunk)) data += chunk.data();
  values->resize(data.size() / sizeof(float));
  if (!data.empty()) std::memcpy(values->data(), data.data(), data.size());
  return reader->Finish();
}

}  // namespace chx
