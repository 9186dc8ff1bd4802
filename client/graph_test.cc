#include "client/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/sanitizers.h"

namespace chx {
namespace {

Ref<GraphNode> Apply(std::initializer_list<Ref<GraphNode>> inputs) {
  Ref<MirrorOp> op = MakeRef<MirrorOp>();
  op->inputs.assign(inputs.begin(), inputs.end());
  Ref<GraphNode> output = MakeRef<GraphNode>(0);
  output->creator = std::move(op);
  return output;
}

TEST(GraphTest, EachReachableNodeIsFoundOnce) {
  const Ref<GraphNode> x = MakeRef<GraphNode>(0);
  const Ref<GraphNode> unrelated = Apply({x});
  const Ref<GraphNode> a = Apply({x, x});
  const Ref<GraphNode> b = Apply({a, x});
  const Ref<GraphNode> c = Apply({a, b});
  GraphNode* const outputs[] = {c.get(), b.get()};
  const std::vector<Ref<GraphNode>> nodes = FindReachable(outputs).nodes;
  EXPECT_EQ(nodes.size(), 4u);
  for (const Ref<GraphNode>& node : {x, a, b, c}) {
    EXPECT_EQ(std::count(nodes.begin(), nodes.end(), node), 1);
  }
  EXPECT_EQ(FindReachable(outputs).nodes.size(), 4u);  // marks of the first traversal don't count
}

TEST(GraphTest, DeepGraphsAreVisitedAndDestroyedWithoutRecursion) {
  const Ref<GraphNode> leaf = MakeRef<GraphNode>(0);
  Ref<GraphNode> node = leaf;
  constexpr int kDeep = Rounds(1000000);
  for (int i = 0; i < kDeep; ++i) node = Apply({node});
  GraphNode* const output = node.get();
  EXPECT_EQ(FindReachable(absl::MakeConstSpan(&output, 1)).nodes.size(), kDeep + 1u);
  EXPECT_FALSE(leaf->unique());
  node = nullptr;
  EXPECT_TRUE(leaf->unique());
}

}  // namespace
}  // namespace chx
