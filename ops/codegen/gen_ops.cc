// Writes what is generated from the operator table: gen_ops cc_client | pyi [SUBMODULE] | docs.
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
    static const char* const kNames[] = {"kBool",  "kInt8",    "kInt16",   "kInt32",   "kInt64",
                                         "kUint8", "kFloat16", "kFloat32", "kFloat64", "kBfloat16"};
    return absl::StrCat(" = Dtype::", kNames[attr.default_value.AsInt()]);
  }
  if (attr.type == AttrType::kBool) return attr.default_value.AsBool() ? " = true" : " = false";
  if (attr.type == AttrType::kInts) {
    return absl::StrCat(" = Ints{", absl::StrJoin(attr.default_value.ints(), ", "), "}");
  }
  return absl::StrCat(" = ", attr.default_value.ToString());
}

bool IsOptional(const AttrDef& attr) {
  return attr.nullable || (!attr.required && !attr.default_value.has_value());
}

std::string CcValue(const AttrDef& attr) {
  const std::string value = absl::StrCat(IsOptional(attr) ? "*" : "", attr.name);
  const std::string made =
      absl::StrCat(attr.type == AttrType::kIndex ? "AttrValue::Index(" : "AttrValue(", value, ")");
  return IsOptional(attr) ? absl::StrCat(attr.name, " ? ", made, " : AttrValue()") : made;
}

// Whether C++ gets a vector of arrays.
bool IsMulti(const OpDef& op) { return op.variadic_outputs || op.outputs.size() > 1; }

// "mode: 0 raise, 1 wrap, 2 clip".
std::string ChoiceComment(const OpDef& op) {
  std::string comment;
  for (const AttrDef& attr : op.attrs) {
    std::vector<std::string> words;
    for (size_t i = 0; i < attr.choices.size(); ++i) {
      words.push_back(absl::StrCat(i, " ", attr.choices[i]));
    }
    if (!words.empty()) {
      absl::StrAppend(&comment, "// ", attr.name, ": ", absl::StrJoin(words, ", "), ".\n");
    }
  }
  return comment;
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
    params.push_back(absl::StrCat(
        IsOptional(attr) ? absl::StrCat("absl::optional<", CcType(attr), ">") : CcType(attr), " ",
        attr.name, CcDefault(attr)));
    attrs.push_back(CcValue(attr));
  }
  if (IsCreation(op)) params.push_back("DeviceId device = 0");
  const std::string attr_list = absl::StrCat("{", absl::StrJoin(attrs, ", "), "}");
  const std::string input_list =
      variadic && !op.has_lists() ? inputs[0] : absl::StrCat("{", absl::StrJoin(inputs, ", "), "}");
  std::string call;
  if (IsCreation(op)) {
    call = absl::StrCat("Create(session, op, device, ", attr_list, ")");
  } else if (op.in_place) {
    call = absl::StrCat("ApplyInPlace(op, ", input_list, ", ", attr_list, ")");
  } else {
    call = absl::StrCat(IsMulti(op) ? "ApplyMulti" : "Apply", "(op, ", input_list, ", ", attr_list,
                        ")");
  }
  const std::string function = absl::StrCat("// ", op.doc, "\n", ChoiceComment(op), "inline ",
                                            op.in_place   ? "absl::Status "
                                            : IsMulti(op) ? "std::vector<Array> "
                                                          : "Array ",
                                            name, "(", absl::StrJoin(params, ", "),
                                            ") {\n  static const OpDef& op = internal::FindOp(\"",
                                            op.name, "\");\n  return internal::", call, ";\n}\n\n");
  if (op.module.empty()) return function;
  return absl::StrCat("namespace ", op.module, " {\n\n", function, "}  // namespace ", op.module,
                      "\n\n");
}

void WriteCcClient(const std::vector<const OpDef*>& ops) {
  std::cout << "// Generated from the operator table by ops/codegen. Do not edit.\n"
               "#ifndef CHX_CLIENT_OPS_H_\n#define CHX_CLIENT_OPS_H_\n\n"
               "#include <vector>\n\n#include \"absl/types/optional.h\"\n"
               "#include \"absl/types/span.h\"\n#include \"client/array.h\"\n"
               "#include \"client/session.h\"\n\nnamespace chx {\n\n";
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
  return IsOptional(attr) ? absl::StrCat(type, " | None") : type;
}

std::string PyDefault(const AttrDef& attr) {
  if (attr.required) return "";
  if (attr.type == AttrType::kDtype && attr.default_value.has_value()) {
    return absl::StrCat(" = \"", attr.default_value.ToString(), "\"");
  }
  if (attr.default_value.ints().size() == 1) {
    return absl::StrCat(" = ", attr.default_value.ints()[0]);
  }
  if (!attr.choices.empty() && attr.default_value.has_value()) {
    return absl::StrCat(" = \"", attr.choices[attr.default_value.AsInt()], "\"");
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
    // Beside another array, NumPy arrays, numbers and lists will do.
    const bool beside = (op.inputs.size() > 1 || input.variadic) && !op.WritesInput(i);
    std::string type = beside ? "Operand" : input.scalar ? "ndarray | Scalar" : "ndarray";
    if (input.variadic) type = absl::StrCat("Sequence[", beside ? "Any" : "ndarray", "]");
    if (input.array_like_indices) type = "ndarray | Indices";
    params.push_back(absl::StrCat(input.name, ": ", type, input.optional ? " | None = None" : ""));
  }
  for (const AttrDef& attr : op.attrs) {
    params.push_back(absl::StrCat(attr.name, ": ", PyType(attr), PyDefault(attr)));
  }
  if (IsCreation(op)) params.push_back("device: DeviceLike = None");
  // Of NumPy's ufuncs and reductions.
  const bool ufunc = op.group == "arithmetic" || op.group == "comparison" || op.group == "math";
  const bool reduction = op.group == "reduction";
  if ((ufunc || reduction) && op.outputs.size() == 1 && op.AttrIndex("out") < 0) {
    params.push_back("*, out: ndarray | None = None");
    if (op.name != "where") params.push_back("where: Any = True");
    if (reduction) params.push_back("initial: Any = None");
  }
  std::string result = op.in_place ? "None" : op.variadic_outputs ? "list[ndarray]" : "ndarray";
  if (op.tuple) {
    result = "Any";  // an array or a tuple of them
  } else if (!op.variadic_outputs && op.outputs.size() > 1) {
    const std::vector<std::string> arrays(op.outputs.size(), "ndarray");
    result = absl::StrCat("tuple[", absl::StrJoin(arrays, ", "), "]");
  }
  const std::string indent = method ? "    " : "";
  return absl::StrCat(indent, "def ", name, "(", absl::StrJoin(params, ", "), ") -> ", result,
                      ":\n", indent, "    \"\"\"", op.doc, "\"\"\"\n");
}

// `submodule`: "" for the top, which has the methods too.
void WritePyi(const std::vector<const OpDef*>& ops, const std::string& submodule) {
  std::cout << "# Generated from the operator table by ops/codegen. Do not edit.\n"
               "# ruff: noqa: E501, F401\nfrom collections.abc import Sequence\n"
               "from typing import Any, Literal\n\nfrom ._core import ndarray\n"
               "from ._types import DeviceLike, DtypeLike, Indices, Operand, Scalar\n\n";
  if (submodule.empty()) {
    std::cout << "class ndarray_ops:\n"
                 "    \"\"\"The methods of ndarray that are operators.\"\"\"\n\n";
  }
  for (const OpDef* op : ops) {
    if (!submodule.empty() || !op->method) continue;
    std::cout << PyFunction(*op, op->name, true);
    for (const std::string& alias : op->aliases) std::cout << PyFunction(*op, alias, true);
  }
  std::cout << "\n";
  for (const OpDef* op : ops) {
    if (op->internal || op->module != submodule) continue;
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
    case OpKind::kCollective:
      return "collective";
    case OpKind::kTransfer:
      break;
  }
  return "transfer";
}

std::string Saved(const OpDef& op) {
  std::vector<std::string> names;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (((op.saved_inputs | op.more_inputs) >> i) & 1) names.push_back(op.inputs[i].name);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (((op.saved_outputs | op.more_outputs) >> i) & 1) names.push_back(op.outputs[i]);
  }
  return absl::StrJoin(names, ", ");
}

std::string Names(const OpDef& op) {
  std::string names = absl::StrCat("`", op.name, "`");
  for (const std::string& alias : op.aliases) absl::StrAppend(&names, ", `", alias, "`");
  return names;
}

std::string InputLine(const OpDef& op, const InputDef& input) {
  const char* const several = op.has_lists() ? "list of arrays" : "one or more arrays";
  return absl::StrCat("- `", input.name, "`: ", input.variadic ? several : "array",
                      input.scalar ? " or scalar" : "", input.optional ? ", optional" : "", "\n");
}

std::string AttrLine(const AttrDef& attr) {
  std::string line = absl::StrCat("- `", attr.name, "`: ");
  if (attr.choices.empty()) {
    absl::StrAppend(&line, AttrTypeName(attr.type));
  } else {
    absl::StrAppend(&line, "one of `\"", absl::StrJoin(attr.choices, "\"`, `\""), "\"`");
  }
  if (attr.nullable) absl::StrAppend(&line, " or None");
  if (!attr.required) absl::StrAppend(&line, ", default `", attr.default_value.ToString(), "`");
  return absl::StrCat(line, "\n");
}

// A row of a group's table.
std::string DocRow(const OpDef& op) {
  return absl::StrCat("| [", Names(op), "](#", op.name, ")", op.internal ? " *internal*" : "",
                      " | ", KindOf(op), " | ", op.differentiable() ? "yes" : "no", " | ",
                      Saved(op), " |\n");
}

std::string DocSection(const OpDef& op) {
  std::string text =
      absl::StrCat("\n### ", op.name, "\n\n`", op.module.empty() ? "" : op.module + ".",
                   op.Signature(), "`\n\n", op.doc, "\n");
  if (op.inputs.size() + op.attrs.size() > 0) absl::StrAppend(&text, "\n");
  for (const InputDef& input : op.inputs) absl::StrAppend(&text, InputLine(op, input));
  for (const AttrDef& attr : op.attrs) absl::StrAppend(&text, AttrLine(attr));
  return text;
}

void WriteDocs(const std::vector<const OpDef*>& ops) {
  std::cout << "# Operators\n\n"
               "Generated from the operator table by `bazel build --config=ci //docs:ops.md`.\n\n"
               "*Runs as* is a kernel of each backend, a view (stride arithmetic) or a composition "
               "of other\noperators. *Keeps* is what is held for the gradient. Operators marked "
               "*internal* serve gradient rules\nand methods, and are not module functions.\n";
  std::vector<std::string> groups;
  for (const OpDef* op : ops) {
    if (groups.empty() || groups.back() != op->group) groups.push_back(op->group);
  }
  for (const std::string& group : groups) {
    std::cout << "\n## " << group
              << "\n\n| operator | runs as | gradient | keeps |\n|---|---|---|---|\n";
    for (const OpDef* op : ops) {
      if (op->group == group) std::cout << DocRow(*op);
    }
    for (const OpDef* op : ops) {
      if (op->group == group) std::cout << DocSection(*op);
    }
  }
}

int Main(const std::string& mode, const std::string& submodule) {
  std::vector<const OpDef*> ops;
  for (const auto& op : OpRegistry::Global().ops()) ops.push_back(op.get());
  if (mode == "cc_client") {
    WriteCcClient(ops);
  } else if (mode == "pyi") {
    WritePyi(ops, submodule);
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

int main(int argc, char** argv) {
  return chx::Main(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
}
