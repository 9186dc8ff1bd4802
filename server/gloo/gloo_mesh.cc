// chxd's Mesh by Gloo.
#include <gloo/reduce.h>
#include <gloo/transport/unbound_buffer.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include "server/collectives/mesh.h"
#include "server/gloo/linked_context.h"

namespace chx::server {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Beyond those of Gloo's own collectives, whose first byte is small.
constexpr uint64_t kFirstSlot = uint64_t{1} << 63;

// What `run` throws, as text.
template <typename Run>
std::string Caught(const Run& run) {
  try {
    run();
    return "";
  } catch (const std::exception& error) {
    return error.what()[0] == '\0' ? "an error of Gloo's" : error.what();
  }
}

class GlooTransfer final : public MeshTransfer {
 public:
  GlooTransfer(std::shared_ptr<LinkedContext> context, void* data, size_t bytes, bool sends)
      : context_(std::move(context)),
        buffer_(context_->createUnboundBuffer(data, bytes)),
        sends_(sends) {}
  ~GlooTransfer() override {
    if (!done_) context_->Close();  // nobody takes what comes
  }

  void Begin(int rank, uint64_t slot) {
    failed_ = Caught([&] {
      if (sends_) {
        buffer_->send(rank, kFirstSlot + slot, 0, buffer_->size);
      } else {
        buffer_->recv(rank, kFirstSlot + slot, 0, buffer_->size);
      }
    });
  }
  bool Wait(Milliseconds timeout, std::string* why) override {
    *why = failed_;
    if (!why->empty()) return false;
    *why = Caught([&] {
      done_ = sends_ ? buffer_->waitSend(nullptr, timeout) : buffer_->waitRecv(nullptr, timeout);
    });
    return done_;
  }
  void Interrupt() override {
    if (sends_) {
      buffer_->abortWaitSend();
    } else {
      buffer_->abortWaitRecv();
    }
  }

 private:
  const std::shared_ptr<LinkedContext> context_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  const bool sends_;
  bool done_ = false;
  std::string failed_;
};

// Gloo's options take pointers to values, of which only the size counts.
template <typename Options>
void SetArrays(const void* in, void* out, size_t count, size_t item, Options* options) {
  const auto set = [&](auto value) {
    using T = decltype(value);
    if (in != out) options->setInput(static_cast<T*>(const_cast<void*>(in)), count);
    options->setOutput(static_cast<T*>(out), count);
  };
  if (item == 1) return set(uint8_t{});
  if (item == 2) return set(uint16_t{});
  if (item == 4) return set(uint32_t{});
  set(uint64_t{});
}

class GlooMesh final : public Mesh {
 public:
  explicit GlooMesh(std::shared_ptr<LinkedContext> context) : context_(std::move(context)) {}
  ~GlooMesh() override { context_->Close(); }

  std::string Reduce(const void* in, void* out, size_t count, size_t item,
                     const Reduction& reduction, int root, Milliseconds timeout) override {
    return Finish([&] {
      context_->BoundWaits(timeout);
      gloo::ReduceOptions options(context_);
      SetArrays(in, out, count, item, &options);
      options.setReduceFunction(reduction);
      options.setRoot(root);
      options.setTimeout(timeout);
      gloo::reduce(options);
    });
  }

  std::unique_ptr<MeshTransfer> Send(int to, uint64_t slot, const void* data,
                                     size_t bytes) override {
    return Begin(to, slot, const_cast<void*>(data), bytes, true);
  }
  std::unique_ptr<MeshTransfer> Receive(int from, uint64_t slot, void* data,
                                        size_t bytes) override {
    return Begin(from, slot, data, bytes, false);
  }

  void Abort() override { context_->Cut(); }

 private:
  template <typename Run>
  std::string Finish(const Run& run) {
    std::string why = Caught(run);
    if (!why.empty()) context_->Close();
    return why;
  }
  std::unique_ptr<MeshTransfer> Begin(int rank, uint64_t slot, void* data, size_t bytes,
                                      bool sends) {
    auto transfer = std::make_unique<GlooTransfer>(context_, data, bytes, sends);
    transfer->Begin(rank, slot);
    return transfer;
  }

  const std::shared_ptr<LinkedContext> context_;
};

}  // namespace

extern "C" Mesh* chx_make_mesh(int abi, int self, int size, const int* sockets,
                               std::string* error) {
  Mesh* mesh = nullptr;
  *error = Caught([&] {
    std::vector<OwnedFd> links;
    links.reserve(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) links.emplace_back(rank == self ? -1 : sockets[rank]);
    if (abi != kMeshAbi) throw std::runtime_error("it was made for another chxd than this one");
    auto context = std::make_shared<LinkedContext>(self, size);
    for (int rank = 0; rank < size; ++rank) {
      if (rank != self) context->Link(rank, std::move(links[static_cast<size_t>(rank)]));
    }
    mesh = new GlooMesh(std::move(context));
  });
  return mesh;
}

}  // namespace chx::server
