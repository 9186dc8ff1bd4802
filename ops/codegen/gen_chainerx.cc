// Writes ChainerX's C++ names of operators: gen_chainerx header | source.
//
// An operator's name becomes a routine's by capitals (log_softmax: LogSoftmax), but for those in
// Renamed(). Those in ByHand() have other arguments in ChainerX: they are in client/chainerx.
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/registry.h"

namespace chx {
namespace {

const absl::flat_hash_map<std::string, std::string>& Renamed() {
  static const auto* const names = new absl::flat_hash_map<std::string, std::string>({
      {"abs", "Absolute"},
      {"amax", "AMax"},
      {"amin", "AMin"},
      {"atleast_1d", "AtLeast1D"},
      {"atleast_2d", "AtLeast2D"},
      {"atleast_3d", "AtLeast3D"},
      {"crelu", "CRelu"},
      {"dstack", "DStack"},
      {"gaussian_kl_divergence", "GaussianKLDivergence"},
      {"hstack", "HStack"},
      {"inv", "Inverse"},
      {"isclose", "IsClose"},
      {"isfinite", "IsFinite"},
      {"isinf", "IsInf"},
      {"isnan", "IsNan"},
      {"logsumexp", "LogSumExp"},
      {"pinv", "PseudoInverse"},
      {"remainder", "Mod"},
      {"rollaxis", "RollAxis"},
      {"slstm", "SLstm"},
      {"vstack", "VStack"},
  });
  return *names;
}

const absl::flat_hash_set<std::string>& ByHand() {
  static const auto* const names = new absl::flat_hash_set<std::string>({
      "allclose",
      "argmax",
      "argmin",
      "astype",
      "average_pool",
      "conv",
      "conv_transpose",
      "dot",
      "eigh",
      "eigvalsh",
      "empty_like",
      "full_like",
      "max_pool",
      "meshgrid",
      "nanargmax",
      "nanargmin",
      "nonzero_positions",
      "ones_like",
      "qr",
      "repeat",
      "split",
      "svd",
      "take",
      "view",
      "zeros_like",
  });
  return *names;
}

// Whether an operator has a routine that is generated. Creation takes a device, updates of lists
// are the optimizers', and ChainerX has no process groups.
bool HasRoutine(const OpDef& op) {
  return !op.internal && !op.in_place && !op.inputs.empty() && !op.has_lists() &&
         op.module != "optimizers" && op.kind != OpKind::kCollective &&
         !absl::EndsWith(op.name, "_grad") && !ByHand().contains(op.name);
}

std::string RoutineName(const OpDef& op) {
  const auto renamed = Renamed().find(op.name);
  if (renamed != Renamed().end()) return renamed->second;
  std::string name;
  for (absl::string_view word : absl::StrSplit(op.name, '_')) {
    absl::StrAppend(&name, absl::string_view(std::string(1, absl::ascii_toupper(word[0]))),
                    word.substr(1));
  }
  return name;
}

bool IsOptional(const AttrDef& attr) {
  return attr.nullable || (!attr.required && !attr.default_value.has_value());
}

bool IsAxes(const AttrDef& attr) {
  return attr.type == AttrType::kInts && IsOptional(attr) && !attr.default_value.has_value();
}

std::string Type(const AttrDef& attr) {
  std::string type;
  if (!attr.choices.empty()) return "const std::string&";
  if (IsAxes(attr)) return "const OptionalAxes&";
  switch (attr.type) {
    case AttrType::kBool:
      type = "bool";
      break;
    case AttrType::kInt:
      type = "int64_t";
      break;
    case AttrType::kDtype:
      type = "Dtype";
      break;
    case AttrType::kInts:
      return absl::EndsWith(attr.name, "shape") ? "const Shape&" : "const std::vector<int64_t>&";
    default:  // ChainerX takes numbers of any kind for most floats.
      type = "Scalar";
  }
  return IsOptional(attr) ? absl::StrCat("Optional<", type, ">") : type;
}

std::string Default(const AttrDef& attr) {
  if (attr.required) return "";
  if (!attr.choices.empty()) {
    return absl::StrCat(" = \"", attr.choices[attr.default_value.AsInt()], "\"");
  }
  if (!attr.default_value.has_value()) return " = std::nullopt";
  if (attr.type == AttrType::kBool) return attr.default_value.AsBool() ? " = true" : " = false";
  if (attr.type == AttrType::kInts) {
    return absl::StrCat(" = {", absl::StrJoin(attr.default_value.ints(), ", "), "}");
  }
  if (attr.type == AttrType::kDtype) {
    std::string name(DtypeName(attr.default_value.AsDtype()));
    name[0] = absl::ascii_toupper(name[0]);
    return absl::StrCat(" = Dtype::k", name);
  }
  return absl::StrCat(" = ", attr.default_value.ToString());
}

// What makes the operator's attribute of the argument, in client/chainerx/internal.h.
std::string Value(const AttrDef& attr) {
  if (!attr.choices.empty()) {
    return absl::StrCat("internal::ToChoice(op, \"", attr.name, "\", ", attr.name, ")");
  }
  return absl::StrCat(attr.type == AttrType::kFloat ? "internal::ToFloat(" : "internal::ToAttr(",
                      attr.name, ")");
}

struct Routine {
  std::string signature;    // without defaults
  std::string declaration;  // with them
  std::string inputs;
};

// One overload: bit i of `scalars` says that input i is a number.
Routine MakeRoutine(const OpDef& op, uint32_t scalars) {
  std::vector<std::string> params;
  std::vector<std::string> defaults;
  std::vector<std::string> names;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const InputDef& input = op.inputs[i];
    const char* const type = input.variadic              ? "const std::vector<Array>& "
                             : input.optional            ? "const Optional<Array>& "
                             : ((scalars >> i) & 1) != 0 ? "Scalar "
                                                         : "const Array& ";
    params.push_back(absl::StrCat(type, input.name));
    defaults.push_back(input.optional ? " = std::nullopt" : "");
    names.push_back(input.name);
  }
  for (const AttrDef& attr : op.attrs) {
    params.push_back(absl::StrCat(Type(attr), " ", attr.name));
    defaults.push_back(Default(attr));
  }
  const bool several = op.variadic_outputs || op.outputs.size() > 1;
  const std::string head =
      absl::StrCat(several ? "std::vector<Array> " : "Array ", RoutineName(op), "(");
  Routine routine;
  routine.signature = absl::StrCat(head, absl::StrJoin(params, ", "), ")");
  for (size_t i = 0; i < params.size(); ++i) params[i] += defaults[i];
  routine.declaration = absl::StrCat(head, absl::StrJoin(params, ", "), ");\n");
  routine.inputs = op.has_variadic_input() ? absl::StrCat("internal::Arguments(", names[0], ")")
                                           : absl::StrCat("{", absl::StrJoin(names, ", "), "}");
  return routine;
}

// An array in each place, or a number where one may be: at least one array remains.
std::vector<Routine> MakeRoutines(const OpDef& op) {
  std::vector<Routine> routines;
  for (uint32_t scalars = 0; scalars + 1 < (1u << op.inputs.size()); ++scalars) {
    bool possible = true;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (((scalars >> i) & 1) != 0 && !op.inputs[i].scalar) possible = false;
    }
    if (possible) routines.push_back(MakeRoutine(op, scalars));
  }
  return routines;
}

void WriteHeader(const std::vector<const OpDef*>& ops) {
  std::cout << "// Generated from the operator table by ops/codegen. Do not edit.\n"
               "#ifndef CHX_CHAINERX_OPERATORS_H_\n#define CHX_CHAINERX_OPERATORS_H_\n\n"
               "#include <cstdint>\n#include <string>\n#include <vector>\n\n"
               "#include \"chx/chainerx/array.h\"\n#include \"chx/chainerx/dtype.h\"\n"
               "#include \"chx/chainerx/optional.h\"\n#include \"chx/chainerx/scalar.h\"\n"
               "#include \"chx/chainerx/shape.h\"\n\nnamespace chainerx {\n\n";
  for (const OpDef* op : ops) {
    std::cout << "// " << op->doc << "\n";
    for (const Routine& routine : MakeRoutines(*op)) std::cout << routine.declaration;
    std::cout << "\n";
  }
  std::cout << "}  // namespace chainerx\n\n#endif  // CHX_CHAINERX_OPERATORS_H_\n";
}

void WriteSource(const std::vector<const OpDef*>& ops) {
  std::cout << "// Generated from the operator table by ops/codegen. Do not edit.\n"
               "#include \"chx/chainerx/operators.h\"\n\n"
               "#include \"client/chainerx/internal.h\"\n\nnamespace chainerx {\n\n";
  for (const OpDef* op : ops) {
    const bool several = op->variadic_outputs || op->outputs.size() > 1;
    std::vector<std::string> attrs;
    for (const AttrDef& attr : op->attrs) attrs.push_back(Value(attr));
    for (const Routine& routine : MakeRoutines(*op)) {
      std::cout << routine.signature << " {\n  static const auto& op = internal::Operator(\""
                << op->name << "\");\n  return internal::" << (several ? "CallMulti" : "Call")
                << "(op, " << routine.inputs << ", {" << absl::StrJoin(attrs, ", ") << "});\n}\n\n";
    }
  }
  std::cout << "}  // namespace chainerx\n";
}

int Main(const std::string& mode) {
  std::vector<const OpDef*> ops;
  for (const auto& op : OpRegistry::Global().ops()) {
    if (HasRoutine(*op)) ops.push_back(op.get());
  }
  if (mode == "header") {
    WriteHeader(ops);
  } else if (mode == "source") {
    WriteSource(ops);
  } else {
    std::cerr << "gen_chainerx expects header or source\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace chx

int main(int argc, char** argv) { return chx::Main(argc > 1 ? argv[1] : ""); }
