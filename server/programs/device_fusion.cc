#include "server/programs/device_fusion.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/engine/fused_calls.h"

namespace chx::server {
namespace {

// Dense, or a dense array of the last dimensions that is repeated.
bool Repeats(const KernelTensor& tensor) {
  const Strides dense = ContiguousStrides(tensor.shape, ItemSize(tensor.dtype));
  bool repeats = true;  // so far
  for (int d = 0; d < tensor.ndim(); ++d) {
    if (tensor.shape[d] == 1) continue;
    repeats = repeats && tensor.strides[d] == 0;
    if (!repeats && tensor.strides[d] != dense[d]) return false;
  }
  return true;
}
bool IsDense(const KernelTensor& tensor) {
  return tensor.strides == ContiguousStrides(tensor.shape, ItemSize(tensor.dtype));
}

// Calls that follow one another, as one.
class Run {
 public:
  // Of calls [first, ...). `uses`: by object, the first and the last call that uses it.
  struct Uses {
    size_t first = 0;
    size_t last = 0;
  };
  Run(absl::Span<const TraceCall> calls, size_t first, const KernelTable& kernels)
      : calls_(calls), first_(first), end_(first), kernels_(kernels) {
    while (end_ < calls.size() && end_ - first < kMaxFusedCalls && Add(calls[end_])) ++end_;
  }

  size_t size() const { return end_ - first_; }

  TraceCall Merge(const std::vector<Uses>& uses,
                  const std::function<bool(int object)>& temporary) const {
    const TraceCall& first = calls_[first_];
    TraceCall merged;
    merged.kernel.op = first.kernel.op;
    merged.kernel.kernel = kernels_.fused();
    merged.kernel.device = first.kernel.device;
    merged.kernel.origin = first.kernel.origin;
    merged.kernel.finds_errors_late = first.kernel.finds_errors_late;
    merged.command = first.command;
    merged.operation = -1;
    absl::flat_hash_map<int, size_t> writers;  // the last ones, by object
    for (size_t i = first_; i < end_; ++i) writers[calls_[i].outputs[0].object] = i;
    absl::flat_hash_map<int, int64_t> results;  // by object, at this call
    Ints numbers;
    for (size_t i = first_; i < end_; ++i) {
      const TraceCall& call = calls_[i];
      merged.fused.push_back(call.kernel);
      FusedCall fused;
      fused.op = call.kernel.op->id;
      for (size_t k = 0; k < call.inputs.size(); ++k) {
        const auto found = results.find(call.inputs[k].object);
        const bool is_result = call.inputs[k].object >= 0 && found != results.end();
        (k == 0 ? fused.a : fused.b) =
            is_result ? ~found->second : NumberOf(call.kernel.inputs[k], call.inputs[k], &merged);
      }
      const TraceTensor& output = call.outputs[0];
      results[output.object] = static_cast<int64_t>(i - first_);
      const Uses& use = uses[output.object];
      const bool is_seen = !temporary(output.object) || use.first < first_ || use.last >= end_;
      if (is_seen && writers[output.object] == i) {
        fused.output = static_cast<int64_t>(merged.outputs.size());
        merged.kernel.outputs.push_back(call.kernel.outputs[0]);
        merged.outputs.push_back(output);
      }
      AppendFusedCall(fused, &numbers);
    }
    merged.kernel.attrs.emplace_back(numbers);
    return merged;
  }

 private:
  struct Access {
    int64_t offset = 0;
    bool same = true;  // all of them are dense, and begin there
    bool written = false;
  };

  // Whether the call belongs to those before it; then it is one of them.
  bool Add(const TraceCall& call) {
    const PreparedKernel& kernel = call.kernel;
    const PreparedKernel& first = calls_[first_].kernel;
    if (kernel.device != first.device || !kernels_.MayBeFused(*kernel.op) ||
        kernel.outputs.size() != 1 || kernel.outputs[0].size() == 0 ||
        kernel.outputs[0].shape != first.outputs[0].shape || !IsDense(kernel.outputs[0]) ||
        outputs_ == kMaxFusedOperands || inputs_ + call.inputs.size() > kMaxFusedOperands) {
      return false;
    }
    auto after = accesses_;
    bool fits = true;
    const auto access = [&](const KernelTensor& tensor, const TraceTensor& traced, bool writes) {
      fits = fits && tensor.present && tensor.dtype == Dtype::kFloat32;
      if (!fits || tensor.is_scalar) return;
      fits = traced.object >= 0 && tensor.shape == first.outputs[0].shape && Repeats(tensor);
      const auto [it, is_new] = after.emplace(traced.object, Access{traced.offset});
      Access& all = it->second;
      all.same = all.same && all.offset == traced.offset && IsDense(tensor);
      all.written = all.written || writes;
      fits = fits && (all.same || !all.written);
    };
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      access(kernel.inputs[i], call.inputs[i], false);
    }
    access(kernel.outputs[0], call.outputs[0], true);
    if (!fits) return false;
    accesses_ = std::move(after);
    inputs_ += call.inputs.size();
    ++outputs_;
    return true;
  }

  // Of an input of the merged call, which may be there already.
  static int64_t NumberOf(const KernelTensor& tensor, const TraceTensor& traced,
                          TraceCall* merged) {
    for (size_t i = 0; i < merged->inputs.size(); ++i) {
      const TraceTensor& other = merged->inputs[i];
      if (traced.object >= 0 && other.object == traced.object && other.offset == traced.offset &&
          merged->kernel.inputs[i].strides == tensor.strides) {
        return static_cast<int64_t>(i);
      }
    }
    merged->kernel.inputs.push_back(tensor);
    merged->inputs.push_back(traced);
    return static_cast<int64_t>(merged->inputs.size()) - 1;
  }

  const absl::Span<const TraceCall> calls_;
  const size_t first_;
  size_t end_;
  const KernelTable& kernels_;
  absl::flat_hash_map<int, Access> accesses_;  // by object
  size_t inputs_ = 0;                          // at most
  size_t outputs_ = 0;
};

}  // namespace

void FuseOnDevices(const Devices& devices, const std::function<bool(int object)>& temporary,
                   std::vector<TraceCall>* calls) {
  std::vector<Run::Uses> uses;
  for (size_t i = 0; i < calls->size(); ++i) {
    (*calls)[i].ForEachTensor([&](const TraceTensor& tensor) {
      const auto object = static_cast<size_t>(tensor.object);
      if (uses.size() <= object) uses.resize(object + 1, {calls->size(), 0});
      uses[object].first = std::min(uses[object].first, i);
      uses[object].last = i;
    });
  }
  std::vector<TraceCall> merged;
  for (size_t i = 0; i < calls->size();) {
    const KernelTable& kernels = devices.at((*calls)[i].kernel.device).kernels();
    size_t count = 0;
    if (kernels.fused() != nullptr) {
      const Run run(*calls, i, kernels);
      count = run.size();
      if (count > 1) merged.push_back(run.Merge(uses, temporary));
    }
    if (count <= 1) merged.push_back((*calls)[i]);
    i += std::max<size_t>(1, count);
  }
  *calls = std::move(merged);
}

}  // namespace chx::server
