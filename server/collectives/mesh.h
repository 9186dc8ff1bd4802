// What moves arrays between the daemons of a process group. It comes from a library that the daemon
// opens when it first needs one (server/gloo), and that knows nothing of chxd but this file: so
// there are only the standard library's types in it.
#ifndef CHX_SERVER_COLLECTIVES_MESH_H_
#define CHX_SERVER_COLLECTIVES_MESH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace chx::server {

// Bytes on their way, from or to memory of the caller's. Its end gives up.
class MeshTransfer {
 public:
  virtual ~MeshTransfer() = default;
  // Whether it is done, for which it waits. If not, *why is empty after Interrupt; else it says
  // why, and the mesh is of no use any more.
  virtual bool Wait(std::chrono::milliseconds timeout, std::string* why) = 0;
  // Any thread: the Wait that there is, or the next one, returns; the transfer goes on.
  virtual void Interrupt() = 0;
};

// One daemon's connections to all others of a group, which are numbered by the same positions
// everywhere. All daemons call the same collectives in the same order, one at a time. Functions
// that return a text return an empty one, or what went wrong: then the mesh is of no use any more.
// Thread-safe.
class Mesh {
 public:
  // out[i] = a[i] + b[i], or another operation, for `count` elements; out may be a or b.
  using Reduction = std::function<void(void* out, const void* a, const void* b, size_t count)>;

  virtual ~Mesh() = default;
  // `count` elements of `item` bytes (1, 2, 4 or 8) from `in`, which may be `out`, for one of the
  // daemons; at others `out` is memory to work in.
  virtual std::string Reduce(const void* in, void* out, size_t count, size_t item,
                             const Reduction& reduction, int root,
                             std::chrono::milliseconds timeout) = 0;
  // A transfer with each slot below kSlots meets the other side's, in order, and begins when both
  // are there. What is received may be shorter than there is room for.
  static constexpr uint64_t kSlots = uint64_t{1} << 62;
  virtual std::unique_ptr<MeshTransfer> Send(int to, uint64_t slot, const void* data,
                                             size_t bytes) = 0;
  virtual std::unique_ptr<MeshTransfer> Receive(int from, uint64_t slot, void* data,
                                                size_t bytes) = 0;
  // Whatever waits comes back, and the mesh is of no use any more.
  virtual void Abort() = 0;
};

// What the library exports as kMeshEntryPoint. The process has to ignore SIGPIPE. `sockets`:
// connected ones, by position, which are the mesh's from now on; that at `self` is -1. Null: *error
// says why, and the sockets are closed.
using MeshEntryPoint = Mesh* (*)(int abi, int self, int size, const int* sockets,
                                 std::string* error);
inline constexpr char kMeshEntryPoint[] = "chx_make_mesh";
inline constexpr int kMeshAbi = 2;

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_MESH_H_
