#include "server/programs/common_calls.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace chx::server {
namespace {

// Whether all calls like it give the same: it writes nothing but its outputs, is not random, none
// of its attributes varies, and other ranks have no part in it.
bool IsPure(const TraceCall& call, const absl::flat_hash_set<int64_t>& varying) {
  const OpDef& op = *call.kernel.op;
  return op.kind != OpKind::kCollective && !op.in_place && op.written_inputs == 0 &&
         op.AttrIndex("seed") < 0 && !varying.contains(call.operation);
}

// Whether the call's output is its first input, element by element and bit by bit: x / 1, x ** 1,
// or the sum (or product, or extremum) of one element, as it comes from a mean and from gradients
// for one sample.
bool GivesInput(const TraceCall& call) {
  const PreparedKernel& kernel = call.kernel;
  if (kernel.inputs.empty() || kernel.outputs.size() != 1) return false;
  const KernelTensor& x = kernel.inputs[0];
  const KernelTensor& y = kernel.outputs[0];
  if (x.dtype != y.dtype || x.size() != y.size()) return false;
  if (!IsWhole(call.inputs[0], x) || !IsWhole(call.outputs[0], y)) return false;
  const std::string& op = kernel.op->name;
  if (op == "divide" || op == "multiply" || op == "power") {
    const KernelTensor& by = kernel.inputs[1];
    return by.is_scalar && by.scalar.AsDouble() == 1 && IsFloat(x.dtype);
  }
  return op == "sum" || op == "prod" || op == "amax" || op == "amin";
}

// A text that is the same for calls that do the same with the same values.
class Key {
 public:
  void Add(int64_t value) { text_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void Add(const Dims& dims) {
    Add(dims.size());
    for (int64_t d : dims) Add(d);
  }
  void Add(const Scalar& scalar) {
    Add(static_cast<int64_t>(scalar.kind()));
    if (!scalar.is_float()) return Add(scalar.AsInt());
    const double value = scalar.AsDouble();  // -0 is not 0
    int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    Add(bits);
  }
  void Add(const AttrValue& attribute) {
    Add(static_cast<int64_t>(attribute.type()));
    Add(attribute.AsScalar());
    Add(static_cast<int64_t>(attribute.ints().size()));
    for (int64_t i : attribute.ints()) Add(i);
  }
  // But for its memory.
  void Add(const KernelTensor& tensor) {
    Add(static_cast<int64_t>(tensor.dtype));
    Add(tensor.present ? 1 : 0);
    Add(tensor.is_scalar ? 1 : 0);
    if (tensor.is_scalar) Add(tensor.scalar);
    Add(tensor.shape);
    Add(tensor.strides);
  }

  std::string& text() { return text_; }

 private:
  std::string text_;
};

// Elementwise kernels write to the memory of an operand that is not used again. Such a temporary
// has several values one after the other: here each becomes an object of its own, until Rejoin.
class Values {
 public:
  explicit Values(Trace* trace) : trace_(*trace), first_(trace->objects.size()) {}

  void Separate() {
    const std::vector<bool> separable = FindSeparable();
    std::vector<int> now(first_);  // by object
    std::vector<bool> written(first_);
    for (size_t i = 0; i < first_; ++i) now[i] = static_cast<int>(i);
    for (TraceCall& call : trace_.calls) {
      for (TraceTensor& input : call.inputs) {
        if (input.object >= 0) input.object = now[static_cast<size_t>(input.object)];
      }
      for (TraceTensor& output : call.outputs) {
        const auto object = static_cast<size_t>(output.object);
        if (output.object < 0 || !separable[object]) continue;
        if (written[object]) {
          before_.push_back(now[object]);
          now[object] = static_cast<int>(trace_.objects.size());
          trace_.objects.push_back(TraceObject(trace_.objects[object]));
        }
        written[object] = true;
        output.object = now[object];
      }
    }
  }

  // A value has the memory of the one before again, where that is not used any more.
  void Rejoin() {
    std::vector<int> root(trace_.objects.size());
    for (size_t i = 0; i < root.size(); ++i) root[i] = static_cast<int>(i);
    std::vector<size_t> first(root.size());  // calls that use the object
    std::vector<size_t> last(root.size());
    std::vector<bool> used(root.size());
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      trace_.calls[i].ForEachTensor([&](const TraceTensor& tensor) {
        const auto object = static_cast<size_t>(tensor.object);
        if (!used[object]) first[object] = i;
        last[object] = i;
        used[object] = true;
      });
    }
    for (size_t i = first_; i < root.size(); ++i) {
      const auto before = static_cast<size_t>(root[static_cast<size_t>(before_[i - first_])]);
      if (!used[i] || !used[before] || last[before] > first[i]) continue;
      if (last[before] == first[i] && !MayOverwrite(trace_.calls[first[i]], root, before)) continue;
      root[i] = static_cast<int>(before);
      last[before] = last[i];
    }
    for (TraceCall& call : trace_.calls) {
      const auto rename = [&root](TraceTensor& tensor) {
        if (tensor.object >= 0) tensor.object = root[static_cast<size_t>(tensor.object)];
      };
      for (TraceTensor& input : call.inputs) rename(input);
      for (TraceTensor& output : call.outputs) rename(output);
    }
  }

 private:
  // Whether the call reads the object only where its output would be: other temporaries, for which
  // it stands, may have been read in other ways.
  static bool MayOverwrite(const TraceCall& call, const std::vector<int>& root, size_t object) {
    const KernelTensor& output = call.kernel.outputs[0];
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const TraceTensor& traced = call.inputs[i];
      if (traced.object < 0 || root[static_cast<size_t>(traced.object)] != static_cast<int>(object))
        continue;
      const KernelTensor& input = call.kernel.inputs[i];
      if (traced.offset != 0 || input.dtype != output.dtype || input.shape != output.shape ||
          input.strides != output.strides) {
        return false;
      }
    }
    return true;
  }
  // Temporaries that are always used as a whole, and written by kernels that need not find there
  // what they read.
  std::vector<bool> FindSeparable() const {
    std::vector<bool> separable(first_);
    std::vector<const KernelTensor*> whole(first_);
    for (size_t i = 0; i < first_; ++i) {
      separable[i] = trace_.objects[i].kind == TraceObject::Kind::kTemporary;
    }
    for (const TraceCall& call : trace_.calls) {
      const auto look = [&](const TraceTensor& traced, const KernelTensor& tensor, bool writes) {
        if (traced.object < 0) return;
        const auto object = static_cast<size_t>(traced.object);
        const KernelTensor*& first = whole[object];
        if (first == nullptr) first = &tensor;
        const bool is_whole =
            traced.offset == 0 && tensor.dtype == first->dtype && tensor.shape == first->shape &&
            tensor.strides == ContiguousStrides(tensor.shape, ItemSize(tensor.dtype));
        const bool again = writes && first != &tensor;
        if (!is_whole || (again && !call.kernel.op->elementwise)) separable[object] = false;
      };
      for (size_t i = 0; i < call.inputs.size(); ++i) {
        const bool writes = call.kernel.op->IsWritten(i, call.inputs.size());
        look(call.inputs[i], call.kernel.inputs[i], writes);
      }
      for (size_t i = 0; i < call.outputs.size(); ++i) {
        look(call.outputs[i], call.kernel.outputs[i], true);
      }
    }
    return separable;
  }

  Trace& trace_;
  const size_t first_;       // of the objects that Separate makes
  std::vector<int> before_;  // of these: the object that had the memory before
};

}  // namespace

std::vector<const OpDef*> ShareCommonCalls(Trace* trace) {
  Values values(trace);
  values.Separate();
  std::vector<TraceCall>& calls = trace->calls;
  absl::flat_hash_set<int64_t> varying;  // operators
  for (const TraceSlot& slot : trace->slots) varying.insert(slot.operation);
  std::vector<int64_t> writes(trace->objects.size());
  for (const TraceCall& call : calls) {
    call.ForEachWritten(
        [&](const TraceTensor& tensor) { ++writes[static_cast<size_t>(tensor.object)]; });
  }
  std::vector<int64_t> versions(trace->objects.size());  // writes so far
  std::vector<int> stands_for(trace->objects.size());
  for (size_t i = 0; i < stands_for.size(); ++i) stands_for[i] = static_cast<int>(i);
  absl::flat_hash_map<std::string, size_t> known;  // calls, among those that are kept
  std::vector<const OpDef*> shared;
  size_t kept = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    TraceCall& call = calls[i];
    Key key;
    key.Add(call.kernel.op->id);
    key.Add(call.kernel.device);
    for (const AttrValue& attribute : call.kernel.attrs) key.Add(attribute);
    key.Add(static_cast<int64_t>(call.inputs.size()));
    for (size_t j = 0; j < call.inputs.size(); ++j) {
      TraceTensor& input = call.inputs[j];
      key.Add(call.kernel.inputs[j]);
      if (input.object < 0) continue;
      input.object = stands_for[static_cast<size_t>(input.object)];
      key.Add(input.object);
      key.Add(versions[static_cast<size_t>(input.object)]);
      key.Add(input.offset);
    }
    bool shares = IsPure(call, varying);
    bool temporary = true;
    for (size_t j = 0; j < call.outputs.size(); ++j) {
      const TraceTensor& output = call.outputs[j];
      key.Add(call.kernel.outputs[j]);
      key.Add(output.offset);
      if (output.object < 0) continue;
      const auto object = static_cast<size_t>(output.object);
      shares = shares && writes[object] == 1;
      temporary = temporary && trace->objects[object].kind == TraceObject::Kind::kTemporary;
    }
    call.ForEachWritten(
        [&](const TraceTensor& tensor) { ++versions[static_cast<size_t>(tensor.object)]; });
    if (shares && temporary && GivesInput(call)) {
      const auto input = static_cast<size_t>(call.inputs[0].object);
      if (versions[input] == writes[input]) {  // it stays as it is
        stands_for[static_cast<size_t>(call.outputs[0].object)] = call.inputs[0].object;
        shared.push_back(call.kernel.op);
        continue;
      }
    }
    const auto same = shares ? known.find(key.text()) : known.end();
    if (same != known.end() && temporary) {
      const TraceCall& earlier = calls[same->second];
      for (size_t j = 0; j < call.outputs.size(); ++j) {
        if (call.outputs[j].object < 0) continue;
        stands_for[static_cast<size_t>(call.outputs[j].object)] = earlier.outputs[j].object;
      }
      shared.push_back(call.kernel.op);
      continue;
    }
    if (shares) known.emplace(std::move(key.text()), kept);
    if (kept != i) calls[kept] = std::move(call);
    ++kept;
  }
  calls.resize(kept);
  values.Rejoin();
  return shared;
}

}  // namespace chx::server
