// Writes what is generated from the operator table: gen_ops cc_client | pyi | docs.
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ops/registry.h"

namespace chx {
namespace {

bool IsCreation(const OpDef& op) { return op.inputs.empty(); }

std::string CcType(const AttrDef& attr) {
  switch (attr.type) {
    case AttrType::kBool:
      return "bool";
    case AttrType::kInt:
      return "int64_t";
    case AttrType::kFloat:
      return "double";
    case AttrType::kDtype:
      return "Dtype";
    case AttrType::kScalar:
      return "Scalar";
    default:
      return "Ints";
  }
}

std::string CcDefault(const AttrDef& attr) {
  if (attr.required) return "";
  if (!attr.default_value.has_value()) return " = absl::nullopt";
  if (attr.type == AttrType::kDtype) {
    static const char* const kNames[] = {"kBool",  "kInt8",    "kInt16",   "kInt32",  "kInt64",
                                         "kUint8", "kFloat16", "kFloat32", "kFloat64"};
    return absl::StrCat(" = Dtype::", kNames[attr.default_value.AsInt()]);
  }
  if (attr.type == AttrType::kBool) return attr.default_value.AsBool() ? " = true" : " = false";
  return absl::StrCat(" = ", attr.default_value.ToString());
}

std::string CcFunction(const OpDef& op, const std::string& name) {
  std::vector<std::string> params;
  std::vector<std::string> inputs;
  std::vector<std::string> attrs;
  const bool variadic = op.has_variadic_input();
  if (IsCreation(op)) params.push_back("Session& session");
  for (const InputDef& input : op.inputs) {
    params.push_back(variadic ? absl::StrCat("absl::Span<const Operand> ", input.name)
                              : absl::StrCat("const Operand& ", input.name,
                                             input.optional ? " = Operand()" : ""));
    inputs.push_back(input.name);
  }
  for (const AttrDef& attr : op.attrs) {
    const bool optional = !attr.required && !attr.default_value.has_value();
    params.push_back(absl::StrCat(optional ? absl::StrCat("absl::optional<", CcType(attr), ">")
                                           : CcType(attr),
                                  " ", attr.name, CcDefault(attr)));
    attrs.push_back(optional ? absl::StrCat(attr.name, " ? AttrValue(*", attr.name,
                                            ") : AttrValue()")
                             : absl::StrCat("AttrValue(", attr.name, ")"));
  }
  if (IsCreation(op)) params.push_back("DeviceId device = 0");
  const std::string attr_list = absl::StrCat("{", absl::StrJoin(attrs, ", "), "}");
  const std::string input_list =
      variadic ? inputs[0] : absl::StrCat("{", absl::StrJoin(inputs, ", "), "}");
  std::string call;
  if (IsCreation(op)) {
    call = absl::StrCat("Create(session, op, device, ", attr_list, ")");
  } else if (op.in_place) {
    call = absl::StrCat("ApplyInPlace(op, ", input_list, ", ", attr_list, ")");
  } else {
    call = absl::StrCat(op.variadic_outputs ? "ApplyMulti" : "Apply", "(op, ", input_list, ", ",
                        attr_list, ")");
  }
  return absl::StrCat("// ", op.doc, "\ninline ",
                      op.in_place           ? "absl::Status "
                      : op.variadic_outputs ? "std::vector<Array> "
                                            : "Array ",
                      name, "(",
                      absl::StrJoin(params, ", "), ") {\n  static const OpDef& op = *OpRegistry::",
                      "Global().Find(\"", op.name, "\");\n  return internal::", call, ";\n}\n\n");
}

void WriteCcClient(const std::vector<const OpDef*>& ops) {
  std::cout << "// Generated from the operator table by ops/codegen. Do not edit.\n"
               "#ifndef CHX_CLIENT_OPS_H_\n#define CHX_CLIENT_OPS_H_\n\n"
               "#include <vector>\n\n#include \"absl/types/optional.h\"\n"
               "#include \"client/array.h\"\n#include \"client/session.h\"\n"
               "#include \"ops/registry.h\"\n\nnamespace chx {\n\n";
  for (const OpDef* op : ops) {
    // In-place forms are internal to Python only, which has other words for them.
    if (!op->internal || op->in_place) std::cout << CcFunction(*op, op->name);
  }
  std::cout << "}  // namespace chx\n\n#endif  // CHX_CLIENT_OPS_H_\n";
}

std::string PyType(const AttrDef& attr) {
  std::string type;
  if (!attr.choices.empty()) {
    type = absl::StrCat("Literal[\"", absl::StrJoin(attr.choices, "\", \""), "\"]");
  } else {
    switch (attr.type) {
      case AttrType::kBool:
        type = "bool";
        break;
      case AttrType::kInt:
        type = "int";
        break;
      case AttrType::kFloat:
        type = "float";
        break;
      case AttrType::kDtype:
        type = "DtypeLike";
        break;
      case AttrType::kScalar:
        type = "Scalar";
        break;
      default:
        type = "int | Sequence[int]";
    }
  }
  const bool optional = !attr.required && !attr.default_value.has_value();
  return optional ? absl::StrCat(type, " | None") : type;
}

std::string PyDefault(const AttrDef& attr) {
  if (attr.required) return "";
  if (attr.type == AttrType::kDtype && attr.default_value.has_value()) {
    return absl::StrCat(" = \"", attr.default_value.ToString(), "\"");
  }
  return absl::StrCat(" = ", attr.default_value.ToString());
}

std::string PyFunction(const OpDef& op, const std::string& name, bool method) {
  std::vector<std::string> params;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const InputDef& input = op.inputs[i];
    if (method && i == 0) {
      params.push_back("self");
      continue;
    }
    std::string type = input.scalar ? "ndarray | Scalar" : "ndarray";
    if (input.variadic) type = "Sequence[ndarray]";
    params.push_back(absl::StrCat(input.name, ": ", type, input.optional ? " | None = None" : ""));
  }
  for (const AttrDef& attr : op.attrs) {
    params.push_back(absl::StrCat(attr.name, ": ", PyType(attr), PyDefault(attr)));
  }
  if (IsCreation(op)) params.push_back("device: DeviceLike = None");
  const std::string result = op.in_place ? "None" : op.variadic_outputs ? "list[ndarray]" : "ndarray";
  const std::string indent = method ? "    " : "";
  return absl::StrCat(indent, "def ", name, "(", absl::StrJoin(params, ", "), ") -> ", result,
                      ":\n", indent, "    \"\"\"", op.doc, "\"\"\"\n");
}

void WritePyi(const std::vector<const OpDef*>& ops) {
  std::cout << "# Generated from the operator table by ops/codegen. Do not edit.\n"
               "# ruff: noqa: E501\nfrom collections.abc import Sequence\n"
               "from typing import Literal\n\nfrom ._types import DeviceLike, DtypeLike, Scalar\n\n"
               "class ndarray_ops:\n    \"\"\"The methods of ndarray that are operators.\"\"\"\n\n";
  for (const OpDef* op : ops) {
    if (!op->method) continue;
    std::cout << PyFunction(*op, op->name, true);
    for (const std::string& alias : op->aliases) std::cout << PyFunction(*op, alias, true);
  }
  std::cout << "\nfrom ._core import ndarray\n\n";
  for (const OpDef* op : ops) {
    if (op->internal) continue;
    std::cout << PyFunction(*op, op->name, false);
    for (const std::string& alias : op->aliases) std::cout << alias << " = " << op->name << "\n";
  }
}

std::string KindOf(const OpDef& op) {
  switch (op.kind) {
    case OpKind::kKernel:
      return op.in_place_of.empty() ? "kernel" : "kernel of `" + op.in_place_of + "`";
    case OpKind::kView:
      return "view";
    case OpKind::kComposition:
      return "composition";
    case OpKind::kTransfer:
      break;
  }
  return "transfer";
}

std::string Saved(const OpDef& op) {
  std::vector<std::string> names;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if ((op.saved_inputs >> i) & 1) names.push_back(op.inputs[i].name);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if ((op.saved_outputs >> i) & 1) names.push_back(op.outputs[i]);
  }
  return absl::StrJoin(names, ", ");
}

void WriteDocs(const std::vector<const OpDef*>& ops) {
  std::cout << "# Operators\n\n"
               "Generated from the operator table by `ops/codegen`; do not edit. *Runs as* is a "
               "kernel of each backend, a view (stride\narithmetic), or a composition of other "
               "operators. *Keeps* is what is held for the gradient. Operators marked *internal*\n"
               "serve gradient rules and methods, and are not module functions.\n";
  std::string group;
  for (const OpDef* op : ops) {
    if (op->group != group) {
      group = op->group;
      std::cout << "\n## " << group
                << "\n\n| operator | runs as | gradient | keeps | what it does |\n|---|---|---|---|---|\n";
    }
    std::string names = "`" + op->Signature() + "`";
    for (const std::string& alias : op->aliases) names += ", also `" + alias + "`";
    if (op->internal) names += " *internal*";
    std::cout << "| " << names << " | " << KindOf(*op) << " | "
              << (op->differentiable() ? "yes" : "no") << " | " << Saved(*op) << " | "
              << absl::StrReplaceAll(op->doc, {{"|", "\\|"}}) << " |\n";
  }
}

int Main(const std::string& mode) {
  std::vector<const OpDef*> ops;
  for (const auto& op : OpRegistry::Global().ops()) ops.push_back(op.get());
  if (mode == "cc_client") {
    WriteCcClient(ops);
  } else if (mode == "pyi") {
    WritePyi(ops);
  } else if (mode == "docs") {
    WriteDocs(ops);
  } else {
    std::cerr << "gen_ops expects cc_client, pyi or docs\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace chx

int main(int argc, char** argv) { return chx::Main(argc > 1 ? argv[1] : ""); }
