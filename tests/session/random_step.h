// Random steps of commands: the same ones again and again, with other handles.
#ifndef CHX_TESTS_SESSION_RANDOM_STEP_H_
#define CHX_TESTS_SESSION_RANDOM_STEP_H_

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/command.h"

namespace chx::server {

// Any step: views, writes, broadcasts, gradients.
class RandomStep {
 public:
  // `operators`: about so many; 0: few.
  explicit RandomStep(uint32_t seed, int operators = 0) : random_(seed), operators_(operators) {}

  // Held arrays 1 to 4 are (3, 3), of which 1 and 2 require gradients; the argument is 5.
  std::vector<Command> Make(uint16_t (*id)(const std::string&), Handle first, Handle argument) {
    commands_.clear();
    id_ = id;
    next_ = first;
    pool_ = {1, 2, 3, 4, argument};
    in_graph_ = {1, 2};
    const int count = operators_ > 0 ? operators_ : 5 + Pick(25);
    if (Pick(2) == 0) Clear();
    for (int i = 0; i < count; ++i) AddOperator();
    const Handle total = next_++;
    Apply("sum", {Any(), 0}, total, {AttrValue(), AttrValue(false), AttrValue()});
    command::Backward backward;
    backward.outputs = {total};
    if (Pick(3) != 0) commands_.emplace_back(backward);
    if (Pick(3) == 0) Clear();
    output_ = total;
    return commands_;
  }
  Handle output() const { return output_; }
  Handle end() const { return next_; }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  Handle Any() { return pool_[static_cast<size_t>(Pick(static_cast<int>(pool_.size())))]; }
  bool InGraph(Handle handle) const {
    return std::find(in_graph_.begin(), in_graph_.end(), handle) != in_graph_.end();
  }
  void Clear() {
    commands_.emplace_back(command::SetGrad{1, 0, 0});
    commands_.emplace_back(command::SetGrad{2, 0, 0});
  }
  void Apply(const std::string& op, std::pair<Handle, Handle> inputs, Handle result,
             std::vector<AttrValue> attrs = {}) {
    command::ApplyOp command;
    command.op = id_(op);
    command.inputs.emplace_back(inputs.first);
    if (inputs.second != 0) command.inputs.emplace_back(inputs.second);
    if (result != 0) command.results.push_back(result);
    command.attrs.assign(attrs.begin(), attrs.end());
    commands_.emplace_back(command);
    if (result == 0) return;
    if (InGraph(inputs.first) || (inputs.second != 0 && InGraph(inputs.second))) {
      in_graph_.push_back(result);
    }
  }
  void AddOperator() {
    const Handle result = next_++;
    switch (Pick(9)) {
      case 0:
        Apply("add", {Any(), Any()}, result);
        break;
      case 1:
        Apply("multiply", {Any(), Any()}, result);
        break;
      case 2:
        Apply("dot", {Any(), Any()}, result);
        break;
      case 3:
        Apply("tanh", {Any(), 0}, result);
        break;
      case 4:
        Apply("transpose", {Any(), 0}, result, {AttrValue()});
        break;
      case 5: {
        const Handle row = next_++;
        Apply("amax", {Any(), 0}, row, {AttrValue(Ints{1}), AttrValue(true)});
        Apply("subtract", {Any(), row}, result);
        break;
      }
      case 6:
        Apply("copy", {Any(), 0}, result);
        break;
      default: {
        // In place, where nothing is in a graph.
        const Handle target = Pick(2) == 0 ? Handle{3} : Any();
        const Handle source = Any();
        Apply("tanh", {Any(), 0}, result);
        if (InGraph(target) || InGraph(source) || InGraph(result)) break;
        Apply(Pick(2) == 0 ? "add_" : "multiply_", {target, source}, 0);
        Apply("subtract_", {target, result}, 0);
        break;
      }
    }
    pool_.push_back(result);
  }

  std::mt19937 random_;
  const int operators_;
  uint16_t (*id_)(const std::string&) = nullptr;
  std::vector<Command> commands_;
  std::vector<Handle> pool_;
  std::vector<Handle> in_graph_;
  Handle next_ = 0;
  Handle output_ = 0;
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_RANDOM_STEP_H_
