#include "server/autograd/apply.h"

#include <algorithm>
#include <utility>

#include "server/autograd/rule_context.h"

namespace chx::server {
namespace {

// A number in GraphAccount's set, and later in its list.
constexpr int64_t kFunctionBytes = 64;

bool Requires(const Variable& variable, const RecordMode& mode) {
  return std::any_of(variable.nodes.begin(), variable.nodes.end(),
                     [&](const Ref<ArrayNode>& node) { return mode.Records(node->id); });
}

// ChainerX's rules for writes to arrays in a graph.
absl::Status CheckInPlace(const VariableCall& call, const RecordMode& mode) {
  const OpDef& op = call.op;
  const absl::Span<const VariableOperand> inputs = call.inputs;
  // Infer says what is wrong with the inputs themselves.
  if (inputs.size() < op.inputs.size()) return absl::OkStatus();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_array() || !op.IsWritten(i, inputs.size())) continue;
    if (!inputs[i].array()->nodes.empty()) {
      return ChainerxError("In-place assignment to output array requiring grad is not allowed.");
    }
  }
  for (const VariableOperand& input : inputs) {
    if (input.is_array() && Requires(*input.array(), mode)) {
      return ChainerxError(
          "In-place assignment that involves input arrays requiring grad is not allowed.");
    }
  }
  return absl::OkStatus();
}

// Before anything of a composition is written, too.
absl::Status CheckLists(const VariableCall& call) {
  absl::InlinedVector<const Array*, 16> arrays;
  for (const VariableOperand& input : call.inputs) {
    if (input.is_array()) arrays.push_back(&input.array()->array);
  }
  const bool whole =
      arrays.size() == call.inputs.size() && arrays.size() % call.op.inputs.size() == 0;
  // Infer says what is wrong otherwise.
  return whole ? Executor::CheckApart(call.op, arrays) : absl::OkStatus();
}

// A saved value is in those graphs only that record the operator: in the others it is a constant.
Variable InRecordedGraphs(const Variable& variable, const RecordMode& mode) {
  Variable saved;
  saved.array = variable.array;
  for (const Ref<ArrayNode>& node : variable.nodes) {
    if (mode.Records(node->id)) saved.nodes.push_back(node);
  }
  return saved;
}

void SaveInputs(const VariableCall& call, const RecordMode& mode, OpNode* node) {
  node->inputs.resize(call.inputs.size());
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const VariableOperand& input = call.inputs[i];
    OpNode::InputRecord& saved = node->inputs[i];
    if (!input.is_array()) {
      saved.scalar = input.scalar();
      continue;
    }
    saved.is_array = true;
    saved.spec = input.array()->array.spec;
    if (call.op.SavesInput(i, call.attrs)) {
      saved.saved = true;
      saved.value = InRecordedGraphs(*input.array(), mode);
    }
  }
}

Ref<OpNode> NewOpNode(const VariableCall& call, const ApplyOutputs& outputs, const RecordMode& mode,
                      GraphAccount* account, int64_t bytes) {
  const OpDef& op = call.op;
  Ref<OpNode> node = MakeRef<OpNode>(op, account, bytes);
  node->attrs.assign(call.attrs.begin(), call.attrs.end());
  SaveInputs(call, mode, node.get());
  node->outputs.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    node->outputs[i].spec = outputs[i].array.spec;
    const size_t declared = std::min(i, op.outputs.size() - 1);
    if (op.SavesOutput(declared, call.attrs)) node->outputs[i].saved = outputs[i].array;
  }
  return node;
}

absl::InlinedVector<BackpropId, 2> GraphsOf(const OpDef& op,
                                            absl::Span<const VariableOperand> inputs,
                                            const RecordMode& mode) {
  absl::InlinedVector<BackpropId, 2> ids;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_array() || op.IsConstantInput(i)) continue;
    for (const Ref<ArrayNode>& node : inputs[i].array()->nodes) {
      if (mode.Records(node->id) && std::find(ids.begin(), ids.end(), node->id) == ids.end()) {
        ids.push_back(node->id);
      }
    }
    if (ids.size() > kMaxGraphsOfArray) break;  // too many: Record says so
  }
  return ids;
}

// What a vector of `size` elements has in the heap, if `inlined` do not need it: up to twice that.
int64_t VectorBytes(size_t size, size_t inlined, size_t element) {
  if (size <= inlined) return 0;
  return static_cast<int64_t>(2 * size * element) + kAllocationBytes;
}

}  // namespace

int64_t OpNodeBytes(size_t num_inputs, size_t num_outputs, size_t num_graphs,
                    absl::Span<const AttrValue> attrs) {
  int64_t bytes = static_cast<int64_t>(sizeof(OpNode)) + kAllocationBytes;
  bytes += VectorBytes(num_inputs, 3, sizeof(OpNode::InputRecord));
  // Saved inputs have the nodes of all graphs, too.
  bytes += static_cast<int64_t>(num_inputs) * VectorBytes(num_graphs, 1, sizeof(Ref<ArrayNode>));
  bytes += VectorBytes(num_outputs, 1, sizeof(OpNode::Output));
  bytes += VectorBytes(num_graphs, 1, sizeof(OpNode::Edge));
  bytes += static_cast<int64_t>(num_graphs) * (VectorBytes(num_inputs, 3, sizeof(Ref<ArrayNode>)) +
                                               VectorBytes(num_outputs, 1, sizeof(void*)));
  bytes += VectorBytes(attrs.size(), 2, sizeof(AttrValue));
  for (const AttrValue& attr : attrs) {
    bytes += VectorBytes(attr.ints().size(), 6, sizeof(int64_t));
  }
  return bytes;
}

const OpDef& FunctionOp() {
  static const OpDef* const op = [] {
    auto* def = new OpDef;
    def->name = "function";
    return def;
  }();
  return *op;
}

namespace {

// Of a node of `bytes` and all its array nodes.
absl::Status CheckRoom(absl::string_view op, absl::Span<const BackpropId> ids, size_t num_outputs,
                       int64_t bytes, const GraphAccount& account) {
  if (ids.size() > kMaxGraphsOfArray) {
    return ChainerxError("[", op, "] expects arrays that are in at most ", kMaxGraphsOfArray,
                         " graphs together");
  }
  const int64_t total = bytes + static_cast<int64_t>(ids.size() * num_outputs) * ArrayNode::Bytes();
  if (account.meter->Reserve(total)) return absl::OkStatus();
  return MemoryError("[", op, "] ", account.meter->Exhausted(total).message());
}

void AddEdges(absl::Span<const BackpropId> ids, absl::Span<const VariableOperand> inputs,
              OpNode* op_node) {
  for (BackpropId id : ids) {
    OpNode::Edge edge;
    edge.id = id;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool counts = inputs[i].is_array() && !op_node->op.IsConstantInput(i);
      ArrayNode* node = counts ? inputs[i].array()->NodeOf(id) : nullptr;
      edge.inputs.emplace_back(node);
      if (node != nullptr && node->creator) {
        op_node->rank = std::max(op_node->rank, node->creator->rank + 1);
      }
    }
    edge.outputs.resize(op_node->outputs.size(), nullptr);
    op_node->edges.push_back(std::move(edge));
  }
}

void ConnectOutput(OpNode* op_node, size_t i, Variable* output) {
  if (!IsFloat(output->array.spec.dtype)) return;
  for (OpNode::Edge& edge : op_node->edges) {
    output->nodes.push_back(op_node->OutputNode(&edge, static_cast<int>(i)));
  }
}

absl::Status Record(const VariableCall& call, const RecordMode& mode, GraphAccount* account,
                    ApplyOutputs* outputs) {
  const auto ids = GraphsOf(call.op, call.inputs, mode);
  const bool any_float = std::any_of(outputs->begin(), outputs->end(),
                                     [](const Variable& v) { return IsFloat(v.array.spec.dtype); });
  if (ids.empty() || !any_float) return absl::OkStatus();
  const int64_t bytes = OpNodeBytes(call.inputs.size(), outputs->size(), ids.size(), call.attrs);
  CHX_RETURN_IF_ERROR(CheckRoom(call.op.name, ids, outputs->size(), bytes, *account));
  Ref<OpNode> op_node = NewOpNode(call, *outputs, mode, account, bytes);
  AddEdges(ids, call.inputs, op_node.get());
  for (size_t i = 0; i < outputs->size(); ++i) ConnectOutput(op_node.get(), i, &(*outputs)[i]);
  return absl::OkStatus();
}

absl::Status RunOne(Runtime& runtime, const VariableCall& call, ApplyOutputs* outputs) {
  const OpDef& op = call.op;
  const absl::Span<const VariableOperand> inputs = call.inputs;
  const bool in_graph = std::any_of(inputs.begin(), inputs.end(), [](const auto& input) {
    return input.is_array() && !input.array()->nodes.empty();
  });
  absl::InlinedVector<ArrayOperand, 4> arrays;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arrays.push_back(inputs[i].As<ArrayOperand>([](const Variable* v) { return &v->array; }));
    // What the gradient may ask for is saved after the run, and must still be there.
    arrays.back().last_use = inputs[i].last_use && !(in_graph && op.SavesInput(i, call.attrs));
  }
  RunOutputs made;
  CHX_RETURN_IF_ERROR(runtime.executor.Run({op, arrays, call.attrs, call.device}, &made));
  outputs->resize(made.size());
  for (size_t i = 0; i < made.size(); ++i) (*outputs)[i].array = std::move(made[i]);
  return absl::OkStatus();
}

// Whether the device has a kernel for a composition, which may decline by an UnimplementedError.
bool HasKernel(Runtime& runtime, const VariableCall& call) {
  DeviceId device = call.device;
  for (const VariableOperand& input : call.inputs) {
    if (input.is_array()) device = input.array()->array.spec.device;
  }
  return runtime.executor.HasKernel(call.op, device);
}

absl::Status RunComposition(Runtime& runtime, const VariableCall& call, const RecordMode& mode,
                            ApplyOutputs* outputs) {
  DeviceId device = call.device;
  absl::InlinedVector<SpecOperand, 4> specs;
  for (const VariableOperand& input : call.inputs) {
    specs.push_back(input.As<SpecOperand>([](const Variable* v) { return &v->array.spec; }));
    if (input.is_array()) device = input.array()->array.spec.device;
  }
  InferResult inferred;
  CHX_RETURN_IF_ERROR(InferOp({call.op, specs, call.attrs, device}, &inferred));
  ComposeRun run(runtime, {call.op, call.inputs, call.attrs, device}, mode);
  call.op.compose(run);
  CHX_RETURN_IF_ERROR(run.status());
  return run.TakeOutputs(inferred, outputs);
}

}  // namespace

void RecordMode::Set(BackpropId id, bool record) {
  for (auto& exception : exceptions_) {
    if (exception.first == id) {
      exception.second = record;
      return;
    }
  }
  exceptions_.emplace_back(id, record);
}

bool RecordMode::Records(BackpropId id) const {
  if (id > last_) return false;
  for (const auto& exception : exceptions_) {
    if (exception.first == id) return exception.second;
  }
  return by_default_;
}

absl::Status Apply(Runtime& runtime, const VariableCall& call, const RecordMode& mode,
                   ApplyOutputs* outputs) {
  const OpDef& op = call.op;
  outputs->clear();
  if (op.in_place) CHX_RETURN_IF_ERROR(CheckInPlace(call, mode));
  if (op.in_place && op.has_lists()) CHX_RETURN_IF_ERROR(CheckLists(call));
  if (op.kind == OpKind::kComposition) {
    // With a gradient of its own a composition is one node; its parts are not recorded.
    const bool by_parts = op.gradient == nullptr && !op.no_gradient;
    const auto is_recorded = [&](const VariableOperand& input) {
      return input.is_array() && Requires(*input.array(), mode);
    };
    const bool recorded =
        by_parts && std::any_of(call.inputs.begin(), call.inputs.end(), is_recorded);
    absl::Status status = absl::UnimplementedError("");
    if (!recorded && HasKernel(runtime, call)) status = RunOne(runtime, call, outputs);
    if (absl::IsUnimplemented(status)) {
      status = RunComposition(runtime, call, by_parts ? mode : RecordMode::None(), outputs);
    }
    CHX_RETURN_IF_ERROR(status);
  } else {
    CHX_RETURN_IF_ERROR(RunOne(runtime, call, outputs));
  }
  if (op.gradient == nullptr) return absl::OkStatus();
  return Record(call, mode, &runtime.graph, outputs);
}

absl::StatusOr<Variable> Apply1(Runtime& runtime, const VariableCall& call,
                                const RecordMode& mode) {
  ApplyOutputs outputs;
  CHX_RETURN_IF_ERROR(Apply(runtime, call, mode, &outputs));
  return std::move(outputs[0]);
}

absl::Status RecordFunction(Runtime& runtime, ClientFunction function,
                            absl::Span<const VariableOperand> inputs,
                            absl::Span<Variable* const> outputs, const RecordMode& mode) {
  const auto ids = GraphsOf(FunctionOp(), inputs, mode);
  for (const Variable* output : outputs) {
    if (output == nullptr) continue;
    for (BackpropId id : ids) {
      if (output->NodeOf(id) == nullptr) continue;
      return ChainerxError("[function] expects outputs that are in no graph, got ",
                           output->array.spec.ToString(), ", which is in one");
    }
  }
  if (ids.empty()) return absl::OkStatus();
  const size_t retained = function.retained_inputs.size() + function.retained_outputs.size();
  const int64_t bytes = OpNodeBytes(inputs.size(), outputs.size(), ids.size(), {}) +
                        static_cast<int64_t>(sizeof(ClientFunction)) +
                        VectorBytes(retained, 0, sizeof(int)) + kFunctionBytes;
  CHX_RETURN_IF_ERROR(CheckRoom("function", ids, outputs.size(), bytes, runtime.graph));
  if (!runtime.graph.functions.insert(function.number).second) {
    return ValueError("[function] expects a new number, got ", function.number);
  }
  Ref<OpNode> op_node = MakeRef<OpNode>(FunctionOp(), &runtime.graph, bytes);
  op_node->function = std::make_unique<ClientFunction>(std::move(function));
  op_node->inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_array()) continue;
    op_node->inputs[i].is_array = true;
    op_node->inputs[i].spec = inputs[i].array()->array.spec;
  }
  for (int i : op_node->function->retained_inputs) {
    if (!inputs[i].is_array()) continue;
    op_node->inputs[i].saved = true;
    op_node->inputs[i].value = InRecordedGraphs(*inputs[i].array(), mode);
  }
  op_node->outputs.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != nullptr) op_node->outputs[i].spec = outputs[i]->array.spec;
  }
  for (int i : op_node->function->retained_outputs) {
    if (outputs[i] != nullptr) op_node->outputs[i].saved = outputs[i]->array;
  }
  AddEdges(ids, inputs, op_node.get());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != nullptr) ConnectOutput(op_node.get(), i, outputs[i]);
  }
  return absl::OkStatus();
}

}  // namespace chx::server
