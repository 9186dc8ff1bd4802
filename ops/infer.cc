#include "ops/infer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace chx {
namespace {

// *device is set to that of the arrays, if there are any.
absl::Status CheckInputs(const OpDef& op, absl::Span<const SpecOperand> inputs, DeviceId* device) {
  const size_t declared = op.inputs.size();
  if (op.has_variadic_input() ? inputs.size() < declared : inputs.size() != declared) {
    return TypeError("[", op.name, "] expects ", op.has_variadic_input() ? "at least " : "",
                     declared, " inputs, got ", inputs.size());
  }
  if (op.has_lists() && inputs.size() % declared != 0) {
    return TypeError("[", op.name, "] expects ", declared, " lists of one length, got ",
                     inputs.size(), " arrays");
  }
  const ArraySpec* first = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputDef& def = op.inputs[op.InputOf(i, inputs.size())];
    const SpecOperand& input = inputs[i];
    if (input.is_array()) {
      if (first == nullptr) {
        first = input.array();
        *device = first->device;
      } else if (input.array()->device != first->device) {
        return DeviceError("[", op.name, "] expects arrays on one device, got '", def.name,
                           "' on device ", input.array()->device, " and others on ", first->device);
      }
    } else if (input.is_scalar() ? !def.scalar : !def.optional) {
      return TypeError(
          "[", op.name, "] expects an array for '", def.name, "', got ",
          input.is_scalar() ? absl::StrCat("the scalar ", input.scalar().ToString()) : "nothing");
    }
  }
  if (first == nullptr && declared > 0) {
    return TypeError("[", op.name, "] expects at least one array");
  }
  return absl::OkStatus();
}

absl::Status CheckAttrs(const OpDef& op, absl::Span<const AttrValue> attrs) {
  if (attrs.size() != op.attrs.size()) {
    return TypeError("[", op.name, "] expects ", op.attrs.size(), " attributes, got ",
                     attrs.size());
  }
  for (size_t i = 0; i < attrs.size(); ++i) {
    const AttrDef& def = op.attrs[i];
    const bool absent = !attrs[i].has_value();
    if (absent ? def.required || (def.default_value.has_value() && !def.nullable)
               : attrs[i].type() != def.type) {
      return TypeError("[", op.name, "] expects ", AttrTypeName(def.type), " for '", def.name,
                       "', got ", AttrTypeName(attrs[i].type()));
    }
    if (def.type == AttrType::kDtype && !absent &&
        !IsValidDtype(static_cast<int>(attrs[i].AsInt()))) {
      return DtypeError("[", op.name, "] expects a dtype for '", def.name, "', got number ",
                        attrs[i].AsInt());
    }
    if (!def.choices.empty() && !absent &&
        static_cast<uint64_t>(attrs[i].AsInt()) >= def.choices.size()) {
      return ValueError("[", op.name, "] expects one of '", absl::StrJoin(def.choices, "', '"),
                        "' for '", def.name, "', got number ", attrs[i].AsInt());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InferContext::AddOutput(Dtype dtype, const Shape& shape) {
  CHX_RETURN_IF_ERROR(CheckShape(name(), shape.span(), dtype));
  result_->outputs.emplace_back(dtype, shape, device());
  return absl::OkStatus();
}

void InferContext::CopyFirst() {
  const ArraySpec& in = input(0);
  copied_ = ArraySpec(in.dtype, in.shape, in.device);
  result_->copy_first = true;
}

absl::Status InferOp(const OpCall<SpecOperand>& call, InferResult* result) {
  DeviceId device = call.device;
  CHX_RETURN_IF_ERROR(CheckInputs(call.op, call.inputs, &device));
  CHX_RETURN_IF_ERROR(CheckAttrs(call.op, call.attrs));
  result->Clear();
  for (const SpecOperand& input : call.inputs) {
    result->input_dtypes.push_back(input.is_array() ? input.array()->dtype : Dtype::kFloat32);
  }
  InferContext context({call.op, call.inputs, call.attrs, device}, result);
  return call.op.infer(context);
}

}  // namespace chx
