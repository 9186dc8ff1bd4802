#include "ops/testing/shape_only.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace chx {
namespace {

std::vector<SpecOperand> ToOperands(const Call& call) {
  std::vector<SpecOperand> inputs;
  for (const Argument& argument : call.inputs) {
    if (argument.array.has_value()) {
      inputs.emplace_back(&*argument.array);
    } else if (argument.scalar.has_value()) {
      inputs.emplace_back(*argument.scalar);
    } else {
      inputs.emplace_back();
    }
  }
  return inputs;
}

uint32_t Bit(size_t declared, int i) {
  return uint32_t{1} << std::min<size_t>(declared - 1, static_cast<size_t>(i));
}

}  // namespace

std::string Call::ToString() const {
  std::vector<std::string> parts;
  for (const Argument& input : inputs) {
    if (input.array.has_value()) {
      parts.push_back(input.array->ToString());
    } else {
      parts.push_back(input.scalar.has_value() ? input.scalar->ToString() : "nothing");
    }
  }
  for (const AttrValue& attr : attrs) parts.push_back(attr.ToString());
  return absl::StrCat(op->name, "(", absl::StrJoin(parts, ", "), ")");
}

absl::Status Infer(const Call& call, InferResult* result) {
  return InferOp({*call.op, ToOperands(call), call.attrs}, result);
}

int SpecTable::Apply(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs,
                     Trace* trace, absl::Status* status) {
  Call call;
  call.op = &op;
  call.attrs = attrs;
  for (const Value& input : inputs) {
    call.inputs.emplace_back();
    if (input.is_array()) call.inputs.back() = specs_[input.id()];
    if (input.is_scalar()) call.inputs.back() = input.scalar();
  }
  InferResult result;
  *status = Infer(call, &result);
  trace->push_back(std::move(call));
  if (!status->ok() || result.outputs.empty()) result.outputs.assign(1, ArraySpec());
  const int first = static_cast<int>(specs_.size());
  for (const ArraySpec& spec : result.outputs) Add(spec);
  return first;
}

ShapeOnlyGradContext::ShapeOnlyGradContext(const Call& call, const InferResult& inferred,
                                           uint64_t output_grads, uint64_t needs)
    : GradContext(*call.op, call.attrs),
      call_(call),
      grads_(output_grads),
      needs_(needs),
      outputs_(inferred.outputs.begin(), inferred.outputs.end()),
      input_grads_(call.inputs.size()) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    // The gradient of an array is a fresh one, whatever its strides.
    const ArraySpec fresh(outputs_[i].dtype, outputs_[i].shape, outputs_[i].device);
    const bool present = (grads_ >> std::min<size_t>(i, 63)) & 1;
    output_grads_.push_back(present ? Value(this, specs_.Add(fresh)) : Value());
  }
}

Value ShapeOnlyGradContext::ApplyOp(const OpDef& op, absl::Span<const Value> inputs,
                                    const Attrs& attrs) {
  absl::Status applied;
  const int id = specs_.Apply(op, inputs, attrs, &trace_, &applied);
  if (!applied.ok()) Fail(applied);
  return Value(this, id);
}

Value ShapeOnlyGradContext::input(int i) {
  const Argument& argument = call_.inputs[i];
  if (argument.scalar.has_value()) return Value(*argument.scalar);
  if (!argument.array.has_value()) return Value();
  touched_inputs_ |= Bit(op().inputs.size(), i);
  return Value(this, specs_.Add(*argument.array));
}

Value ShapeOnlyGradContext::output(int i) {
  touched_outputs_ |= Bit(op().outputs.size(), i);
  return Value(this, specs_.Add(outputs_[i]));
}

Value ShapeOnlyGradContext::output_grad(int i) { return output_grads_[i]; }

bool ShapeOnlyGradContext::needs_grad(int i) const {
  const Argument& argument = call_.inputs[i];
  return argument.array.has_value() && IsFloat(argument.array->dtype) &&
         ((needs_ >> std::min(i, 63)) & 1) != 0;
}

ShapeOnlyComposeContext::ShapeOnlyComposeContext(const Call& call)
    : ComposeContext(*call.op, call.attrs) {
  for (const Argument& argument : call.inputs) {
    inputs_.emplace_back();
    if (argument.array.has_value()) inputs_.back() = Value(this, specs_.Add(*argument.array));
    if (argument.scalar.has_value()) inputs_.back() = Value(*argument.scalar);
  }
}

Value ShapeOnlyComposeContext::ApplyOp(const OpDef& op, absl::Span<const Value> inputs,
                                       const Attrs& attrs) {
  absl::Status applied;
  const int id = specs_.Apply(op, inputs, attrs, &trace_, &applied);
  if (!applied.ok()) Fail(applied);
  return Value(this, id);
}

void ShapeOnlyComposeContext::SetOutput(int i, Value value) {
  if (i >= num_outputs()) outputs_.resize(i + 1);
  outputs_[i] = value;
}

namespace {

std::string CheckOutputs(const Call& call, const InferResult& inferred) {
  const OpDef& op = *call.op;
  if (op.in_place ? !inferred.outputs.empty()
                  : !op.variadic_outputs && inferred.outputs.size() != op.outputs.size()) {
    return absl::StrCat("has ", inferred.outputs.size(), " outputs");
  }
  if (inferred.input_dtypes.size() != call.inputs.size()) return "lost an input's dtype";
  if (inferred.copy_first && op.kind != OpKind::kView) return "copies first but is no view";
  ByteRange base;
  if (op.kind == OpKind::kView) {
    const ArraySpec& a = *call.inputs[0].array;
    base = BytesTouched(inferred.copy_first ? ArraySpec(a.dtype, a.shape) : a);
  }
  for (const ArraySpec& spec : inferred.outputs) {
    absl::Status shape = CheckShape(op.name, spec.shape.span(), spec.dtype);
    if (!shape.ok()) return std::string(shape.message());
    if (spec.strides.size() != spec.ndim()) return "has a stride too many or few";
    if (op.kind == OpKind::kView) {
      const ByteRange range = BytesTouched(spec);
      if (spec.size() > 0 && (range.begin < base.begin || range.end > base.end)) {
        return absl::StrCat("makes a view of bytes [", range.begin, ", ", range.end, ") over [",
                            base.begin, ", ", base.end, ")");
      }
    } else if (op.kind == OpKind::kKernel && (!spec.is_contiguous() || spec.offset != 0)) {
      return "makes an output that is not contiguous";
    }
  }
  return "";
}

std::string CheckTrace(const Trace& trace, int depth) {
  for (const Call& call : trace) {
    InferResult inferred;
    if (!Infer(call, &inferred).ok()) return absl::StrCat("applies ", call.ToString());
    const std::string wrong = CheckCall(call, inferred, depth);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string CheckComposition(const Call& call, const InferResult& inferred, int depth) {
  ShapeOnlyComposeContext context(call);
  call.op->compose(context);
  if (!context.status().ok()) return std::string(context.status().message());
  if (context.num_outputs() != static_cast<int>(inferred.outputs.size())) {
    return absl::StrCat("its composition makes ", context.num_outputs(), " outputs");
  }
  for (int i = 0; i < context.num_outputs(); ++i) {
    const ArraySpec* made = context.output(i);
    const ArraySpec& promised = inferred.outputs[i];
    if (made == nullptr || made->dtype != promised.dtype || made->shape != promised.shape) {
      return absl::StrCat("its composition makes ", made == nullptr ? "nothing" : made->ToString(),
                          " instead of ", promised.ToString());
    }
  }
  return depth > 1 ? CheckTrace(context.trace(), depth - 1) : "";
}

std::string CheckGradient(const Call& call, const InferResult& inferred, uint64_t output_grads,
                          uint64_t needs, int depth, Touched* touched) {
  const OpDef& op = *call.op;
  ShapeOnlyGradContext context(call, inferred, output_grads, needs);
  op.gradient(context);
  // Some operators have a gradient for some attributes only.
  if (!context.status().ok() && KindOf(context.status()) == ErrorKind::kNotImplemented) return "";
  if (!context.status().ok()) {
    return absl::StrCat("its gradient: ", context.status().message());
  }
  touched->inputs |= context.touched_inputs();
  touched->outputs |= context.touched_outputs();
  if ((context.touched_inputs() & ~op.SavedInputs(call.attrs)) != 0 ||
      (context.touched_outputs() & ~op.SavedOutputs(call.attrs)) != 0) {
    return "its gradient reads what is not saved";
  }
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (!context.needs_grad(i)) continue;
    const ArraySpec* grad = context.input_grad(i);
    if (op.IsConstantInput(static_cast<size_t>(i))) {
      if (grad != nullptr) return absl::StrCat("its gradient sets that of constant input ", i);
      continue;
    }
    if (grad == nullptr) return absl::StrCat("its gradient leaves out input ", i);
    Shape joined = context.input_spec(i).shape;
    if (!IsFloat(grad->dtype) || !BroadcastInto(&joined, grad->shape) || joined != grad->shape) {
      return absl::StrCat("its gradient for ", context.input_spec(i).ToString(), " is ",
                          grad->ToString());
    }
  }
  return depth > 1 ? CheckTrace(context.trace(), depth - 1) : "";
}

}  // namespace

std::string CheckCall(const Call& call, const InferResult& inferred, int depth, Touched* touched) {
  Touched ignored;
  if (touched == nullptr) touched = &ignored;
  const OpDef& op = *call.op;
  std::string wrong = CheckOutputs(call, inferred);
  if (wrong.empty() && op.kind == OpKind::kComposition) {
    wrong = CheckComposition(call, inferred, depth);
  }
  const auto is_float = [](const ArraySpec& spec) { return IsFloat(spec.dtype); };
  const bool connected =
      op.gradient != nullptr &&
      std::any_of(inferred.outputs.begin(), inferred.outputs.end(), is_float) &&
      std::any_of(call.inputs.begin(), call.inputs.end(),
                  [&](const Argument& a) { return a.array.has_value() && is_float(*a.array); });
  if (wrong.empty() && connected) {
    wrong = CheckGradient(call, inferred, ~uint64_t{0}, ~uint64_t{0}, depth, touched);
    // Each input on its own, and each output on its own.
    for (size_t i = 0; wrong.empty() && i < std::min<size_t>(call.inputs.size(), 4); ++i) {
      wrong = CheckGradient(call, inferred, ~uint64_t{0}, uint64_t{1} << i, 1, touched);
    }
    for (size_t i = 0; wrong.empty() && i < inferred.outputs.size() && i < 4; ++i) {
      if (inferred.outputs.size() == 1) break;
      if (!is_float(inferred.outputs[i])) continue;
      wrong = CheckGradient(call, inferred, uint64_t{1} << i, ~uint64_t{0}, 1, touched);
    }
  }
  return wrong.empty() ? "" : absl::StrCat(call.ToString(), " ", wrong);
}

}  // namespace chx
