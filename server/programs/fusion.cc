#include "server/programs/fusion.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace chx::server {
namespace {

// Less than this is in the cache anyway.
constexpr int64_t kMinElements = 8 << 10;
// Longer rows would not be in the cache.
constexpr int64_t kMaxRow = 16 << 10;
// Bytes. Rows that are reduced go through all calls by the piece, which should be in the cache.
constexpr int64_t kMaxReducedRow = 8 << 10;
// Of such rows: threads share the work by these parts, and smaller arrays are in the cache anyway.
constexpr int64_t kMinParts = 4;
constexpr size_t kMaxCalls = 64;
// More streams of memory at a time would be in each other's way.
constexpr size_t kMaxObjects = 24;
// Bytes from one element of the innermost dimension to the next. Where they are further apart, a
// kernel goes through whole tiles, which blocks are not.
constexpr int64_t kMaxStep = 64;

bool IsArray(const KernelTensor& tensor) { return tensor.present && !tensor.is_scalar; }

bool IsDenseEnough(const KernelTensor& tensor) {
  int d = tensor.ndim() - 1;
  while (d > 0 && tensor.shape[d] == 1) --d;
  return d < 0 || std::abs(tensor.strides[d]) <= kMaxStep;
}

// The elements of an object that a tensor has, in rows.
class View {
 public:
  View(int64_t offset, const KernelTensor* tensor, int row_dims)
      : offset_(offset), tensor_(tensor), row_dims_(row_dims) {}

  // Whether rows of the same index begin at the same place.
  bool HasRowsOf(const View& other) const {
    if (offset_ != other.offset_ || tensor_->dtype != other.tensor_->dtype) return false;
    for (int d = 0; d < row_dims_; ++d) {
      if (tensor_->shape[d] > 1 && tensor_->strides[d] != other.tensor_->strides[d]) return false;
    }
    return true;
  }
  // From the first element of a row to behind its last one; -1: the first is not the lowest.
  int64_t RowBytes() const {
    int64_t bytes = ItemSize(tensor_->dtype);
    for (int d = row_dims_; d < tensor_->ndim(); ++d) {
      if (tensor_->shape[d] > 1 && tensor_->strides[d] < 0) return -1;
      bytes += (tensor_->shape[d] - 1) * std::max<int64_t>(0, tensor_->strides[d]);
    }
    return bytes;
  }
  // Whether rows follow one another, so many bytes each at most.
  bool HasDenseRows(int64_t bytes) const {
    const int64_t pitch = RowPitch(*tensor_, row_dims_);
    return bytes <= pitch && AreApart(*tensor_, 0, row_dims_, pitch);
  }

 private:
  int64_t offset_;
  const KernelTensor* tensor_;
  int row_dims_;
};

// Calls fn(traced, tensor, is_output) for each array of a call.
template <typename Fn>
void ForEachArray(const TraceCall& call, Fn fn) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (IsArray(call.kernel.inputs[i])) fn(call.inputs[i], call.kernel.inputs[i], false);
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    fn(call.outputs[i], call.kernel.outputs[i], true);
  }
}

// Dense, or one element for all.
bool IsFlat(const KernelTensor& tensor) {
  const bool repeats = std::all_of(tensor.strides.begin(), tensor.strides.end(),
                                   [](int64_t stride) { return stride == 0; });
  return repeats || tensor.strides == ContiguousStrides(tensor.shape, ItemSize(tensor.dtype));
}

// Whether all rows are one distance apart, and so short that a piece of them is in the cache.
bool MayBeReduced(const KernelTensor& tensor, int row_dims) {
  const int64_t rows = NumElements(Shape(tensor.shape.span().subspan(0, row_dims)));
  return AreApart(tensor, 0, row_dims, RowPitch(tensor, row_dims)) &&
         tensor.size() * ItemSize(tensor.dtype) <= kMaxReducedRow * rows;
}

bool BeginsWith(const Shape& shape, const Shape& rows) {
  return shape.size() >= rows.size() && std::equal(rows.begin(), rows.end(), shape.begin());
}

// What the calls of a range do to their objects.
class Accesses {
 public:
  explicit Accesses(int row_dims) : row_dims_(row_dims) {}

  // False: the call and those that were added cannot go through a block one after the other.
  // `reduces`: it has its result when all blocks are through.
  bool Add(const TraceCall& call, bool reduces) {
    absl::flat_hash_map<int, Access> after = objects_;
    bool fits = true;
    bool shares = objects_.empty();
    ForEachArray(call, [&](const TraceTensor& traced, const KernelTensor& tensor, bool output) {
      fits = fits && !results_.contains(traced.object);
      if (reduces && output) return;
      const View view(traced.offset, &tensor, row_dims_);
      const int64_t bytes = view.RowBytes();
      const auto [it, is_new] = after.emplace(traced.object, Access{view, true, false, bytes});
      Access& access = it->second;
      shares = shares || objects_.contains(traced.object);
      access.uniform = access.uniform && bytes > 0 && access.view.HasRowsOf(view);
      access.row_bytes = std::max(access.row_bytes, bytes);
      access.written = access.written || output;
      fits = fits && (!access.written || AreApart(access, ItemSize(tensor.dtype)));
    });
    if (reduces) fits = fits && !after.contains(call.outputs[0].object);
    if (!fits || !shares || after.size() > kMaxObjects) return false;
    objects_ = std::move(after);
    if (reduces) results_.insert(call.outputs[0].object);
    return true;
  }

 private:
  struct Access {
    View view;
    bool uniform = true;  // all have its rows
    bool written = false;
    int64_t row_bytes = 0;  // of the longest one
  };

  // Whether no call sees, in a row, what another one writes in other rows. The elements of what is
  // written are distinct in memory.
  static bool AreApart(const Access& access, int64_t item_size) {
    return access.uniform &&
           (access.row_bytes == item_size || access.view.HasDenseRows(access.row_bytes));
  }

  const int row_dims_;
  absl::flat_hash_map<int, Access> objects_;
  absl::flat_hash_set<int> results_;
};

class Finder {
 public:
  Finder(absl::Span<const TraceCall> calls, const Devices& devices)
      : calls_(calls), devices_(devices) {}

  // The range that begins with a call.
  CallRange Find(size_t first) const {
    CallRange range = FindElementwise(first);
    const size_t next = first + range.count;
    // The one that follows may take the others into a range by rows; or this one is such a one.
    for (const size_t reduction : {first, next}) {
      if (reduction >= calls_.size()) continue;
      const CallRange by_rows = FindByRows(first, reduction);
      if (by_rows.count > range.count) return by_rows;
    }
    if (range.count > 0 && range.row_dims > 0) AddSumOfAll(&range);
    return range;
  }

 private:
  bool IsBlockwise(const TraceCall& call) const {
    const OpDef& op = *call.kernel.op;
    return op.elementwise && devices_.at(call.kernel.device).kernels().IsBlockwise(op);
  }
  static int RowDimsOf(const TraceCall& call) {
    const PreparedKernel& kernel = call.kernel;
    const RowDims find = FindRowwise(kernel.kernel).row_dims;
    if (find == nullptr || kernel.inputs.empty() || kernel.outputs.size() != 1) return 0;
    return find(*kernel.op, kernel.inputs, kernel.outputs, kernel.attrs);
  }
  // How the call reduces all rows of an array, which are of several elements.
  static Folding FoldingOf(const TraceCall& call) {
    const PreparedKernel& kernel = call.kernel;
    const FindFolding find = FindRowwise(kernel.kernel).folding;
    if (find == nullptr || call.inputs[0].object < 0 || call.outputs[0].object < 0)
      return Folding();
    Folding folding = find(*kernel.op, kernel.inputs, kernel.outputs, kernel.attrs);
    return folding.width > 1 && folding.parts >= kMinParts ? folding : Folding();
  }
  // Whether the call can work on some of these rows.
  bool GoesByRows(const TraceCall& call, const Shape& rows) const {
    const PreparedKernel& kernel = call.kernel;
    if (kernel.op->written_inputs != 0 || kernel.outputs.size() != 1) return false;
    const bool blockwise = IsBlockwise(call);
    if (!blockwise && RowDimsOf(call) < rows.size()) return false;
    const int64_t most = kMaxRow * NumElements(rows);
    bool fits = true;
    ForEachArray(call, [&](const TraceTensor& traced, const KernelTensor& tensor, bool /*output*/) {
      fits = fits && traced.object >= 0 && BeginsWith(tensor.shape, rows) &&
             tensor.size() <= most && IsDenseEnough(tensor) &&
             (!blockwise || tensor.shape == kernel.outputs[0].shape);
    });
    return fits;
  }

  CallRange FindElementwise(size_t first) const {
    CallRange range{first, 1, 0};
    const PreparedKernel& kernel = calls_[first].kernel;
    if (!IsBlockwise(calls_[first]) || kernel.outputs.size() != 1) return range;
    const Shape& shape = kernel.outputs[0].shape;
    if (NumElements(shape) < kMinElements) return range;
    range.row_dims = shape.size();
    return Extend(range, shape, [&](const TraceCall& call) {
      return IsBlockwise(call) && call.kernel.outputs[0].ndim() == shape.size();
    });
  }
  // With rows such as those that `reduction` goes through.
  CallRange FindByRows(size_t first, size_t reduction) const {
    const TraceCall& by = calls_[reduction];
    CallRange range{first, 0, std::max(RowDimsOf(by), FoldingOf(by).row_dims)};
    if (range.row_dims == 0) return range;
    const KernelTensor& input = by.kernel.inputs[0];
    const Shape rows(input.shape.span().subspan(0, range.row_dims));
    const int64_t num_rows = NumElements(rows);
    if (num_rows < 2 || input.size() < kMinElements) return range;
    range = Extend(range, rows, [](const TraceCall& /*call*/) { return true; });
    const auto has_long_rows = [&](const TraceCall& call) {
      const PreparedKernel& kernel = call.kernel;
      return std::max(kernel.inputs[0].size(), kernel.outputs[0].size()) > num_rows;
    };
    const auto all = calls_.subspan(first, range.count);
    // Where an array is read once there is nothing to gain.
    if (std::count_if(all.begin(), all.end(), has_long_rows) < 2) range.count = 0;
    return range;
  }
  // The call that follows elementwise ones, if it reduces all of what they make to one result.
  // Their arrays must be dense, or one element.
  void AddSumOfAll(CallRange* range) const {
    const size_t next = range->first + range->count;
    if (next >= calls_.size()) return;
    const TraceCall& call = calls_[next];
    const FindFolding find = FindRowwise(call.kernel.kernel).folding;
    const auto elementwise = calls_.subspan(range->first, range->count);
    const PreparedKernel& first = elementwise[0].kernel;
    if (find == nullptr || call.kernel.device != first.device ||
        call.kernel.inputs[0].shape != first.outputs[0].shape) {
      return;
    }
    const Folding folding =
        find(*call.kernel.op, call.kernel.inputs, call.kernel.outputs, call.kernel.attrs);
    const TraceTensor& input = call.inputs[0];
    const TraceTensor& output = call.outputs[0];
    // A transposed view of a square array has the shape and the place of the array, too.
    bool fits = folding.parts > 0 && folding.width == 1 && input.object >= 0 &&
                output.object >= 0 && IsFlat(call.kernel.inputs[0]);
    bool shares = false;
    for (const TraceCall& other : elementwise) {
      ForEachArray(other, [&](const TraceTensor& traced, const KernelTensor& tensor, bool /*out*/) {
        fits = fits && IsFlat(tensor) && traced.object != output.object;
        if (traced.object != input.object) return;
        shares = true;
        // Where the other is.
        fits = fits && traced.offset == input.offset && tensor.strides.back() != 0 &&
               tensor.dtype == call.kernel.inputs[0].dtype;
      });
    }
    if (!fits || !shares) return;
    range->reductions.push_back({range->count, folding});
    ++range->count;
  }
  template <typename Fn>
  CallRange Extend(CallRange range, const Shape& rows, Fn is_one) const {
    Accesses accesses(rows.size());
    bool may_reduce = true;
    range.count = 0;
    for (size_t i = range.first; i < calls_.size() && range.count < kMaxCalls; ++i) {
      const TraceCall& call = calls_[i];
      if (call.kernel.device != calls_[range.first].kernel.device) break;
      const Folding folding = FoldingOf(call);
      const bool reduces = Reduces(folding, call, rows, range);
      if ((!reduces && !GoesByRows(call, rows)) || !is_one(call)) break;
      ForEachArray(
          call, [&](const TraceTensor& /*traced*/, const KernelTensor& tensor, bool output) {
            may_reduce = may_reduce && ((reduces && output) || MayBeReduced(tensor, rows.size()));
          });
      if ((reduces || !range.reductions.empty()) && !may_reduce) break;
      if (!accesses.Add(call, reduces)) break;
      if (reduces) range.reductions.push_back({range.count, folding});
      ++range.count;
    }
    return range;
  }
  // Whether that is how the call reduces these rows, and how others of the range do.
  static bool Reduces(const Folding& folding, const TraceCall& call, const Shape& rows,
                      const CallRange& range) {
    if (folding.parts == 0 || folding.row_dims != rows.size()) return false;
    if (!BeginsWith(call.kernel.inputs[0].shape, rows)) return false;
    if (range.reductions.empty()) return true;
    const Folding& other = range.reductions[0].folding;
    return other.parts == folding.parts && other.piece == folding.piece;
  }

  const absl::Span<const TraceCall> calls_;
  const Devices& devices_;
};

}  // namespace

int64_t RowPitch(const KernelTensor& tensor, int row_dims) {
  int d = row_dims - 1;
  while (d > 0 && tensor.shape[d] == 1) --d;
  return tensor.strides[d];
}

std::vector<CallRange> FindRuns(absl::Span<const TraceCall> calls, const Devices& devices) {
  const Finder finder(calls, devices);
  std::vector<CallRange> ranges;
  for (size_t i = 0; i < calls.size(); i += ranges.back().count) {
    ranges.push_back(finder.Find(i));
    ranges.back().count = std::max<size_t>(1, ranges.back().count);
  }
  return ranges;
}

}  // namespace chx::server
