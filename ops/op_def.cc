#include "ops/op_def.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace chx {

OpDef& OpDef::Doc(std::string text) {
  doc = std::move(text);
  return *this;
}

OpDef& OpDef::Inputs(std::vector<std::string> names) {
  for (absl::string_view text : names) {
    InputDef input;
    input.scalar = absl::ConsumeSuffix(&text, "|scalar");
    input.optional = absl::ConsumeSuffix(&text, "?");
    input.variadic = absl::ConsumeSuffix(&text, "...");
    input.array_like_indices = absl::ConsumeSuffix(&text, "|indices");
    input.name = std::string(text);
    inputs.push_back(std::move(input));
  }
  return *this;
}

OpDef& OpDef::Outputs(std::vector<std::string> names) {
  for (absl::string_view text : names) {
    variadic_outputs = absl::ConsumeSuffix(&text, "...") || variadic_outputs;
    outputs.push_back(std::string(text));
  }
  return *this;
}

OpDef& OpDef::Attr(std::string attr_name, AttrType type) {
  attrs.push_back({std::move(attr_name), type, true, AttrValue(), false, {}, false});
  return *this;
}

OpDef& OpDef::Attr(std::string attr_name, AttrType type, AttrValue default_value) {
  attrs.push_back({std::move(attr_name), type, false, std::move(default_value), false, {}, false});
  return *this;
}

OpDef& OpDef::NullableAttr(std::string attr_name, AttrType type, AttrValue default_value) {
  attrs.push_back({std::move(attr_name), type, false, std::move(default_value), true, {}, false});
  return *this;
}

OpDef& OpDef::SpatialAttr(std::string attr_name) {
  Attr(std::move(attr_name), AttrType::kInts);
  attrs.back().spatial = true;
  return *this;
}

OpDef& OpDef::SpatialAttr(std::string attr_name, AttrValue default_value) {
  Attr(std::move(attr_name), AttrType::kInts, std::move(default_value));
  attrs.back().spatial = true;
  return *this;
}

OpDef& OpDef::Choice(std::string attr_name, std::vector<std::string> words,
                     AttrValue default_value) {
  attrs.push_back({std::move(attr_name), AttrType::kInt, false, std::move(default_value), false,
                   std::move(words), false});
  return *this;
}

OpDef& OpDef::Infer(InferFn fn) {
  infer = fn;
  return *this;
}

OpDef& OpDef::Elementwise(InferFn fn) {
  elementwise = true;
  return Infer(fn);
}

OpDef& OpDef::View(InferFn fn) {
  kind = OpKind::kView;
  return Infer(fn);
}

OpDef& OpDef::Compose(InferFn infer_fn, ComposeFn fn) {
  kind = OpKind::kComposition;
  compose = fn;
  return Infer(infer_fn);
}

OpDef& OpDef::Transfer(InferFn fn) {
  kind = OpKind::kTransfer;
  return Infer(fn);
}

OpDef& OpDef::Collective(InferFn fn, const CollectivePattern* collective_pattern) {
  kind = OpKind::kCollective;
  pattern = collective_pattern;
  return Attr("group", AttrType::kInts).Infer(fn);
}

OpDef& OpDef::Saves(std::vector<std::string> names) {
  for (const std::string& saved : names) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].name == saved) saved_inputs |= uint32_t{1} << i;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == saved) saved_outputs |= uint32_t{1} << i;
    }
  }
  return *this;
}

OpDef& OpDef::SavesIf(bool (*fn)(absl::Span<const AttrValue> values),
                      std::vector<std::string> names) {
  const uint32_t always_inputs = saved_inputs;
  const uint32_t always_outputs = saved_outputs;
  Saves(std::move(names));
  saves_more = fn;
  more_inputs = std::exchange(saved_inputs, always_inputs);
  more_outputs = std::exchange(saved_outputs, always_outputs);
  return *this;
}

OpDef& OpDef::Gradient(GradientFn fn) {
  gradient = fn;
  return *this;
}

OpDef& OpDef::ConstantInputs(std::vector<std::string> names) {
  for (const std::string& constant : names) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].name == constant) constant_inputs |= uint32_t{1} << i;
    }
  }
  return *this;
}

OpDef& OpDef::InPlace(std::string base) {
  in_place = true;
  in_place_of = std::move(base);
  return *this;
}

OpDef& OpDef::Internal() {
  internal = true;
  return *this;
}

OpDef& OpDef::Method() {
  method = true;
  return *this;
}

OpDef& OpDef::Alias(std::string other_name) {
  aliases.push_back(std::move(other_name));
  return *this;
}

OpDef& OpDef::Module(std::string name_of_module) {
  module = std::move(name_of_module);
  return *this;
}

OpDef& OpDef::Checked() {
  return Checked([](absl::Span<const AttrValue>) { return true; });
}

OpDef& OpDef::Checked(CheckedFn fn) {
  checked = fn;
  return *this;
}

OpDef& OpDef::ChecksIndices(CheckedFn fn) {
  checks_indices = fn;
  return *this;
}

OpDef& OpDef::Writes(std::vector<std::string> names) {
  for (const std::string& written : names) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].name == written) written_inputs |= uint32_t{1} << i;
    }
  }
  return *this;
}

OpDef& OpDef::Tuple() {
  tuple = true;
  return *this;
}

OpDef& OpDef::IdentityIf(IdentityFn fn) {
  identity = fn;
  return *this;
}

OpDef& OpDef::PartOfInput() {
  part_of_input = true;
  return *this;
}

OpDef& OpDef::StableInputs() {
  stable_inputs = true;
  return *this;
}

OpDef& OpDef::NoGradient() {
  no_gradient = true;
  return *this;
}

int OpDef::AttrIndex(absl::string_view attr_name) const {
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i].name == attr_name) return static_cast<int>(i);
  }
  return -1;
}

std::string OpDef::Signature() const {
  std::vector<std::string> params;
  for (const InputDef& input : inputs) {
    params.push_back(absl::StrCat(input.name, input.optional ? "=None" : ""));
  }
  for (const AttrDef& attr : attrs) {
    params.push_back(attr.required ? attr.name
                                   : absl::StrCat(attr.name, "=", attr.default_value.ToString()));
  }
  return absl::StrCat(name, "(", absl::StrJoin(params, ", "), ")");
}

uint64_t OpDef::SignatureHash() const {
  // FNV-1a over all that the wire encoding depends on.
  std::string text = absl::StrCat(Signature(), "|", in_place, variadic_outputs, outputs.size());
  for (const InputDef& input : inputs) absl::StrAppend(&text, input.scalar, input.variadic);
  for (const AttrDef& attr : attrs) {
    absl::StrAppend(&text, static_cast<int>(attr.type), attr.nullable, attr.choices.size());
  }
  uint64_t hash = 14695981039346656037u;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

}  // namespace chx
