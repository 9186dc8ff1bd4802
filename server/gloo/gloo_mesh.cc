// chxd's Mesh by Gloo.
#include <gloo/allreduce.h>
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
  GlooTransfer(std::unique_ptr<LinkedBuffer> buffer, bool sends)
      : buffer_(std::move(buffer)), sends_(sends) {}

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
    bool done = false;
    *why = failed_;
    if (!why->empty()) return false;
    *why = Caught([&] {
      done = sends_ ? buffer_->waitSend(nullptr, timeout) : buffer_->waitRecv(nullptr, timeout);
    });
    return done;
  }
  void Interrupt() override {
    if (sends_) {
      buffer_->abortWaitSend();
    } else {
      buffer_->abortWaitRecv();
    }
  }

 private:
  const std::unique_ptr<LinkedBuffer> buffer_;
  const bool sends_;
  std::string failed_;
};

// Gloo's options want a type, of which only the size counts.
template <typename Options>
void SetArrays(LinkedContext* context, const void* in, void* out, size_t count, size_t item,
               Options* options) {
  const auto set = [&](auto value) {
    using T = decltype(value);
    if (in != out) {
      options->template setInput<T>(context->NewBuffer(const_cast<void*>(in), count * item));
    }
    options->template setOutput<T>(context->NewBuffer(out, count * item));
  };
  if (item == 1) return set(uint8_t{});
  if (item == 2) return set(uint16_t{});
  if (item == 4) return set(uint32_t{});
  set(uint64_t{});
}

class GlooMesh final : public Mesh {
 public:
  explicit GlooMesh(std::shared_ptr<LinkedContext> context) : context_(std::move(context)) {}
  ~GlooMesh() override { context_->Cut(); }

  std::string AllReduce(const void* in, void* out, size_t count, size_t item,
                        const Reduction& reduction, Milliseconds timeout) override {
    return Caught([&] {
      context_->BoundWaits(timeout);
      gloo::AllreduceOptions options(context_);
      SetArrays(context_.get(), in, out, count, item, &options);
      options.setReduceFunction(reduction);
      options.setTimeout(timeout);
      gloo::allreduce(options);
    });
  }

  std::string Reduce(const void* in, void* out, size_t count, size_t item,
                     const Reduction& reduction, int root, Milliseconds timeout) override {
    return Caught([&] {
      context_->BoundWaits(timeout);
      gloo::ReduceOptions options(context_);
      SetArrays(context_.get(), in, out, count, item, &options);
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
  std::unique_ptr<MeshTransfer> Begin(int rank, uint64_t slot, void* data, size_t bytes,
                                      bool sends) {
    auto transfer = std::make_unique<GlooTransfer>(context_->NewBuffer(data, bytes), sends);
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
