// Runs operators, one at a time and in order, on a session's devices.
#ifndef CHX_SERVER_ENGINE_EXECUTOR_H_
#define CHX_SERVER_ENGINE_EXECUTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "ops/infer.h"
#include "server/engine/array.h"
#include "server/engine/collectives.h"
#include "server/engine/devices.h"
#include "server/engine/kernel.h"
#include "server/engine/kernel_observer.h"
#include "server/engine/memory_budget.h"
#include "server/engine/memory_pool.h"
#include "server/engine/segments.h"
#include "server/engine/shared_storage.h"
#include "server/observability/counters.h"

namespace chx::server {

class PendingReduction;
class ThreadKernels;

// An operand of what the executor runs.
struct ArrayOperand : BasicOperand<const Array*> {
  using BasicOperand::BasicOperand;

  // The window of commands releases the array before anything else uses it: if nobody else holds
  // its memory, the output may take it over.
  bool last_use = false;
};
using ArrayCall = OpCall<ArrayOperand>;

using RunOutputs = absl::InlinedVector<Array, 1>;

// One session's streams and memory pools, one of each per device, opened on first use. Not
// thread-safe. Kernels, views, transfers and collectives only; compositions are autograd's.
class Executor : private ScratchAllocator {
 public:
  // `share`: the client is on this host and may map arrays. `counters`: one for each device, which
  // outlive this object; null: nothing is counted.
  Executor(const Devices* devices, MemoryAccountPtr account, bool share = false,
           std::vector<DeviceCounters>* counters = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Whether Run can run the operator there: always, but for compositions, of which devices have
  // kernels where that is faster. Such a kernel may decline by an UnimplementedError.
  bool HasKernel(const OpDef& op, DeviceId device) const;

  // Infers, allocates, casts and broadcasts, and calls the kernel. *outputs is replaced; it is
  // empty after an in-place operator.
  absl::Status Run(const ArrayCall& call, RunOutputs* outputs) {
    EndUses();
    return RunPart(call, outputs);
  }

  // What has been in use so far may move from now on. Run says so itself.
  void EndUses() { ++clock_.now; }
  // For a run of prepared kernels: the array stays where it is until EndUses; and it is there.
  void Touch(const Array& array) { array.buffer->Touch(clock_.now); }
  absl::Status Keep(const Array& array) { return Use(array); }
  // Moves an upload that the client could still write to, unless it has to stay.
  absl::Status Unshare(const Array& array);
  // Calls a kernel once more, or meets the other ranks for a collective, with the tensors as they
  // are now. All its memory must have been kept.
  // Its scratch memory lies in `scratch`, which is aligned as arrays are, as far as that has room.
  absl::Status Repeat(const PreparedKernel& call, absl::Span<char> scratch = {});
  // A collective once more, with which another thread goes on: until the end of what is returned
  // nobody writes what it reads, or uses what it writes.
  absl::StatusOr<std::unique_ptr<StartedCollective>> StartRepeat(const PreparedKernel& call);
  // For a collective that will not be repeated, for that reason: the other ranks learn it.
  void MeetWithout(const PreparedKernel& call, const absl::Status& failed);
  // Calls run(stream, begin, end) for parts of [0, n), as Stream::RunBlocks does, as one kernel:
  // all of a run of blockwise kernels, of which `first` is the first.
  absl::Status RepeatBlocks(const PreparedKernel& first, int64_t n, int64_t grain,
                            absl::FunctionRef<absl::Status(Stream&, int64_t, int64_t)> run);
  // As Stream::Capture. run() calls Repeat, with room for all scratch memory.
  absl::StatusOr<std::unique_ptr<Sequence>> Capture(DeviceId device,
                                                    absl::FunctionRef<absl::Status()> run);
  // A sequence of so many kernels of these operators, once more.
  absl::Status Repeat(DeviceId device, Sequence* sequence, absl::Span<const OpId> kernels);
  // Told of each kernel from now on; null: nobody is. `apart`: results lie beside their inputs
  // then, also where an input is not used again, unless there is no memory.
  void set_observer(KernelObserver* observer, bool apart = false) {
    observer_ = observer;
    apart_ = apart;
  }
  // What collectives meet other ranks by; null: there are no groups. It outlives this object.
  void set_collectives(Collectives* collectives) { collectives_ = collectives; }
  // Begins an all_reduce with these attributes, of arrays whose elements are exchanged in `dtype`
  // (none: as they are). `beyond`: the session may do anything before its end, also write them. No
  // array that is in a graph: the caller has seen to that.
  absl::StatusOr<std::unique_ptr<PendingReduction>> StartReduction(
      absl::Span<const Array> arrays, absl::optional<Dtype> dtype,
      absl::Span<const AttrValue> attrs, bool beyond);
  // The session will not come to what its group does next.
  void BreakGroup(absl::Span<const AttrValue> attrs, absl::string_view why) {
    if (collectives_ != nullptr) collectives_->Break(attrs, why);
  }
  // The session has left it.
  void ForgetGroup(int64_t group);
  // Waits for it: arrays of their own, like those that it began with.
  absl::StatusOr<std::vector<Array>> FinishReduction(std::unique_ptr<PendingReduction> pending);
  // Asked to give memory back before an allocation fails; true: it has. Null: nobody is.
  void set_relief(std::function<bool()> relief) { relief_ = std::move(relief); }
  // Whose share of devices it has that work apart from the calling thread. Before the first array.
  void set_turn_group(TurnGroup* group) { turn_group_ = group; }
  // The serial of the last buffer that was made.
  uint64_t last_buffer() const { return clock_.buffers; }

  absl::StatusOr<Array> Allocate(const ArraySpec& contiguous);
  absl::Status CopyIn(const Array& contiguous, int64_t offset, absl::string_view bytes);
  // Elements in C order; waits for the device. The caller has charged them.
  absl::StatusOr<std::string> CopyOut(const Array& array);
  // Some of these bytes, which must be there.
  absl::Status CopyOut(const Array& array, int64_t begin, int64_t bytes, char* out);
  // Values of arrays on the device pass through `stage`, an array in shared memory.
  void PrepareStage(const Array& stage, DeviceId device);
  // A C-contiguous array with the same values; `array` itself if it is one.
  absl::StatusOr<Array> Contiguous(const Array& array);
  absl::Status Synchronize();
  // Of the device: Stream::TakeLateError. The origin is that of the call's command.
  absl::optional<LateError> TakeLateError(DeviceId device);
  void set_origin(uint32_t origin) { origin_ = origin; }
  // At the end of a window of commands: Stream::Flush.
  void Flush();
  // Whether an operator over lists may write to these arrays: their elements are distinct, and no
  // other array at the same position of the lists has any of them.
  static absl::Status CheckApart(const OpDef& op, absl::Span<const Array* const> arrays);
  // For all that runs from now on.
  void Configure(const Settings& settings);
  const Settings& settings() const { return settings_; }
  // How often.
  uint64_t configured() const { return configured_; }

  // Before a command runs on arrays (null: an operand is none): locks those that other sessions may
  // have too, until *use is gone, or says why not. What the operator writes is copied first if that
  // is what the session may do. What no Hold has named is held for one kernel or copy at a time.
  absl::Status Hold(const OpDef& op, absl::Span<const Array* const> inputs, SharedUse* use);
  // The same for a command that is no operator.
  struct SharedOperand {
    const Array* array = nullptr;  // null: none
    bool writes = false;
  };
  absl::Status Hold(absl::string_view op, absl::Span<const SharedOperand> operands, SharedUse* use);
  // Whether a Hold covers the memory now.
  bool Holds(const Buffer& buffer, bool writes) const {
    return held_ != nullptr && held_->Holds(buffer.lease().get(), writes);
  }
  // False: none of the session's arrays is, or was, in memory that several sessions may have.
  bool shares() const { return shares_; }
  // Moves the array's memory, and so that of all views of it, to where other sessions can have it
  // too, unless it is there. An error if it is another session's, or the client sees it.
  absl::StatusOr<Ref<SharedStorage>> MoveToStorage(const Array& array);
  // An array in the memory of a lease.
  absl::StatusOr<Array> Attach(const Ref<SharedLease>& lease, const ArraySpec& spec);

  // A kMemory error where memory is not shared, or is not enough.
  absl::StatusOr<Array> AllocateShared(const ArraySpec& contiguous);
  // Moves the array's memory, and so that of all views of it, where the client can map it.
  absl::Status Share(const Array& array);
  // A copy in C order that the client can map; `array` itself if it is one already.
  absl::StatusOr<Array> SharedContiguous(const Array& array);
  // The address of the block that holds an array in shared memory.
  Segments::Address AddressOf(const Array& array) { return segments_.Find(array.buffer->data()); }
  Segments& segments() { return segments_; }

  // As MemoryPool::TryTrim, of all pools.
  bool TryTrim(const Device* device);
  // Gives the pools' unused memory back to the devices; false if there is none.
  bool Trim();
  // A kMemory error if what a program's run needs at once, in bytes by device, is more than the
  // session may ever have.
  absl::Status CheckFits(absl::Span<const int64_t> bytes) const;
  // That, or moves arrays to files for a little more room; false if there is none to be had.
  bool Reclaim();
  const MemoryAccountPtr& account() const { return account_; }
  const Devices& devices() const { return *devices_; }

 private:
  class RankArrays;
  struct DeviceState {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<MemoryPool> pool;
    const KernelTable* kernels = nullptr;
    DeviceCounters* counters = nullptr;
    const DeviceHealth* health = nullptr;
  };

  // As Run, as a part of the operator that runs: what that uses stays in use.
  absl::Status RunPart(const ArrayCall& call, RunOutputs* outputs);
  // Before a kernel is given the array's address: brings it back if it is spilled. It stays where
  // it is until the next operator. The only door to memory of a device: an array that has not come
  // through it may be away, and its address null.
  absl::Status Use(const Array& array) {
    array.buffer->Touch(clock_.now);
    return array.buffer->spilled() ? Restore(array) : absl::OkStatus();
  }
  absl::Status Restore(const Array& array);
  absl::StatusOr<void*> Allocate(size_t bytes) override;  // scratch of the kernel that runs
  absl::Status HoldOperands(const ArrayCall& call, SharedUse* use);
  // For an operator that reads the array; nothing to do in a Hold.
  absl::Status HoldOne(absl::string_view op, const Array& array, SharedUse* use);
  absl::Status PrepareWrite(absl::string_view op, const Array& array);
  // Copies all elements of one buffer to another one.
  absl::Status CopyBuffer(const Ref<Buffer>& from, const Ref<Buffer>& to, DeviceId device);
  absl::StatusOr<DeviceState*> StateOf(DeviceId device);
  absl::Status LostError(DeviceId device) const;
  // Of the device's pool. At the session's limit others give back what they do not use, or move it.
  absl::StatusOr<Ref<Buffer>> NewBuffer(const DeviceState& state, int64_t bytes);
  bool ReclaimFromOthers(const DeviceState& state, const absl::Status& why, int64_t bytes);
  absl::Status PrepareInput(const OpDef& kernel_op, const ArrayOperand& input, Dtype dtype,
                            const Array* in_place_target,
                            absl::InlinedVector<Array, 2>* temporaries, KernelTensor* tensor);
  // From where the current command comes.
  KernelCall NewCall(const OpDef& op, Kernel kernel, DeviceId device,
                     absl::Span<const KernelTensor> inputs, absl::Span<const KernelTensor> outputs,
                     absl::Span<const AttrValue> attrs) const;
  // With scratch memory of its own. Errors name `op`. `large_operand`: bytes, as of KernelTimer.
  absl::Status CallKernel(const OpDef& op, const KernelCall& call, int64_t large_operand);
  // By the kernel of `kernel_op`, which is another operator than the call's for an in-place form.
  absl::Status RunKernel(const ArrayCall& call, const OpDef& kernel_op, const InferResult& inferred,
                         const Array* in_place_target, RunOutputs* outputs);
  absl::Status RunView(const OpDef& op, const Array& input, const InferResult& inferred,
                       RunOutputs* outputs);
  absl::Status RunInPlace(const ArrayCall& call, const InferResult& inferred);
  absl::Status RunLists(const ArrayCall& call, const InferResult& inferred);
  absl::Status RunTransfer(const OpDef& op, const Array& input, const ArraySpec& spec,
                           RunOutputs* outputs);
  // executor_collectives.cc
  absl::StatusOr<DeviceId> HostDevice() const;
  absl::StatusOr<Array> ForRanks(const OpDef& op, const Array& input, Dtype dtype, DeviceId where);
  absl::Status PrepareCollective(const ArrayCall& call, const InferResult& inferred, DeviceId where,
                                 RunOutputs* inputs, RunOutputs* outputs);
  // Where all of them are, if arrays there may be in a communicator.
  absl::optional<DeviceId> ConnectedDevice(absl::Span<const ArraySpec* const> specs) const;
  // The same of what the call takes and gives.
  absl::optional<DeviceId> RanksDevice(const ArrayCall& call, const InferResult& inferred) const;
  absl::Status RunCollective(const ArrayCall& call, const InferResult& inferred,
                             RunOutputs* outputs);
  // All of the reduction, whose arrays `pending` gets.
  absl::Status ReduceNow(absl::Span<const Array> arrays, absl::optional<Dtype> dtype,
                         PendingReduction* pending);
  absl::Status RepeatCollective(const PreparedKernel& call);
  absl::StatusOr<ThreadKernels> NewThreadKernels(DeviceId host);
  // For reductions of a group that another thread runs; null: there is none to be had.
  std::shared_ptr<Stream> ExchangeStream(int64_t group, DeviceId device);
  absl::StatusOr<std::unique_ptr<StartedCollective>> StartOnDevice(
      const CollectiveCall& call, DeviceId device, DeviceId host, std::shared_ptr<Stream> exchange);
  // By another thread, of arrays in the host's memory.
  absl::StatusOr<std::unique_ptr<StartedCollective>> StartCollective(const CollectiveCall& call,
                                                                     DeviceId host);
  // `host`: whose kernels reduce arrays that are in the host's memory.
  absl::Status MeetRanks(const CollectiveCall& rank, DeviceId host);
  // All elements, from memory to memory. False: there is no such way between their devices.
  absl::StatusOr<bool> CopyAcross(absl::string_view op, const Array& from, const Array& to);
  absl::StatusOr<Array> Cast(const Array& array, Dtype dtype);
  absl::StatusOr<Array> Copy(const Array& array);
  // Runs a kernel on arrays as they are: one input, one output.
  absl::Status RunUnary(absl::string_view op, const Array& input, const Array& output,
                        absl::Span<const AttrValue> attrs);

  const Devices* const devices_;
  const MemoryAccountPtr account_;
  const bool share_;
  std::vector<DeviceCounters>* const counters_;
  Settings settings_;
  uint64_t configured_ = 0;
  bool captures_ = false;
  UseClock clock_;     // outlives the pools
  Segments segments_;  // so does this
  std::vector<DeviceState> states_;
  struct Exchange {
    int64_t group;
    DeviceId device;
    std::shared_ptr<Stream> stream;
  };
  std::vector<Exchange> exchanges_;
  DeviceState* current_ = nullptr;  // of the kernel that runs
  std::vector<Ref<Buffer>> scratch_;
  absl::Span<char> scratch_room_;  // for the kernel that runs
  int64_t scratch_bytes_ = 0;      // that it has asked for
  SharedUse* held_ = nullptr;      // of the command that runs
  bool shares_ = false;
  KernelObserver* observer_ = nullptr;
  Collectives* collectives_ = nullptr;
  bool apart_ = false;
  std::function<bool()> relief_;
  TurnGroup* turn_group_ = nullptr;
  uint32_t origin_ = 0;  // of what runs now
  // Memory that a client may be reading, of arrays that have moved from there to a storage.
  std::vector<Ref<Buffer>> left_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_EXECUTOR_H_
