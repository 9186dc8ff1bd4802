#include "server/programs/recorder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/error.h"

namespace chx::server {
namespace {

// To lay out memory takes time that is quadratic in this.
constexpr size_t kMaxRecorded = 8192;
// Of a gradient that is watched, with its place in two tables.
constexpr int64_t kWatchedBytes = 256;

// With room that a vector has for more.
int64_t BytesOf(const TraceCall& call) {
  const size_t tensors = call.inputs.size() + call.outputs.size();
  size_t bytes = 2 * sizeof(call) + 2 * tensors * (sizeof(KernelTensor) + sizeof(TraceTensor));
  for (const AttrValue& attr : call.kernel.attrs) {
    bytes += sizeof(attr) + 2 * attr.ints().size() * sizeof(int64_t);
  }
  return static_cast<int64_t>(bytes);
}

bool LiesIn(const char* data, const Buffer& buffer) {
  return data >= buffer.data() && data < buffer.data() + buffer.bytes();
}

}  // namespace

void Recorder::AddArgument(const Variable& argument) {
  const Array& array = argument.array;
  const int index = static_cast<int>(trace_.objects.size());
  TraceObject object;
  object.kind = TraceObject::Kind::kArgument;
  object.index = index;
  object.bytes = array.buffer->bytes();
  object.device = array.spec.device;
  trace_.objects.push_back(std::move(object));
  if (array.buffer->lease()) Decline("an argument is shared with other sessions");
  if (gradients_.contains(array.buffer->serial())) Decline("an argument is a gradient");
  if (!objects_.emplace(array.buffer->serial(), index).second) {
    Decline("two arguments share memory");
  }
  for (const Ref<ArrayNode>& node : argument.nodes) Watch(node.get(), index);
}

void Recorder::Watch(ArrayNode* node, int argument) {
  if (!watched_.emplace(node, nodes_.size()).second) return;
  Watched watched;
  watched.node = Ref<ArrayNode>(node);
  watched.argument = argument;
  if (node->grad != nullptr) {
    const Array& grad = node->grad->array;
    watched.buffer = grad.buffer->serial();
    watched.unique = grad.buffer->unique();
    watched.spec = grad.spec;
    if (!gradients_.emplace(watched.buffer, static_cast<int>(nodes_.size())).second) {
      Decline("two gradients share memory");
    }
    if (objects_.contains(watched.buffer)) Decline("an argument is a gradient");
  }
  nodes_.push_back(std::move(watched));
  bytes_ += kWatchedBytes;
}

void SetSlot(int64_t bits, AttrValue* attribute) {
  double number = 0;
  std::memcpy(&number, &bits, sizeof(number));
  if (attribute->type() == AttrType::kInt) {
    *attribute = AttrValue(bits);
  } else if (attribute->type() == AttrType::kFloat) {
    *attribute = AttrValue(number);
  } else if (attribute->type() == AttrType::kScalar && attribute->AsScalar().is_float()) {
    *attribute = AttrValue(Scalar(number));
  }
}

void Recorder::BeginCommand(size_t number, const OpDef* op) {
  command_ = number;
  is_operator_ = op != nullptr;
  if (op == nullptr) return;
  ++num_operations_;
  operators_.push_back(op);
}

void Recorder::AddHeld(const Array& array, bool constant) {
  TraceObject& object = trace_.objects[ObjectOf(array)];
  const bool is_new = array.buffer->serial() > last_buffer_;  // it has come beside the commands
  object.is_constant = object.is_constant || constant || is_new;
  object.is_held = true;
  if (object.kind == TraceObject::Kind::kArgument)
    Decline("an argument is used from elsewhere, too");
  if (object.kind == TraceObject::Kind::kGradient) object.buffer = array.buffer;
  if (object.kind != TraceObject::Kind::kTemporary) return;
  object.kind = TraceObject::Kind::kHeld;
  object.buffer = array.buffer;
}

void Recorder::Adopt(const Array& array) {
  const int object = ObjectOf(array);
  if (trace_.objects[object].kind != TraceObject::Kind::kTemporary) {
    return Decline("an array that it keeps is not its own");
  }
  trace_.objects[object].kind = TraceObject::Kind::kHeld;
  trace_.objects[object].buffer = array.buffer;
  const auto is_it = [object](const TraceTensor& tensor) { return tensor.object == object; };
  const auto makes = [&](const TraceCall& call) {
    return std::any_of(call.outputs.begin(), call.outputs.end(), is_it);
  };
  for (const TraceCall& call : trace_.calls) {
    const bool reads = std::any_of(call.inputs.begin(), call.inputs.end(), is_it);
    if (reads || (makes(call) && call.outputs.size() > 1)) {
      return Decline("an array that it keeps was not just made");
    }
  }
  trace_.calls.erase(std::remove_if(trace_.calls.begin(), trace_.calls.end(), makes),
                     trace_.calls.end());
}

const TraceObject* Recorder::Find(const Array& array) const {
  const auto it = objects_.find(array.buffer->serial());
  return it == objects_.end() ? nullptr : &trace_.objects[it->second];
}

bool Recorder::IsConstant(const Array& array) const {
  const TraceObject* const object = Find(array);
  return object != nullptr && object->is_constant;
}

bool Recorder::Writes(const Array& array) const {
  const TraceObject* const object = Find(array);
  return object != nullptr && object->written;
}

bool Recorder::Holds(const Array& array) const {
  const TraceObject* const object = Find(array);
  return object != nullptr && object->kind == TraceObject::Kind::kHeld;
}

bool Recorder::WritesConstant() const {
  return std::any_of(trace_.objects.begin(), trace_.objects.end(), [](const TraceObject& object) {
    return object.is_constant && object.written;
  });
}

bool Recorder::IsUntouched(const Watched& watched) const {
  const auto& grad = watched.node->grad;
  if ((grad == nullptr ? 0 : grad->array.buffer->serial()) != watched.buffer) return false;
  const auto it = objects_.find(watched.buffer);
  if (it == objects_.end()) return true;
  const TraceObject& object = trace_.objects[it->second];
  return !object.read && !object.written;
}

void Recorder::ReplaceGradient(const ArrayNode* node) {
  const auto it = watched_.find(node);
  if (it == watched_.end()) return;
  Watched& watched = nodes_[it->second];
  if (watched.decided) return;
  watched.decided = true;
  watched.replaced = IsUntouched(watched);
}

void Recorder::UseGradient(const ArrayNode* node) {
  const auto it = watched_.find(node);
  if (it != watched_.end()) nodes_[it->second].decided = true;
}

int Recorder::ObjectOf(const Array& array) {
  const Buffer& buffer = *array.buffer;
  const auto [it, is_new] =
      objects_.emplace(buffer.serial(), static_cast<int>(trace_.objects.size()));
  if (!is_new) return it->second;
  TraceObject object;
  object.bytes = buffer.bytes();
  object.device = array.spec.device;
  const auto gradient = gradients_.find(buffer.serial());
  if (gradient != gradients_.end()) {
    object.kind = TraceObject::Kind::kGradient;
    object.index = gradient->second;
  } else if (buffer.serial() <= last_buffer_) {
    object.kind = TraceObject::Kind::kHeld;
    object.buffer = array.buffer;
  }
  if (buffer.lease() && (object.kind != TraceObject::Kind::kHeld ||
                         buffer.lease()->rights() == SharedRights::kCopy)) {
    Decline("an array is shared with other sessions");
  }
  bytes_ += static_cast<int64_t>(2 * sizeof(object) + 64);
  trace_.objects.push_back(std::move(object));
  return it->second;
}

TraceTensor Recorder::Locate(const KernelTensor& tensor, absl::Span<const Array* const> arrays) {
  TraceTensor located;
  if (tensor.is_scalar || !tensor.present || tensor.data == nullptr) return located;
  for (const Array* array : arrays) {
    if (!LiesIn(tensor.data, *array->buffer)) continue;
    // Without a plan, only what is known already is of interest: whether a constant is written.
    const auto known = objects_.find(array->buffer->serial());
    if (known != objects_.end()) {
      located.object = known->second;
    } else if (declined_.empty()) {
      located.object = ObjectOf(*array);
    }
    located.offset = tensor.data - array->buffer->data();
    return located;
  }
  if (tensor.size() > 0) Decline("a kernel has used memory of no array");
  return located;
}

TraceCall Recorder::Traced(const KernelCall& call, absl::Span<const Array* const> arrays) {
  TraceCall traced;
  traced.kernel.op = &call.op;
  traced.kernel.kernel = call.kernel;
  traced.kernel.device = call.device;
  traced.kernel.inputs.assign(call.inputs.begin(), call.inputs.end());
  traced.kernel.outputs.assign(call.outputs.begin(), call.outputs.end());
  traced.kernel.attrs.assign(call.attrs.begin(), call.attrs.end());
  traced.kernel.origin = call.origin;
  traced.kernel.finds_errors_late = call.finds_errors_late;
  traced.command = command_;
  traced.operation = is_operator_ ? num_operations_ - 1 : -1;
  traced.is_operator = is_operator_ && &call.op == operators_.back();
  for (const KernelTensor& input : call.inputs) {
    traced.inputs.push_back(Locate(input, arrays));
    if (traced.inputs.back().object < 0) continue;
    TraceObject& object = trace_.objects[traced.inputs.back().object];
    object.read = true;
    if (MustNotChange(call.op, input.dtype)) object.must_not_change = true;
  }
  for (const KernelTensor& output : call.outputs) {
    traced.outputs.push_back(Locate(output, arrays));
  }
  traced.ForEachWritten(
      [this](const TraceTensor& tensor) { trace_.objects[tensor.object].written = true; });
  return traced;
}

void Recorder::Ran(const KernelCall& call, absl::Span<const Array* const> arrays, int64_t scratch) {
  if (trace_.calls.size() >= kMaxRecorded) Decline("it runs more kernels than a plan has room for");
  // Who has met others cannot do so again by the commands, as when a plan of a window has failed.
  if (!may_wait_ && call.op.kind == OpKind::kCollective) Decline("it waits for other sessions");
  TraceCall traced = Traced(call, arrays);
  traced.kernel.scratch = scratch;
  if (!declined_.empty()) return;
  bytes_ += BytesOf(traced);
  trace_.calls.push_back(std::move(traced));
}

void Recorder::Transferred() { Decline("an array has been copied to another device"); }

bool Recorder::RunsNow(bool beyond) {
  if (beyond) Decline("a reduction of gradients goes on after its backward pass");
  if (!may_wait_) Decline("a collective goes on while other operators run");
  return declined_.empty();
}

void Recorder::Decline(std::string why) {
  if (declined_.empty()) declined_ = std::move(why);
  std::vector<TraceCall>().swap(trace_.calls);
}

void Recorder::GiveUp(std::string why) {
  Decline(std::move(why));
  for (TraceObject& object : trace_.objects) object.buffer = nullptr;
  watched_.clear();
  std::vector<Watched>().swap(nodes_);
  bytes_ = 0;
}

TraceArray Recorder::Keep(const Array& array) {
  TraceArray kept;
  kept.object = ObjectOf(array);
  kept.spec = array.spec;
  TraceObject& object = trace_.objects[kept.object];
  if (object.kind == TraceObject::Kind::kTemporary) object.kind = TraceObject::Kind::kResult;
  return kept;
}

void Recorder::FinishGradients() {
  // Objects name gradients by the number among all that were watched.
  std::vector<int> numbers(nodes_.size(), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Watched& watched = nodes_[i];
    const bool untouched = IsUntouched(watched);
    if (untouched && !watched.decided) continue;
    TraceGradient gradient;
    if (watched.argument < 0) gradient.node = watched.node;
    gradient.argument = watched.argument;
    gradient.id = watched.node->id;
    gradient.any_before = watched.replaced;
    gradient.before = watched.buffer != 0;
    gradient.unique = watched.unique;
    gradient.spec = watched.spec;
    const auto& grad = watched.node->grad;
    gradient.changes = (grad == nullptr ? 0 : grad->array.buffer->serial()) != watched.buffer ||
                       (watched.replaced && !untouched);
    if (watched.replaced && grad == nullptr) gradient.changes = true;
    if (grad != nullptr && !grad->nodes.empty()) Decline("a gradient is in a graph itself");
    if (gradient.changes && grad != nullptr) gradient.after = Keep(grad->array);
    numbers[i] = static_cast<int>(trace_.gradients.size());
    trace_.gradients.push_back(std::move(gradient));
  }
  for (TraceObject& object : trace_.objects) {
    if (object.kind != TraceObject::Kind::kGradient) continue;
    object.index = numbers[object.index];
    const bool is_own = object.index >= 0 && !trace_.gradients[object.index].any_before;
    // What a step has found in an array, and not asked an array node for, is that array.
    if (!is_own) object.kind = TraceObject::Kind::kHeld;
    if (is_own == object.is_held) Decline("an array is a gradient, too");
    if (is_own) object.buffer = nullptr;  // to hold it would make it one that is not unique
  }
}

// A plan has the attribute in one kernel and nowhere else: a composition's parts, and rules for
// gradients, may have computed with it.
void Recorder::CheckSlot(const TraceSlot& slot) {
  if (!declined_.empty()) return;
  const OpDef* const op = operators_[static_cast<size_t>(slot.operation)];
  if (slot.attribute >= op->attrs.size()) return Decline("an operator has no such attribute");
  // What shapes depend on is inferred again: only attributes of which none does are set.
  const AttrDef& attribute = op->attrs[slot.attribute];
  const bool is_free = attribute.name == "seed" || attribute.name == "counter" ||
                       (op->in_place && attribute.type == AttrType::kFloat) ||
                       (op->name == "full" && attribute.type == AttrType::kScalar);
  const auto runs = std::count_if(
      trace_.calls.begin(), trace_.calls.end(),
      [&](const TraceCall& call) { return call.operation == slot.operation && call.is_operator; });
  if (!is_free || op->kind != OpKind::kKernel || runs != 1 || in_graph_.contains(slot.operation)) {
    Decline("a number that varies goes into an operator that is in a graph, or has several parts");
  }
}

absl::StatusOr<Trace> Recorder::Finish(absl::Span<const Array* const> results,
                                       absl::Span<const TraceSlot> slots) {
  for (const TraceSlot& slot : slots) CheckSlot(slot);
  trace_.slots.assign(slots.begin(), slots.end());
  for (const Array* result : results) trace_.results.push_back(Keep(*result));
  FinishGradients();
  if (!declined_.empty()) return absl::UnimplementedError(declined_);
  return std::move(trace_);
}

}  // namespace chx::server
