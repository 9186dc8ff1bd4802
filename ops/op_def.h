// What an operator is: one OpDef per operator, shared by client and server. Knows no device, no
// kernel and no wire format.
#ifndef CHX_OPS_OP_DEF_H_
#define CHX_OPS_OP_DEF_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/attr.h"

namespace chx {

struct ArraySpec;
class InferContext;
class GradContext;
class ComposeContext;
struct CollectivePattern;

// How an operator runs.
enum class OpKind : uint8_t {
  kKernel,       // by a kernel of the device's backend
  kView,         // by stride arithmetic: its outputs share input 0's storage
  kComposition,  // by other operators
  kTransfer,     // by a copy between two devices of the session
  kCollective,   // with the other ranks of a process group (ops/collective.h)
};

struct InputDef {
  std::string name;
  bool scalar = false;    // a Scalar may stand in for the array
  bool optional = false;  // may be absent
  // One or more arrays: the last input only; or all inputs, which are lists of one length then.
  bool variadic = false;
  // Python callers may also give what NumPy makes an array of indices, such as a list.
  bool array_like_indices = false;
};

struct AttrDef {
  std::string name;
  AttrType type = AttrType::kNone;
  bool required = false;
  AttrValue default_value;  // kNone: optional without a value
  bool nullable = false;    // None may be given in place of a default that has a value
  // For kInt: the words that Python callers use for 0, 1, ...
  std::vector<std::string> choices;
  // For kInts: one number for each spatial dimension of input 0, (N, C, spatial...), or a number
  // for all of them. Python callers write the latter as a number, not as a sequence of one.
  bool spatial = false;
};

using OpId = uint16_t;
using InferFn = absl::Status (*)(InferContext& c);
using GradientFn = void (*)(GradContext& g);
using ComposeFn = void (*)(ComposeContext& c);
using CheckedFn = bool (*)(absl::Span<const AttrValue> attrs);
using IdentityFn = bool (*)(const ArraySpec& input, absl::Span<const AttrValue> attrs);

struct OpDef {
  std::string name;
  std::string group;
  std::string doc;
  OpId id = 0;  // position in the registry; on the wire, ids agreed at Open stand for these
  OpKind kind = OpKind::kKernel;
  std::vector<InputDef> inputs;
  std::vector<std::string> outputs;
  bool variadic_outputs = false;  // as many outputs as Infer adds
  std::vector<AttrDef> attrs;
  InferFn infer = nullptr;
  GradientFn gradient = nullptr;  // null: not differentiable (compositions are, by their parts)
  ComposeFn compose = nullptr;
  uint32_t saved_inputs =
      0;  // bit i: input i is kept for the gradient; a variadic input has one bit
  uint32_t saved_outputs = 0;  // bit i: output i
  // The same for calls with some attributes only; null: there are none.
  bool (*saves_more)(absl::Span<const AttrValue> values) = nullptr;
  uint32_t more_inputs = 0;
  uint32_t more_outputs = 0;
  // Bit i: outputs are constant with respect to input i, whatever its dtype; as saved_inputs.
  uint32_t constant_inputs = 0;
  // Inputs are broadcast against each other, and the kernel sees all of them in the output's shape.
  bool elementwise = false;
  // Input 0 is written and there are no outputs. Refused on arrays in a graph.
  bool in_place = false;
  // Bit i: input i is written besides what the operator returns; refused on arrays in a graph too.
  // Of an in-place operator over lists: the lists that are written.
  uint32_t written_inputs = 0;
  // What the kernel computes for an in-place form: input 0 = base(input 0, ...). Empty: own kernel.
  std::string in_place_of;
  bool no_gradient = false;  // for compositions: outputs are not connected to the graph
  bool internal = false;     // for gradient rules; not in the public API
  bool method = false;       // also a method of ndarray, with input 0 as self
  std::vector<std::string> aliases;
  std::string module;  // Python's submodule and C++'s namespace: "linalg"; empty: the top
  // Values decide whether the operator fails. With these attributes clients wait for the outcome.
  CheckedFn checked = nullptr;
  // Whether indices out of range are an error with these attributes. Python callers that give a
  // list of indices wait for the outcome then.
  CheckedFn checks_indices = nullptr;
  bool tuple = false;  // Python: variadic outputs are a tuple, or the array itself if only one
  // Python: where it holds, the result is the object that was given as input 0, not a view of it.
  IdentityFn identity = nullptr;
  // For views: the output has some of input 0's elements, each once.
  bool part_of_input = false;
  // The kernel relies on inputs that do not change while it runs, whatever their dtype. Memory that
  // a client may write to is copied first.
  bool stable_inputs = false;
  // What a collective moves; null: it is none. Its first attribute is the group.
  const CollectivePattern* pattern = nullptr;

  // Each of these returns *this, so that an entry reads as one sentence.
  OpDef& Doc(std::string text);
  // "x", "x?" optional, "x|scalar" array or scalar, "x|indices" an array of indices or what becomes
  // one, "arrays..." variadic. Lists, if there are several variadic ones, come one after the other
  // in a call.
  OpDef& Inputs(std::vector<std::string> names);
  // "y", or "ys..." variadic.
  OpDef& Outputs(std::vector<std::string> names);
  OpDef& Attr(std::string attr_name, AttrType type);                           // required
  OpDef& Attr(std::string attr_name, AttrType type, AttrValue default_value);  // or AttrValue()
  // With a default, and None is a value of its own.
  OpDef& NullableAttr(std::string attr_name, AttrType type, AttrValue default_value);
  // Integers with AttrDef::spatial: required, or with a default.
  OpDef& SpatialAttr(std::string attr_name);
  OpDef& SpatialAttr(std::string attr_name, AttrValue default_value);
  // An int attribute that Python callers write as one of these words.
  OpDef& Choice(std::string attr_name, std::vector<std::string> words, AttrValue default_value);
  OpDef& Infer(InferFn fn);
  OpDef& Elementwise(InferFn fn);
  OpDef& View(InferFn fn);
  OpDef& Compose(InferFn infer_fn, ComposeFn fn);
  OpDef& Transfer(InferFn fn);
  // The pattern outlives the registry. Declares the attribute "group".
  OpDef& Collective(InferFn fn, const CollectivePattern* collective_pattern);
  OpDef& Saves(std::vector<std::string> names);
  OpDef& SavesIf(bool (*fn)(absl::Span<const AttrValue> values), std::vector<std::string> names);
  OpDef& Gradient(GradientFn fn);
  // Inputs that have no gradient although they may be floats.
  OpDef& ConstantInputs(std::vector<std::string> names);
  OpDef& NoGradient();
  OpDef& InPlace(std::string base = "");
  OpDef& Internal();
  OpDef& Method();
  OpDef& Alias(std::string other_name);
  OpDef& Module(std::string name_of_module);
  // Clients wait for the outcome: always, or where the attributes say so.
  OpDef& Checked();
  OpDef& Checked(CheckedFn fn);
  OpDef& ChecksIndices(CheckedFn fn);
  // Inputs that the operator updates.
  OpDef& Writes(std::vector<std::string> names);
  OpDef& Tuple();
  OpDef& IdentityIf(IdentityFn fn);
  OpDef& PartOfInput();
  OpDef& StableInputs();

  bool has_variadic_input() const { return !inputs.empty() && inputs.back().variadic; }
  bool has_lists() const {
    return !inputs.empty() && inputs[0].variadic && (in_place || inputs.size() > 1);
  }
  // The input that an operand belongs to, in a call with `count` operands. Any count is accepted:
  // callers ask before the call is checked.
  size_t InputOf(size_t operand, size_t count) const {
    const size_t length = has_lists() ? std::max<size_t>(count / inputs.size(), 1) : 1;
    return std::min(operand / length, inputs.size() - 1);
  }
  // Whether a call writes to the operand.
  bool IsWritten(size_t operand, size_t count) const {
    if (written_inputs != 0) return ((written_inputs >> InputOf(operand, count)) & 1) != 0;
    return in_place && operand == 0;
  }
  // -1 if there is none.
  int AttrIndex(absl::string_view attr_name) const;
  // Whether float outputs are connected to the graph of inputs that require grad.
  bool differentiable() const {
    return gradient != nullptr || (kind == OpKind::kComposition && !no_gradient);
  }
  bool IsChecked(absl::Span<const AttrValue> values) const {
    return checked != nullptr && checked(values);
  }
  bool MayRefuseIndices(absl::Span<const AttrValue> values) const {
    return checks_indices != nullptr && checks_indices(values);
  }
  bool IsIdentity(const ArraySpec& input, absl::Span<const AttrValue> values) const {
    return identity != nullptr && identity(input, values);
  }
  bool IsConstantInput(size_t i) const { return HasInput(constant_inputs, i); }
  // Whether the gradient of a call may ask for input i, or for output i of those declared.
  bool SavesInput(size_t i, absl::Span<const AttrValue> values) const {
    return HasInput(SavedInputs(values), i);
  }
  bool SavesOutput(size_t i, absl::Span<const AttrValue> values) const {
    return ((SavedOutputs(values) >> i) & 1) != 0;
  }
  uint32_t SavedInputs(absl::Span<const AttrValue> values) const {
    return saved_inputs | (saves_more != nullptr && saves_more(values) ? more_inputs : 0);
  }
  uint32_t SavedOutputs(absl::Span<const AttrValue> values) const {
    return saved_outputs | (saves_more != nullptr && saves_more(values) ? more_outputs : 0);
  }
  // Whether the declared input i, an array or a list of them, is written.
  bool WritesInput(size_t i) const {
    return written_inputs != 0 ? ((written_inputs >> i) & 1) != 0 : in_place && i == 0;
  }
  // Python-like: "sum(x, axis=None, keepdims=False)"; hashed at Open to agree on ids.
  std::string Signature() const;
  uint64_t SignatureHash() const;

 private:
  // Input i of a call; the last bit stands for all inputs of a variadic one.
  bool HasInput(uint32_t mask, size_t i) const {
    return mask != 0 && ((mask >> std::min(i, inputs.size() - 1)) & 1) != 0;
  }
};

}  // namespace chx

#endif  // CHX_OPS_OP_DEF_H_
