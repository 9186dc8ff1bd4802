// Operators from one rank of a process group to another.
//
// Where a rank has nothing of what it sent, it has an array without elements; where it gives
// nothing, it gives an array for the shape and dtype. As in collectives.cc, that is what it has in
// its graph.
#include "ops/collective.h"
#include "ops/defs/common/expressions.h"
#include "ops/defs/common/nothing.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

constexpr CollectivePattern kSend = {nullptr, nullptr, false, false, CollectiveKind::kSend};
constexpr CollectivePattern kReceive = {nullptr, nullptr, false, false, CollectiveKind::kReceive};

absl::Status CheckPeer(const InferContext& c) {
  return PeerAttrs::From(c.op(), absl::MakeConstSpan(&c.attr(0), c.op().attrs.size())).status();
}

absl::Status SendRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckPeer(c));
  return c.AddOutput(c.input(0).dtype, Shape({0}));
}

absl::Status ReceiveRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckPeer(c));
  return c.AddOutput(c.input(0).dtype, c.input(0).shape);
}

// The same pair of ranks, the other way.
Value ToPeer(GradContext& g, absl::string_view op, Value x) {
  return g.Apply(op, {x}, {{"group", g.attr(0)}, {"peer", g.attr(1)}, {"tag", g.attr(2)}});
}

}  // namespace

void RegisterCollectivesPairs(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc, InferFn rule,
                        const CollectivePattern& pattern) -> OpDef& {
    return r.Add(name)
        .Doc(doc)
        .Module("distributed")
        .Collective(rule, &pattern)
        .Inputs({"x"})
        .Outputs({"y"})
        .Attr("peer", AttrType::kInt)
        .Attr("tag", AttrType::kInt, 0);
  };
  add("send",
      "Sends x to another rank and goes on; gives an array without elements, whose gradient is "
      "what "
      "that rank sends back.",
      SendRule, kSend)
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, ToPeer(g, "recv", ZerosFor(g.output_grad(0), g.input_spec(0))));
      });
  add("recv",
      "What another rank has sent with this tag, in the order in which it did; x is an array of "
      "its "
      "shape and dtype.",
      ReceiveRule, kReceive)
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, ZerosFor(ToPeer(g, "send", g.output_grad(0)), g.input_spec(0)));
      });
}

}  // namespace chx
