// Writes client/optimizers.h, the optimizers' classes, from the tables in ops/optimizer_rules.h.
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ops/optimizer_rules.h"

namespace chx {
namespace {

std::string CcValue(Scalar value) {
  if (value.kind() == ScalarKind::kBool) return value.AsBool() ? "true" : "false";
  return value.ToString();
}

void WriteClass(const OptimizerDef& def) {
  std::cout << "// " << absl::StrReplaceAll(def.doc, {{"\n", "\n// "}}) << "\nclass " << def.name
            << " final : public Optimizer {\n public:\n  " << def.name << "() : Optimizer(\""
            << def.name << "\") {}\n\n";
  std::vector<std::string> members;
  for (const Hyperparameter& hyperparameter : def.FindRule().hyperparameters) {
    if (def.FixedValue(hyperparameter.name) != nullptr) continue;
    const bool is_bool = hyperparameter.value.kind() == ScalarKind::kBool;
    std::cout << "  " << (is_bool ? "bool " : "double ") << hyperparameter.name << " = "
              << CcValue(hyperparameter.value) << ";\n";
    members.push_back(absl::StrCat("&", hyperparameter.name));
  }
  std::cout << "\n private:\n  std::vector<Member> members() override { return {"
            << absl::StrJoin(members, ", ") << "}; }\n};\n\n";
}

void WriteClasses() {
  std::cout << "// Generated from ops/optimizer_rules.cc by ops/codegen. Do not edit.\n"
               "//\n"
               "// The optimizers. Hyperparameters are members, which may be changed between "
               "steps.\n"
               "#ifndef CHX_CLIENT_OPTIMIZERS_H_\n#define CHX_CLIENT_OPTIMIZERS_H_\n\n"
               "#include <vector>\n\n#include \"client/optimizer.h\"\n"
               "#include \"client/optimizer_hooks.h\"\n\nnamespace chx {\n"
               "namespace optimizers {\n\n";
  for (const OptimizerDef& def : OptimizerDefs()) WriteClass(def);
  std::cout << "}  // namespace optimizers\n}  // namespace chx\n\n"
               "#endif  // CHX_CLIENT_OPTIMIZERS_H_\n";
}

}  // namespace
}  // namespace chx

int main() {
  chx::WriteClasses();
  return 0;
}
