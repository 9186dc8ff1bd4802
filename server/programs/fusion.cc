#include "server/programs/fusion.h"

#include <cstdlib>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace chx::server {
namespace {

// Less than this is in the cache anyway.
constexpr int64_t kMinElements = 8 << 10;
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

// The elements of an object that a tensor has, in their order.
struct View {
  int64_t offset = 0;
  const KernelTensor* tensor = nullptr;

  bool operator==(const View& other) const {
    if (offset != other.offset || tensor->dtype != other.tensor->dtype) return false;
    for (int d = 0; d < tensor->ndim(); ++d) {
      if (tensor->shape[d] > 1 && tensor->strides[d] != other.tensor->strides[d]) return false;
    }
    return true;
  }
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

bool IsBlockwise(const TraceCall& call, const Devices& devices) {
  const PreparedKernel& kernel = call.kernel;
  const KernelTable& kernels = devices.at(kernel.device).kernels();
  if (!kernel.op->elementwise || !kernels.IsBlockwise(*kernel.op) || kernel.outputs.size() != 1 ||
      kernel.op->written_inputs != 0 || kernel.outputs[0].size() < kMinElements) {
    return false;
  }
  bool fits = true;
  ForEachArray(call, [&](const TraceTensor& traced, const KernelTensor& tensor, bool /*output*/) {
    fits = fits && traced.object >= 0 && tensor.shape == kernel.outputs[0].shape &&
           IsDenseEnough(tensor);
  });
  return fits;
}

// What the calls of a range do to their objects.
class Accesses {
 public:
  void Clear() { objects_.clear(); }
  // False: the call and those that were added cannot go through a block one after the other.
  bool Add(const TraceCall& call) {
    absl::flat_hash_map<int, Access> after = objects_;
    bool fits = true;
    bool shares = objects_.empty();
    ForEachArray(call, [&](const TraceTensor& traced, const KernelTensor& tensor, bool output) {
      const View view{traced.offset, &tensor};
      const auto [it, is_new] = after.emplace(traced.object, Access{view, true, false});
      Access& access = it->second;
      shares = shares || objects_.contains(traced.object);
      access.uniform = access.uniform && access.view == view;
      access.written = access.written || output;
      fits = fits && (access.uniform || !access.written);
    });
    if (!fits || !shares || after.size() > kMaxObjects) return false;
    objects_ = std::move(after);
    return true;
  }

 private:
  struct Access {
    View view;
    bool uniform = true;  // all have this view
    bool written = false;
  };
  absl::flat_hash_map<int, Access> objects_;
};

}  // namespace

std::vector<CallRange> FindRuns(absl::Span<const TraceCall> calls, const Devices& devices) {
  std::vector<CallRange> ranges;
  Accesses accesses;
  bool open = false;  // the last range may have more
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool blockwise = IsBlockwise(calls[i], devices);
    if (open && blockwise) {
      CallRange& last = ranges.back();
      const PreparedKernel& first = calls[last.first].kernel;
      if (first.device == calls[i].kernel.device && last.count < kMaxCalls &&
          first.outputs[0].shape == calls[i].kernel.outputs[0].shape && accesses.Add(calls[i])) {
        ++last.count;
        continue;
      }
    }
    ranges.push_back({i, 1});
    accesses.Clear();
    open = blockwise && accesses.Add(calls[i]);
  }
  return ranges;
}

}  // namespace chx::server
