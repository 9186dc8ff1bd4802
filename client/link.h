// What carries an op stream: a gRPC stream, or a socket where client and daemon share a host.
#ifndef CHX_CLIENT_LINK_H_
#define CHX_CLIENT_LINK_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "proto/chxd.grpc.pb.h"

namespace chx {

// One stream. One thread at a time writes, and one reads.
class Link {
 public:
  virtual ~Link() = default;
  // False: the stream is cut.
  virtual bool Write(const v1::Submit& batch) = 0;
  // kNothing: there is nothing yet, and a while has passed or a signal come. For those only who do
  // not wait `on`; a gRPC stream always does.
  enum class Got { kEvent, kCut, kNothing };
  virtual Got Read(v1::Event* event, bool on) = 0;
  // After a Read that failed: why.
  virtual grpc::Status Finish() = 0;
  // Ends the stream, from any thread.
  virtual void Cancel() = 0;
};

class GrpcLink final : public Link {
 public:
  // `prepare` completes the context before the call begins.
  template <typename Prepare>
  GrpcLink(v1::SessionService::Stub* stub, Prepare prepare) {
    prepare(&context_);
    stream_ = stub->Execute(&context_);
  }
  bool Write(const v1::Submit& batch) override { return stream_->Write(batch); }
  Got Read(v1::Event* event, bool) override {
    return stream_->Read(event) ? Got::kEvent : Got::kCut;
  }
  grpc::Status Finish() override { return stream_->Finish(); }
  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::Submit, v1::Event>> stream_;
};

// Sends the greeting over the socket beside the daemon's own. Null if the daemon does not answer
// there: `address` is not that of a Unix socket, the daemon has none, or is another user's.
std::unique_ptr<Link> OpenLocalLink(const std::string& address, const v1::Submit& greeting);

}  // namespace chx

#endif  // CHX_CLIENT_LINK_H_
