// The two interfaces that a backend implements (Device, Stream) and the door it comes through
// (Backend). The engine knows no backend by name.
#ifndef CHX_SERVER_ENGINE_BACKEND_H_
#define CHX_SERVER_ENGINE_BACKEND_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "ops/settings.h"
#include "server/engine/communicator.h"
#include "server/engine/device_health.h"
#include "server/engine/kernel.h"

namespace chx::server {

class Device;
struct TurnGroup;

// What a kernel has found wrong in values, such as an index out of bounds, when it ran.
struct LateError {
  OpId op;
  uint32_t origin;  // Stream::origin() when it was queued
  absl::Status status;
};

// Work that a stream repeats as one. It ends before its stream.
class Sequence {
 public:
  virtual ~Sequence() = default;
  // Queues it once more.
  virtual absl::Status Repeat() = 0;
};

// A place in the work of a stream. It ends before its device.
class StreamMark {
 public:
  virtual ~StreamMark() = default;
  // Whether all that is before it is done, or never will be, as the device is lost. By any thread.
  virtual bool IsReached() const = 0;
};

// One session's ordered work on one device. Kernels and copies take effect in the order of the
// calls; only CopyOut and Synchronize wait. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() = 0;
  // Host to device. The source may be reused when the call returns.
  virtual absl::Status CopyIn(void* dst, const void* src, size_t bytes) = 0;
  // Device to host; waits for all work before it.
  virtual absl::Status CopyOut(void* dst, const void* src, size_t bytes) = 0;
  virtual absl::Status Zero(void* dst, size_t bytes) = 0;
  // From the memory of another device, after all work of its stream `from` and before what comes
  // next there; nobody waits. False: nothing was done, as these devices have no way but the host.
  virtual absl::StatusOr<bool> CopyFrom(Stream& /*from*/, void* /*dst*/, const void* /*src*/,
                                        size_t /*bytes*/) {
    return false;
  }
  // Behind all that the stream was given so far.
  virtual absl::StatusOr<std::unique_ptr<StreamMark>> NewMark() {
    return absl::UnimplementedError("the device has no marks");
  }
  // What comes next begins after what is before the mark, which is of any stream of this backend;
  // nobody waits.
  virtual absl::Status After(const StreamMark& /*mark*/) {
    return absl::UnimplementedError("the device has no marks");
  }
  // Waits; reports what went wrong since the last call.
  virtual absl::Status Synchronize() = 0;
  // For kernels that are blockwise (KernelTable): calls run(begin, end) for parts of [0, n), of
  // about `grain` each, on all threads of the device, and waits. The first error; none if it was
  // stopped, with parts left out.
  virtual absl::Status RunBlocks(int64_t n, int64_t grain,
                                 absl::FunctionRef<absl::Status(int64_t, int64_t)> run) {
    return absl::UnimplementedError("the device has no blockwise kernels");
  }

  // Of devices that work apart from the threads that queue their work: around each kernel. The
  // first may wait until it is the session's turn, and returns an error if the command is to stop.
  virtual absl::Status BeginKernel() { return absl::OkStatus(); }
  virtual absl::Status EndKernel() { return absl::OkStatus(); }
  // Queues what queue() queues, as one that can be repeated with the same addresses and numbers.
  // UNIMPLEMENTED: nothing is queued, as the device, or a kernel of these, cannot do that.
  virtual absl::StatusOr<std::unique_ptr<Sequence>> Capture(
      absl::FunctionRef<absl::Status()> /*queue*/) {
    return absl::UnimplementedError("the device has no sequences");
  }
  // Perhaps nothing more is queued for a while.
  virtual void Flush() {}
  // The first late error before the last wait (CopyOut, Synchronize), if it was not taken before.
  virtual absl::optional<LateError> TakeLateError() { return absl::nullopt; }
  // Before the first kernel: whose share of the device the stream has (null: nobody's in
  // particular; it outlives the stream), and who is told, by any thread but one at a time, how long
  // the device has worked for it.
  using Worked = std::function<void(std::chrono::nanoseconds)>;
  virtual absl::Status SetShare(TurnGroup* /*group*/, Worked /*worked*/) {
    return absl::OkStatus();
  }

  // The session's, which the executor keeps up to date.
  const Settings& settings() const { return settings_; }
  void set_settings(const Settings& settings) { settings_ = settings; }
  // What the session knows the caller of the kernels to come by; for late errors.
  uint32_t origin() const { return origin_; }
  void set_origin(uint32_t origin) { origin_ = origin; }

 private:
  Settings settings_;
  uint32_t origin_ = 0;
};

// A CPU (all its cores) or one GPU. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;  // "native:0"
  virtual size_t memory_bytes() const = 0;      // of the whole device
  virtual const KernelTable& kernels() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream() = 0;
  // Memory in large pieces, filled with zeros, aligned to 256 bytes; kMemory errors when exhausted.
  virtual absl::StatusOr<void*> AllocateSlab(size_t bytes) = 0;
  // After all streams that used it are synchronized.
  virtual void FreeSlab(void* slab, size_t bytes) = 0;
  // Of a device that is not the host: says that its streams will copy from and to this memory of
  // the host again and again, which stays where it is until Unpin. All of it has been copied then.
  virtual void Pin(char* /*memory*/, size_t /*bytes*/) {}
  virtual void Unpin(char* /*memory*/) {}
  // Whether its memory is the host's: streams of other devices may copy from and to it.
  virtual bool is_host() const { return false; }
  // Which device of the host it is, by a name that no other one has; "": it may be in no
  // communicator. If it is not empty, the device's streams have marks.
  virtual std::string hardware_id() const { return ""; }
  // Whether there is what communicators are made by.
  virtual absl::Status OpenCommunicators() {
    return absl::UnimplementedError("the device has no communicators");
  }
  // A name for the communicators of a new group, of which this device has one.
  virtual absl::StatusOr<std::string> NewCommunicatorId() {
    return absl::UnimplementedError("the device has no communicators");
  }
  // For a group of `size` ranks, of which `ranks`, one of them on this device, are this daemon's;
  // the other daemons make theirs with the same id.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> NewCommunicator(
      absl::string_view /*id*/, int /*size*/, absl::Span<const DeviceRank> /*ranks*/,
      GoesOn /*goes_on*/) {
    return absl::UnimplementedError("the device has no communicators");
  }
  // Once it is lost, the engine asks nothing of it any more but to free what it has.
  DeviceHealth& health() { return health_; }
  // Whether its streams may have sequences (Stream::Capture).
  virtual bool has_sequences() const { return false; }
  // Whether kernels that check values, such as indices, do that without a wait: then they do not
  // fail, but compute as if the element were not there, and Stream::TakeLateError has the error.
  virtual bool has_late_errors() const { return false; }
  // Asks all sessions that do nothing now to give back what they keep of this memory for later.
  // False: there is nothing.
  bool Relieve() const { return relief_ != nullptr && relief_(); }
  // Before there are sessions, and after them.
  void set_relief(std::function<bool()> relief) { relief_ = std::move(relief); }

 private:
  DeviceHealth health_;
  std::function<bool()> relief_;
};

// A kind of device: "native", "cuda", or a plug-in.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const std::string& name() const = 0;
  virtual int device_count() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Device>> OpenDevice(int index) = 0;
};

// A plug-in backend is a shared library that exports this function under kBackendEntryPoint. It
// resolves Abseil and engine symbols from the daemon. Null with *error set if it cannot run here.
inline constexpr int kBackendAbi = 9;
inline constexpr char kBackendEntryPoint[] = "ChxCreateBackend";
using BackendEntryPoint = Backend* (*)(int abi, std::string* error);

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_BACKEND_H_
