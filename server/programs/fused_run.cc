#include "server/programs/fused_run.h"

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "ops/error.h"
#include "server/engine/stop_requested.h"

namespace chx::server {
namespace {

// What a block of all operands takes: the first-level cache of most processors has 32 KiB or more.
constexpr int64_t kCacheBytes = 32 << 10;
// Of rows that are longer than an element: each kernel should have several, so that its call does
// not take longest, and the second-level cache is near enough.
constexpr int64_t kRowCacheBytes = 128 << 10;
// With fewer elements the calls themselves would take longest.
constexpr int64_t kMinBlock = 256;
// Elements of cheap work that are worth waking a thread for.
constexpr int64_t kGrain = 64 << 10;
// Chunks of blocks at most: each has its own tensors.
constexpr int64_t kMaxChunks = 64;
constexpr int64_t kAlignment = 64;

int64_t RowElements(const KernelTensor& tensor, int row_dims) {
  int64_t n = 1;
  for (int d = row_dims; d < tensor.ndim(); ++d) n *= tensor.shape[d];
  return n;
}

int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t RoundUp(int64_t n, int64_t unit) { return CeilDiv(n, unit) * unit; }

// Kernels that go by blocks need none.
class NoScratch final : public ScratchAllocator {
 public:
  absl::StatusOr<void*> Allocate(size_t /*bytes*/) override {
    return absl::InternalError("a kernel of a block has asked for scratch memory");
  }
};

}  // namespace

// What a thread has of a block.
class FusedRun::Blocks {
 public:
  explicit Blocks(const FusedRun& run)
      : run_(run),
        memory_(new char[run.local_bytes_ + kAlignment]),  // NOLINT
        tensors_(run.tensors_),
        extent_(run.extent_) {
    char* const locals = reinterpret_cast<char*>(
        RoundUp(static_cast<int64_t>(reinterpret_cast<intptr_t>(memory_.get())), kAlignment));
    for (const Operand& operand : run.operands_) {
      if (operand.whole == nullptr) tensors_[operand.tensor].data = locals + operand.offset;
    }
  }

  // All calls, on `extent` rows along split_ from an index of dimensions through split_ on.
  // `states`: of a part, for reductions.
  absl::Status Run(Stream& stream, const int64_t* index, int64_t extent, char* states) {
    for (const Operand& operand : run_.operands_) {
      KernelTensor& tensor = tensors_[operand.tensor];
      if (extent != extent_) tensor.shape[operand.rows_at] = extent;
      if (operand.whole == nullptr) continue;
      tensor.data = operand.whole->data;
      for (int d = 0; d <= run_.split_; ++d) {
        tensor.data += index[d] * operand.steps[static_cast<size_t>(d)];
      }
    }
    extent_ = extent;
    for (const Call& call : run_.calls_) {
      if (call.reduction != nullptr) {
        Gather(*call.reduction, tensors_[call.first], index[0], states);
        continue;
      }
      const PreparedKernel& kernel = *call.kernel;
      const auto all = absl::MakeConstSpan(tensors_).subspan(call.first);
      const absl::Status status =
          kernel.kernel({*kernel.op, stream, scratch_, all.subspan(0, kernel.inputs.size()),
                         all.subspan(kernel.inputs.size(), 1), kernel.attrs});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  // Rows from number `first` on. The dimension before a row's own is that of the block's rows.
  void Gather(const Reduction& reduction, const KernelTensor& x, int64_t first,
              char* states) const {
    const Folding& folding = reduction.folding;
    const int64_t stride = x.strides[run_.row_dims_ - 1];
    void* const to = states + reduction.states;
    if (folding.width == 1) {
      folding.gather(x.data, stride, extent_, first, to);
    } else {
      folding.gather_rows(x.data, stride, extent_, folding.width, first, to);
    }
  }

  const FusedRun& run_;
  const std::unique_ptr<char[]> memory_;  // NOLINT
  std::vector<KernelTensor> tensors_;
  int64_t extent_;  // that they have
  NoScratch scratch_;
};

FusedRun::FusedRun(absl::Span<const TraceCall> calls, const CallRange& range,
                   const std::function<bool(int object)>& local)
    : row_dims_(range.row_dims) {
  reductions_.reserve(range.reductions.size());  // calls have pointers to them
  for (size_t i = 0; i < calls.size(); ++i) {
    AddCall(calls[i], local);
    const size_t next = reductions_.size();
    if (next < range.reductions.size() && range.reductions[next].call == i) {
      AddReduction(range.reductions[next]);
    }
  }
  // What reduces all rows has none in its result.
  const PreparedKernel& first = calls[0].kernel;
  const KernelTensor& with_rows = calls_[0].reduction ? first.inputs[0] : first.outputs[0];
  Merge(Shape(with_rows.shape.span().subspan(0, row_dims_)));
  const std::vector<int64_t> slots = PlaceLocals();
  Split(BytesPerRow(slots));
  ShapeBlocks(slots);
}

void FusedRun::AddCall(const TraceCall& call, const std::function<bool(int object)>& local) {
  calls_.push_back({&call.kernel, tensors_.size()});
  const auto add = [&](const KernelTensor& tensor, const TraceTensor& traced) {
    if (tensor.present && !tensor.is_scalar) {
      Operand operand;
      operand.tensor = tensors_.size();
      operand.object = traced.object;
      operand.is_rowwise = !call.kernel.op->elementwise;
      if (local(traced.object)) {
        operand.pitch = RowPitch(tensor, row_dims_);
      } else {
        operand.whole = &tensor;
      }
      row_elements_ = std::max(row_elements_, RowElements(tensor, row_dims_));
      operands_.push_back(std::move(operand));
    }
    tensors_.push_back(tensor);
    tensors_.back().data = nullptr;
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) add(call.kernel.inputs[i], call.inputs[i]);
  for (size_t i = 0; i < call.outputs.size(); ++i) add(call.kernel.outputs[i], call.outputs[i]);
}

void FusedRun::AddReduction(const CallRange::Reduction& reduction) {
  const Folding& folding = reduction.folding;
  reductions_.push_back({folding, &calls_.back().kernel->outputs[0], part_bytes_});
  parts_of_rows_ = folding.parts;
  part_bytes_ += RoundUp(folding.width * folding.state_bytes, kAlignment);
  calls_.back().reduction = &reductions_.back();
  // Of the call there is the input only.
  tensors_.pop_back();
  operands_.pop_back();
}

void FusedRun::Merge(const Shape& shape) {
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool merges =
        !rows_.empty() && std::all_of(operands_.begin(), operands_.end(), [&](const Operand& o) {
          return o.whole == nullptr || o.steps.back() == o.whole->strides[d] * shape[d];
        });
    if (merges) {
      rows_[rows_.size() - 1] *= shape[d];
    } else {
      rows_.push_back(shape[d]);
    }
    for (Operand& operand : operands_) {
      if (!merges) operand.steps.emplace_back();
      if (operand.whole != nullptr) operand.steps.back() = operand.whole->strides[d];
    }
  }
}

std::vector<int64_t> FusedRun::PlaceLocals() {
  absl::flat_hash_map<int, size_t> last_uses;  // operands
  for (size_t i = 0; i < operands_.size(); ++i) last_uses[operands_[i].object] = i;
  std::vector<int64_t> pitches;  // by slot
  std::vector<int> owners;       // objects that have the slots now
  absl::flat_hash_map<int, size_t> slot_of;
  size_t first_operand = 0;  // of the call
  for (size_t c = 0, i = 0; c < calls_.size(); ++c) {
    const size_t end = c + 1 < calls_.size() ? calls_[c + 1].first : tensors_.size();
    for (; i < operands_.size() && operands_[i].tensor < end; ++i) {
      Operand& operand = operands_[i];
      if (operand.whole != nullptr) continue;
      const auto [it, is_new] = slot_of.emplace(operand.object, 0);
      if (is_new) {
        // Of an object that no call uses from this one on.
        size_t& slot = it->second;
        while (slot < owners.size() &&
               (pitches[slot] != operand.pitch || last_uses[owners[slot]] >= first_operand)) {
          ++slot;
        }
        if (slot == owners.size()) {
          pitches.push_back(operand.pitch);
          owners.push_back(0);
        }
        owners[slot] = operand.object;
      }
      operand.slot = it->second;
    }
    first_operand = i;
  }
  return pitches;
}

int64_t FusedRun::BytesPerRow(const std::vector<int64_t>& slots) const {
  absl::flat_hash_map<int, int64_t> others;  // by object
  for (const Operand& operand : operands_) {
    if (operand.whole == nullptr) continue;
    const int64_t item_size = ItemSize(operand.whole->dtype);
    int64_t& bytes = others[operand.object];
    bytes = std::max(bytes, item_size * RowElements(*operand.whole, row_dims_));
  }
  int64_t bytes = 0;
  for (int64_t pitch : slots) bytes += pitch;
  for (const auto& [object, in_row] : others) bytes += in_row;
  return bytes;
}

void FusedRun::Split(int64_t bytes_per_row) {
  int64_t most = std::max<int64_t>(1, kRowCacheBytes / bytes_per_row);
  if (row_elements_ == 1) {
    most = std::max(kMinBlock, kCacheBytes / bytes_per_row / kAlignment * kAlignment);
  }
  const int64_t piece = reductions_.empty() ? 1 : reductions_[0].folding.piece;
  most = std::max<int64_t>(1, most / piece) * piece;
  split_ = rows_.size() - 1;
  int64_t inner = 1;
  while (split_ > 0 && inner * rows_[split_] <= most) inner *= rows_[split_--];
  const int64_t whole = rows_[split_];
  // Of almost the same size.
  const int64_t parts = CeilDiv(whole, std::max<int64_t>(1, most / inner));
  extent_ = CeilDiv(whole, parts);
  const int64_t unit = inner * row_elements_ == 1 ? std::max(kAlignment, piece) : piece;
  extent_ = std::min(RoundUp(extent_, unit), whole);
  parts_ = CeilDiv(whole, extent_);
  num_blocks_ = parts_;
  for (int d = 0; d < split_; ++d) num_blocks_ *= rows_[d];
  block_elements_ = extent_ * inner * row_elements_;
}

void FusedRun::ShapeBlocks(const std::vector<int64_t>& slots) {
  Shape block({extent_});
  for (int d = split_ + 1; d < rows_.size(); ++d) block.push_back(rows_[d]);
  std::vector<int64_t> offsets;
  for (int64_t pitch : slots) {
    offsets.push_back(local_bytes_);
    local_bytes_ += RoundUp(pitch * NumElements(block), kAlignment);
  }
  for (Operand& operand : operands_) {
    KernelTensor& tensor = tensors_[operand.tensor];
    Shape shape;
    Strides strides;
    operand.rows_at = operand.is_rowwise ? row_dims_ - block.size() : 0;
    for (int d = 0; d < operand.rows_at; ++d) {
      shape.push_back(1);
      strides.push_back(0);
    }
    const Strides of_locals = ContiguousStrides(block, operand.pitch);
    for (int d = 0; d < block.size(); ++d) {
      shape.push_back(block[d]);
      strides.push_back(operand.whole == nullptr ? of_locals[d]
                                                 : operand.steps[static_cast<size_t>(split_ + d)]);
    }
    for (int d = row_dims_; d < tensor.ndim(); ++d) {
      shape.push_back(tensor.shape[d]);
      strides.push_back(tensor.strides[d]);
    }
    tensor.shape = shape;
    tensor.strides = strides;
    if (operand.whole == nullptr) {
      operand.offset = offsets[operand.slot];
    } else {
      operand.steps.resize(static_cast<size_t>(split_) + 1);
    }
  }
}

int64_t FusedRun::Bytes() const {
  return static_cast<int64_t>(sizeof(*this) + tensors_.size() * sizeof(KernelTensor) +
                              operands_.size() * sizeof(Operand) + calls_.size() * sizeof(Call));
}

absl::Status FusedRun::RunBlocks(Stream& stream, int64_t begin, int64_t end) const {
  Blocks blocks(*this);
  for (int64_t block = begin; block < end && !StopRequested(); ++block) {
    int64_t index[kMaxNdim];
    index[split_] = block % parts_ * extent_;
    int64_t rest = block / parts_;
    for (int d = split_ - 1; d >= 0; --d) {
      index[d] = rest % rows_[d];
      rest /= rows_[d];
    }
    const int64_t extent = std::min(extent_, rows_[split_] - index[split_]);
    CHX_RETURN_IF_ERROR(blocks.Run(stream, index, extent, nullptr));
  }
  return absl::OkStatus();
}

absl::Status FusedRun::RunPart(Stream& stream, int64_t part, Blocks* blocks, char* states) const {
  const int64_t rows = rows_[0];
  const int64_t end = rows * (part + 1) / parts_of_rows_;
  for (const Reduction& reduction : reductions_) {
    reduction.folding.init(states + reduction.states, reduction.folding.width);
  }
  for (int64_t at = rows * part / parts_of_rows_; at < end && !StopRequested(); at += extent_) {
    CHX_RETURN_IF_ERROR(blocks->Run(stream, &at, std::min(extent_, end - at), states));
  }
  return absl::OkStatus();
}

absl::Status FusedRun::RunReductions(Executor& executor, char* states) const {
  CHX_RETURN_IF_ERROR(executor.RepeatBlocks(
      *calls_[0].kernel, parts_of_rows_, 1, [&](Stream& stream, int64_t begin, int64_t end) {
        Blocks blocks(*this);
        for (int64_t part = begin; part < end; ++part) {
          CHX_RETURN_IF_ERROR(RunPart(stream, part, &blocks, states + part * part_bytes_));
        }
        return absl::OkStatus();
      }));
  for (const Reduction& reduction : reductions_) {
    const Folding& folding = reduction.folding;
    char* const first = states + reduction.states;
    for (int64_t part = 1; part < parts_of_rows_; ++part) {
      folding.combine(first, first + part * part_bytes_, folding.width);
    }
    folding.finish(first, folding.width, reduction.result->data);
  }
  return absl::OkStatus();
}

absl::Status FusedRun::Run(Executor& executor, char* scratch) const {
  if (parts_of_rows_ > 0) return RunReductions(executor, scratch);
  const int64_t work = block_elements_ * static_cast<int64_t>(calls_.size());
  const int64_t grain = std::max<int64_t>({1, kGrain / work, num_blocks_ / kMaxChunks});
  return executor.RepeatBlocks(
      *calls_[0].kernel, num_blocks_, grain,
      [this](Stream& stream, int64_t begin, int64_t end) { return RunBlocks(stream, begin, end); });
}

}  // namespace chx::server
