#include "server/programs/fused_run.h"

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "server/engine/stop_requested.h"

namespace chx::server {
namespace {

// What a block of all operands takes: the first-level cache of most processors has 32 KiB or more.
constexpr int64_t kCacheBytes = 32 << 10;
// With fewer elements the calls themselves would take longest.
constexpr int64_t kMinBlock = 256;
// Elements of cheap work that are worth waking a thread for.
constexpr int64_t kGrain = 64 << 10;
// Chunks of blocks at most: each has its own tensors.
constexpr int64_t kMaxChunks = 64;
constexpr int64_t kAlignment = 64;

int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t RoundUp(int64_t n, int64_t unit) { return CeilDiv(n, unit) * unit; }

// Blockwise kernels need none.
class NoScratch final : public ScratchAllocator {
 public:
  absl::StatusOr<void*> Allocate(size_t /*bytes*/) override {
    return absl::InternalError("a blockwise kernel has asked for scratch memory");
  }
};

}  // namespace

FusedRun::FusedRun(absl::Span<const TraceCall> calls,
                   const std::function<bool(int object)>& local) {
  for (const TraceCall& call : calls) AddCall(call, local);
  Merge(calls[0].kernel.outputs[0].shape);
  Split(PlaceLocals());
}

void FusedRun::AddCall(const TraceCall& call, const std::function<bool(int object)>& local) {
  calls_.push_back({&call.kernel, tensors_.size()});
  const auto add = [&](const KernelTensor& tensor, const TraceTensor& traced) {
    if (tensor.present && !tensor.is_scalar) {
      Operand operand;
      operand.tensor = tensors_.size();
      if (!local(traced.object)) operand.whole = &tensor;
      operand.object = traced.object;
      operands_.push_back(std::move(operand));
    }
    tensors_.push_back(tensor);
    tensors_.back().data = nullptr;
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) add(call.kernel.inputs[i], call.inputs[i]);
  for (size_t i = 0; i < call.outputs.size(); ++i) add(call.kernel.outputs[i], call.outputs[i]);
}

void FusedRun::Merge(const Shape& shape) {
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool merges =
        !shape_.empty() && std::all_of(operands_.begin(), operands_.end(), [&](const Operand& o) {
          return o.whole == nullptr || o.steps.back() == o.whole->strides[d] * shape[d];
        });
    if (merges) {
      shape_[shape_.size() - 1] *= shape[d];
    } else {
      shape_.push_back(shape[d]);
    }
    for (Operand& operand : operands_) {
      if (!merges) operand.steps.emplace_back();
      if (operand.whole != nullptr) operand.steps.back() = operand.whole->strides[d];
    }
  }
}

int64_t FusedRun::PlaceLocals() {
  struct Slot {
    int64_t item_size;
    int object;  // that has it now
  };
  absl::flat_hash_map<int, size_t> last_uses;  // operands
  for (size_t i = 0; i < operands_.size(); ++i) last_uses[operands_[i].object] = i;
  std::vector<Slot> slots;
  absl::flat_hash_map<int, size_t> slot_of;
  absl::flat_hash_map<int, int64_t> others;  // item sizes, by object
  size_t first_operand = 0;                  // of the call
  for (size_t c = 0, i = 0; c < calls_.size(); ++c) {
    const size_t end = c + 1 < calls_.size() ? calls_[c + 1].first : tensors_.size();
    for (; i < operands_.size() && operands_[i].tensor < end; ++i) {
      Operand& operand = operands_[i];
      const int64_t item_size = ItemSize(tensors_[operand.tensor].dtype);
      if (operand.whole != nullptr) {
        others[operand.object] = item_size;
        continue;
      }
      const auto [it, is_new] = slot_of.emplace(operand.object, slots.size());
      if (is_new) {
        // Of an object that no call uses from this one on.
        const auto free = std::find_if(slots.begin(), slots.end(), [&](const Slot& slot) {
          return slot.item_size == item_size && last_uses[slot.object] < first_operand;
        });
        it->second = static_cast<size_t>(free - slots.begin());
        if (free == slots.end()) slots.push_back({item_size, operand.object});
        slots[it->second].object = operand.object;
      }
      operand.offset = static_cast<int64_t>(it->second);  // in slots, for now
    }
    first_operand = i;
  }
  // For each element of a block; slots begin where those before them end.
  std::vector<int64_t> begins;
  for (const Slot& slot : slots) {
    begins.push_back(local_bytes_);
    local_bytes_ += slot.item_size;
  }
  for (Operand& operand : operands_) {
    if (operand.whole == nullptr) operand.offset = begins[static_cast<size_t>(operand.offset)];
  }
  int64_t bytes = local_bytes_;
  for (const auto& [object, item_size] : others) bytes += item_size;
  return bytes;
}

void FusedRun::Split(int64_t bytes_per_element) {
  const int64_t most = std::max(kMinBlock, kCacheBytes / bytes_per_element / 64 * 64);
  split_ = shape_.size() - 1;
  int64_t inner = 1;
  while (split_ > 0 && inner * shape_[split_] <= most) inner *= shape_[split_--];
  const int64_t whole = shape_[split_];
  // Of almost the same size.
  const int64_t parts = CeilDiv(whole, std::max<int64_t>(1, most / inner));
  extent_ = CeilDiv(whole, parts);
  if (inner == 1) extent_ = std::min(RoundUp(extent_, kAlignment), whole);
  parts_ = CeilDiv(whole, extent_);
  num_blocks_ = parts_;
  for (int d = 0; d < split_; ++d) num_blocks_ *= shape_[d];
  block_elements_ = extent_ * inner;

  Shape block({extent_});
  for (int d = split_ + 1; d < shape_.size(); ++d) block.push_back(shape_[d]);
  const int64_t slot_elements = RoundUp(block_elements_, kAlignment);
  for (Operand& operand : operands_) {
    KernelTensor& tensor = tensors_[operand.tensor];
    tensor.shape = block;
    if (operand.whole == nullptr) {
      tensor.strides = ContiguousStrides(block, ItemSize(tensor.dtype));
      operand.offset *= slot_elements;
      continue;
    }
    tensor.strides = Strides(absl::MakeConstSpan(operand.steps).subspan(split_));
    operand.steps.resize(static_cast<size_t>(split_) + 1);
  }
  local_bytes_ *= slot_elements;
}

int64_t FusedRun::Bytes() const {
  return static_cast<int64_t>(sizeof(*this) + tensors_.size() * sizeof(KernelTensor) +
                              operands_.size() * sizeof(Operand) + calls_.size() * sizeof(Call));
}

absl::Status FusedRun::RunBlocks(Stream& stream, int64_t begin, int64_t end) const {
  const std::unique_ptr<char[]> memory(new char[local_bytes_ + kAlignment]);  // NOLINT
  char* const locals = reinterpret_cast<char*>(
      RoundUp(static_cast<int64_t>(reinterpret_cast<intptr_t>(memory.get())), kAlignment));
  std::vector<KernelTensor> tensors = tensors_;
  for (const Operand& operand : operands_) {
    if (operand.whole == nullptr) tensors[operand.tensor].data = locals + operand.offset;
  }
  NoScratch scratch;
  int64_t extent = extent_;
  for (int64_t block = begin; block < end && !StopRequested(); ++block) {
    int64_t index[kMaxNdim];
    index[split_] = block % parts_ * extent_;
    int64_t rest = block / parts_;
    for (int d = split_ - 1; d >= 0; --d) {
      index[d] = rest % shape_[d];
      rest /= shape_[d];
    }
    const int64_t extent_now = std::min(extent_, shape_[split_] - index[split_]);
    for (const Operand& operand : operands_) {
      KernelTensor& tensor = tensors[operand.tensor];
      if (extent_now != extent) tensor.shape[0] = extent_now;
      if (operand.whole == nullptr) continue;
      tensor.data = operand.whole->data;
      for (int d = 0; d <= split_; ++d) tensor.data += index[d] * operand.steps[d];
    }
    extent = extent_now;
    for (const Call& call : calls_) {
      const PreparedKernel& kernel = *call.kernel;
      const auto all = absl::MakeConstSpan(tensors).subspan(call.first);
      const absl::Status status =
          kernel.kernel({*kernel.op, stream, scratch, all.subspan(0, kernel.inputs.size()),
                         all.subspan(kernel.inputs.size(), 1), kernel.attrs});
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status FusedRun::Run(Executor& executor) const {
  const int64_t work = block_elements_ * static_cast<int64_t>(calls_.size());
  const int64_t grain = std::max<int64_t>({1, kGrain / work, num_blocks_ / kMaxChunks});
  return executor.RepeatBlocks(
      *calls_[0].kernel, num_blocks_, grain,
      [this](Stream& stream, int64_t begin, int64_t end) { return RunBlocks(stream, begin, end); });
}

}  // namespace chx::server
