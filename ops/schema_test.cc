// Every entry of the operator table, checked without any kernel.
#include <cctype>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "ops/testing/samples.h"
#include "ops/testing/shape_only.h"

namespace chx {
namespace {

bool IsIdentifier(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  for (unsigned char c : name) {
    if (!std::isalnum(c) && c != '_') return false;
  }
  return true;
}

class SchemaTest : public testing::TestWithParam<const OpDef*> {};

TEST_P(SchemaTest, EntryIsSound) {
  const OpDef& op = *GetParam();
  EXPECT_FALSE(op.group.empty());
  EXPECT_GE(op.doc.size(), 5u);
  EXPECT_EQ(op.doc.back(), '.') << op.doc;
  ASSERT_NE(op.infer, nullptr);
  EXPECT_EQ(op.compose != nullptr, op.kind == OpKind::kComposition);
  EXPECT_EQ(op.outputs.empty(), op.in_place);
  EXPECT_LE(op.inputs.size(), 32u);
  if (!op.in_place) {
    EXPECT_EQ(op.written_inputs & ~op.constant_inputs, 0u) << "what is written has no gradient";
  }
  EXPECT_LE(op.outputs.size(), 32u);
  EXPECT_EQ(op.id, OpRegistry::Global().Find(op.name)->id);
  if (op.no_gradient || op.in_place) {
    EXPECT_EQ(op.gradient, nullptr);
  }
  if (op.gradient == nullptr) {
    EXPECT_EQ(op.saved_inputs | op.saved_outputs | op.more_inputs | op.more_outputs, 0u);
  }
  if (op.kind == OpKind::kView || op.kind == OpKind::kTransfer) {
    EXPECT_FALSE(op.inputs.empty());
  }
  if (op.method) {
    ASSERT_FALSE(op.inputs.empty());
    EXPECT_FALSE(op.inputs[0].optional || op.inputs[0].variadic);
  }
  if (!op.in_place_of.empty()) {
    const OpDef* base = OpRegistry::Global().Find(op.in_place_of);
    ASSERT_NE(base, nullptr);
    EXPECT_TRUE(base->elementwise);
    EXPECT_EQ(base->inputs.size(), op.inputs.size());
  }
}

TEST_P(SchemaTest, NamesAndAttributes) {
  const OpDef& op = *GetParam();
  std::set<std::string> params;
  for (const InputDef& input : op.inputs) {
    EXPECT_TRUE(IsIdentifier(input.name)) << input.name;
    EXPECT_TRUE(params.insert(input.name).second) << input.name;
    EXPECT_TRUE(input.variadic ? op.has_lists() || &input == &op.inputs.back() : !op.has_lists());
  }
  for (const std::string& output : op.outputs) EXPECT_TRUE(IsIdentifier(output)) << output;
  bool optional = false;
  for (const AttrDef& attr : op.attrs) {
    EXPECT_TRUE(IsIdentifier(attr.name)) << attr.name;
    EXPECT_TRUE(params.insert(attr.name).second) << attr.name;
    EXPECT_NE(attr.type, AttrType::kNone) << attr.name;
    if (attr.default_value.has_value()) {
      EXPECT_EQ(attr.default_value.type(), attr.type) << attr.name;
      EXPECT_FALSE(attr.required);
    }
    EXPECT_TRUE(!attr.nullable || attr.default_value.has_value()) << attr.name;
    if (!attr.choices.empty()) {
      EXPECT_EQ(attr.type, AttrType::kInt) << attr.name;
    }
    // Python: no parameter without a default after one that has it. Internal ones take keywords.
    if (!op.internal) {
      EXPECT_FALSE(attr.required && optional) << attr.name;
    }
    optional = optional || !attr.required;
  }
}

TEST_P(SchemaTest, SamplesHoldAndSavesAreExact) {
  const OpDef& op = *GetParam();
  Touched touched;
  int accepted = 0;
  for (const Call& call : SampleCalls(op)) {
    InferResult inferred;
    if (!Infer(call, &inferred).ok()) continue;
    ++accepted;
    EXPECT_EQ(CheckCall(call, inferred, 3, &touched), "");
  }
  EXPECT_GT(accepted, 0) << "no valid sample: add one to ops/testing/samples.cc";
  EXPECT_EQ(touched.inputs, op.saved_inputs | op.more_inputs)
      << "inputs that the gradient reads, not Saves()";
  EXPECT_EQ(touched.outputs, op.saved_outputs | op.more_outputs)
      << "outputs that the gradient reads, not Saves()";
}

TEST_P(SchemaTest, PropertiesForPythonFit) {
  const OpDef& op = *GetParam();
  for (const AttrDef& attr : op.attrs) {
    if (!attr.spatial) continue;
    EXPECT_EQ(attr.type, AttrType::kInts) << attr.name;
    ASSERT_FALSE(op.inputs.empty());
    EXPECT_FALSE(op.inputs[0].optional || op.inputs[0].variadic) << "spatial dimensions of input 0";
  }
  bool has_indices = false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i].array_like_indices) continue;
    EXPECT_FALSE(has_indices) << "only one input is converted";
    EXPECT_GT(i, 0u) << "input 0 gives the device";
    has_indices = true;
  }
  EXPECT_EQ(op.checks_indices != nullptr, has_indices);
  if (op.identity != nullptr) {
    EXPECT_EQ(op.kind, OpKind::kView);
  }
}

std::vector<const OpDef*> AllOps() {
  std::vector<const OpDef*> ops;
  for (const auto& op : OpRegistry::Global().ops()) ops.push_back(op.get());
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, SchemaTest, testing::ValuesIn(AllOps()),
                         [](const testing::TestParamInfo<const OpDef*>& info) {
                           return info.param->name;
                         });

TEST(RegistryTest, NamesAndAliasesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const OpDef* op : AllOps()) {
    EXPECT_TRUE(IsIdentifier(op->name)) << op->name;
    EXPECT_TRUE(names.insert(op->name).second) << op->name;
    for (const std::string& alias : op->aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(OpRegistry::Global().Find(alias), op);
    }
  }
  EXPECT_EQ(OpRegistry::Global().Find("no_such_operator"), nullptr);
}

TEST(RegistryTest, SignaturesTellOperatorsApart) {
  std::set<uint64_t> hashes;
  for (const OpDef* op : AllOps())
    EXPECT_TRUE(hashes.insert(op->SignatureHash()).second) << op->name;
  EXPECT_EQ(OpRegistry::Global().Find("sum")->Signature(),
            "sum(a, axis=None, keepdims=False, dtype=None)");
  EXPECT_EQ(OpRegistry::Global().Find("linear")->Signature(),
            "linear(x, w, b=None, n_batch_axes=1)");
}

// The checks themselves: rules that are wrong must be seen.
void WrongShape(GradContext& g) { g.SetInputGrad(0, g.Apply("sum", {g.output_grad(0)})); }
void ReadsUnsaved(GradContext& g) { g.SetInputGrad(0, g.output_grad(0) * g.input(0)); }
void UnknownOp(GradContext& g) { g.SetInputGrad(0, g.Apply("cosc", {g.output_grad(0)})); }
void Nothing(GradContext&) {}

TEST(CheckCallTest, SeesWrongRules) {
  const std::pair<GradientFn, const char*> wrong[] = {
      {WrongShape, "its gradient for float32(2, 3) is float32()"},
      {ReadsUnsaved, "its gradient reads what is not saved"},
      {UnknownOp, "unknown operator 'cosc'"},
      {Nothing, "its gradient leaves out input 0"}};
  for (const auto& rule : wrong) {
    OpDef op = *OpRegistry::Global().Find("copy");
    op.Gradient(rule.first);
    const Call call{&op, {ArraySpec(Dtype::kFloat32, {2, 3})}, {}};
    InferResult inferred;
    ASSERT_TRUE(Infer(call, &inferred).ok());
    EXPECT_THAT(CheckCall(call, inferred, 1), testing::HasSubstr(rule.second));
  }
  OpDef op = *OpRegistry::Global().Find("zeros_like");
  op.compose = [](ComposeContext& c) { c.SetOutput(0, c.Apply("sum", {c.input(0)})); };
  const Call call{&op, {ArraySpec(Dtype::kFloat32, {2, 3})}, {}};
  InferResult inferred;
  ASSERT_TRUE(Infer(call, &inferred).ok());
  EXPECT_THAT(CheckCall(call, inferred, 1), testing::HasSubstr("instead of float32(2, 3)"));
}

}  // namespace
}  // namespace chx
