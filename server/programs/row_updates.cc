#include "server/programs/row_updates.h"

#include <algorithm>
#include <utility>

#include "ops/registry.h"

namespace chx::server {
namespace {

bool SameMemory(const TraceTensor& a, const TraceTensor& b) {
  return a.object >= 0 && a.object == b.object && a.offset == b.offset;
}

// Of take and take_grad: an index out of range is an error.
bool Raises(const PreparedKernel& kernel) {
  const AttrValue& mode = kernel.attrs.back();
  return !mode.has_value() || mode.AsInt() == 0;
}

// Finds gradients that rows stand for.
class RowGradients {
 public:
  RowGradients(const std::vector<TraceCall>& calls,
               const std::function<bool(int object)>& temporary)
      : calls_(calls), temporary_(temporary) {
    for (size_t i = 0; i < calls.size(); ++i) {
      calls[i].ForEachTensor([&](const TraceTensor& t) { ++UsesOf(t).count; });
      calls[i].ForEachWritten([&](const TraceTensor& t) { UsesOf(t).writer = i; });
    }
  }

  // The call that makes the gradient number k of the update `calls[at]`; -1: that is needed whole.
  int MakerOf(size_t at, size_t k) {
    const TraceCall& update = calls_[at];
    const size_t length = update.inputs.size() / 2;
    const TraceTensor& grad = update.inputs[length + k];
    if (!IsWhole(grad, update.kernel.inputs[length + k]) || !temporary_(grad.object)) return -1;
    const Uses& uses = UsesOf(grad);
    if (uses.count != 2 || uses.writer >= at) return -1;
    const TraceCall& maker = calls_[uses.writer];
    const PreparedKernel& kernel = maker.kernel;
    if (kernel.op->name != "take_grad" || kernel.device != update.kernel.device ||
        kernel.attrs[1].AsInt() != 0 || !Raises(kernel)) {
      return -1;
    }
    const KernelTensor& param = update.kernel.inputs[k];
    if (kernel.outputs[0].shape != param.shape || kernel.outputs[0].dtype != param.dtype ||
        kernel.inputs[0].dtype != param.dtype) {
      return -1;
    }
    // The order of the places does not matter to a parameter that has one.
    const auto is_param = [&](const TraceTensor& t) { return t.object == update.inputs[k].object; };
    if (std::count_if(update.inputs.begin(), update.inputs.end(), is_param) != 1) return -1;
    for (const TraceTensor& input : maker.inputs) {
      if (IsWritten(input, uses.writer, at)) return -1;
    }
    return IsChecked(maker, param.shape[0], at) ? static_cast<int>(uses.writer) : -1;
  }

 private:
  struct Uses {
    size_t count = 0;
    size_t writer = 0;  // the last one
  };
  Uses& UsesOf(const TraceTensor& tensor) {
    const auto object = static_cast<size_t>(tensor.object);
    if (uses_.size() <= object) uses_.resize(object + 1);
    return uses_[object];
  }

  // By calls first to last.
  bool IsWritten(const TraceTensor& tensor, size_t first, size_t last) const {
    bool written = false;
    for (size_t i = first; i <= last; ++i) {
      calls_[i].ForEachWritten(
          [&](const TraceTensor& t) { written = written || t.object == tensor.object; });
    }
    return written;
  }

  // Whether the indices are in range, or a call before `at` fails: the update must not.
  bool IsChecked(const TraceCall& maker, int64_t rows, size_t at) const {
    if (maker.checked) return true;
    const KernelTensor& indices = maker.kernel.inputs[1];
    for (size_t i = 0; i < at; ++i) {
      const PreparedKernel& kernel = calls_[i].kernel;
      if (kernel.op->name != "take" || !kernel.attrs[0].has_value() ||
          kernel.attrs[0].AsInt() != 0 || !Raises(kernel)) {
        continue;
      }
      const KernelTensor& taken = kernel.inputs[1];
      if (SameMemory(calls_[i].inputs[1], maker.inputs[1]) && taken.dtype == indices.dtype &&
          taken.shape == indices.shape && taken.strides == indices.strides &&
          kernel.inputs[0].ndim() > 0 && kernel.inputs[0].shape[0] == rows &&
          !IsWritten(maker.inputs[1], i, at)) {
        return true;
      }
    }
    return false;
  }

  const std::vector<TraceCall>& calls_;
  const std::function<bool(int object)>& temporary_;
  std::vector<Uses> uses_;  // by object
};

// An operator's call over lists, and the operands of one place of them after the other.
class ListsCall {
 public:
  ListsCall(const TraceCall& like, size_t lists) : call_(like), lists_(lists) {
    call_.inputs.clear();
    call_.kernel.inputs.clear();
  }

  void Add(const TraceCall& from, size_t input) {
    traced_.push_back(from.inputs[input]);
    tensors_.push_back(from.kernel.inputs[input]);
  }
  bool empty() const { return traced_.empty(); }

  TraceCall Finish() {
    for (size_t list = 0; list < lists_; ++list) {
      for (size_t i = list; i < traced_.size(); i += lists_) {
        call_.inputs.push_back(traced_[i]);
        call_.kernel.inputs.push_back(tensors_[i]);
      }
    }
    return std::move(call_);
  }

 private:
  TraceCall call_;
  const size_t lists_;
  std::vector<TraceTensor> traced_;
  std::vector<KernelTensor> tensors_;
};

// At most, in bytes: the rows' order, and dense copies.
int64_t ScratchOf(const PreparedKernel& update) {
  constexpr int64_t kRoom = 64;  // to round up to
  const size_t length = update.inputs.size() / 3;
  int64_t bytes = 0;
  for (size_t k = 0; k < length; ++k) {
    const int64_t count = update.inputs[2 * length + k].size();
    const int64_t item = std::max<int64_t>(4, ItemSize(update.inputs[k].dtype));
    bytes += 8 * (update.inputs[k].shape[0] + 1 + 6 * count) +
             item * update.inputs[length + k].size() + 7 * kRoom;
  }
  return bytes;
}

}  // namespace

void UpdateRowsOnly(const Devices& devices, const std::function<bool(int object)>& temporary,
                    std::vector<TraceCall>* calls) {
  static const OpDef* const rows_op = OpRegistry::Global().Find("sgd_update_rows");
  RowGradients gradients(*calls, temporary);
  std::vector<std::vector<int>> makers(calls->size());  // of updates: of each gradient
  std::vector<bool> unneeded(calls->size());
  for (size_t i = 0; i < calls->size(); ++i) {
    const TraceCall& call = (*calls)[i];
    if (call.kernel.op->name != "sgd_update" ||
        devices.at(call.kernel.device).kernels().Find(*rows_op) == nullptr) {
      continue;
    }
    bool any = false;
    for (size_t k = 0; k < call.inputs.size() / 2; ++k) {
      const int maker = gradients.MakerOf(i, k);
      makers[i].push_back(maker);
      if (maker >= 0) any = unneeded[static_cast<size_t>(maker)] = true;
    }
    if (!any) makers[i].clear();
  }
  if (std::find(unneeded.begin(), unneeded.end(), true) == unneeded.end()) return;

  std::vector<TraceCall> result;
  for (size_t i = 0; i < calls->size(); ++i) {
    const TraceCall& call = (*calls)[i];
    if (unneeded[i]) continue;
    if (makers[i].empty()) {
      result.push_back(call);
      continue;
    }
    const size_t length = makers[i].size();
    ListsCall whole(call, 2);
    ListsCall rows(call, 3);
    for (size_t k = 0; k < length; ++k) {
      if (makers[i][k] < 0) {
        whole.Add(call, k);
        whole.Add(call, length + k);
      } else {
        const TraceCall& maker = (*calls)[static_cast<size_t>(makers[i][k])];
        rows.Add(call, k);
        rows.Add(maker, 0);
        rows.Add(maker, 1);
      }
    }
    if (!whole.empty()) result.push_back(whole.Finish());
    TraceCall update = rows.Finish();
    update.kernel.op = rows_op;
    update.kernel.kernel = devices.at(call.kernel.device).kernels().Find(*rows_op);
    update.kernel.scratch = ScratchOf(update.kernel);
    update.checked = true;
    result.push_back(std::move(update));
  }
  *calls = std::move(result);
}

}  // namespace chx::server
