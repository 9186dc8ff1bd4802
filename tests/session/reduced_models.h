// Models of ranks whose gradients a backward pass reduces.
#ifndef CHX_TESTS_SESSION_REDUCED_MODELS_H_
#define CHX_TESTS_SESSION_REDUCED_MODELS_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/session/ranks_fixture.h"

namespace chx::server {

// A model with `parameters` of one element each: the loss is the sum of w[i] * (i + 1) * scale over
// those that are used.
struct Model {
  std::vector<Handle> w;
  Handle loss = 0;
};

inline Model ModelOf(Rank& rank, int parameters, float scale, const std::vector<int>& used) {
  Model model;
  for (int i = 0; i < parameters; ++i) {
    model.w.push_back(rank.New({1}));
    rank.Do({command::RequireGrad{model.w.back()}});
  }
  for (int i : used) {
    const Handle factor = rank.New({scale * static_cast<float>(i + 1)});
    const Handle term = rank.Call("multiply", 0, {model.w[i], factor});
    model.loss = model.loss == 0 ? term : rank.Call("add", 0, {model.loss, term});
  }
  return model;
}

inline command::ReduceBackward PassOf(const Rank& rank, int size, const Model& model) {
  command::ReduceBackward pass;
  pass.location = 1;
  pass.bucket_bytes = 8;
  pass.group = 1;
  pass.rank = rank.rank();
  pass.size = size;
  pass.reduction = 1;
  if (model.loss != 0) pass.outputs.push_back(model.loss);
  pass.parameters.assign(model.w.begin(), model.w.end());
  return pass;
}

// What the session hears of a command that answers nothing.
inline std::string ErrorOf(Rank& rank, const Command& command) {
  SessionOutput output;
  rank.session().Execute({command}, &output);
  return output.errors.empty() ? "" : std::string(output.errors[0].error->status.message());
}

inline Values GradOf(Rank& rank, Handle array) {
  const Handle grad = rank.NewHandle();
  rank.Do({command::GetGrad{array, 0, grad}});
  const absl::StatusOr<Values> values = rank.Read(grad);
  EXPECT_EQ(values.status(), absl::OkStatus());
  return values.ok() ? *values : Values();
}

// That both of two ranks learn why a pass that fails at rank 1 has not ended. Returns the model.
inline Model CheckPassThatFailsAtRank1(Rank& rank) {
  Model model = ModelOf(rank, 2, 1, {0, 1});
  if (rank.rank() == 1) model.loss = rank.Call("matmul", 0, {model.loss, rank.New({1, 2})});
  const std::string error = ErrorOf(rank, PassOf(rank, 2, model));
  EXPECT_TRUE(absl::StrContains(
      error, rank.rank() == 1 ? "[matmul]" : "rank 1 has not finished a backward pass"))
      << error;
  return model;
}

// That each delayed pass of two ranks gives what the one before has reduced.
inline void CheckDelayedPasses(Rank& rank, int steps) {
  for (int step = 0; step < steps; ++step) {
    const Model model = ModelOf(rank, 2, static_cast<float>(step + rank.rank()), {0, 1});
    command::ReduceBackward pass = PassOf(rank, 2, model);
    pass.delayed = true;
    rank.Do({pass});
    const float before = step == 0 ? 0 : static_cast<float>(step) - 0.5F;
    EXPECT_EQ(GradOf(rank, model.w[0]), Values({before}));
    EXPECT_EQ(GradOf(rank, model.w[1]), Values({2 * before}));
  }
}

// That the other collectives of a pass of two ranks take their places between the buckets.
inline void CheckPassWithCollectives(Rank& rank) {
  const Model below = ModelOf(rank, 2, 1, {0, 1});  // w0 + 2 w1
  const Handle sum = rank.Call("all_reduce", 1, {below.loss});
  const Handle v = rank.New({static_cast<float>(rank.rank() + 1)});
  rank.Do({command::RequireGrad{v}});
  Model model = below;
  model.loss = rank.Call("multiply", 0, {sum, v});
  model.w.push_back(v);
  rank.Do({PassOf(rank, 2, model)});
  EXPECT_EQ(GradOf(rank, v), Values({6}));
  EXPECT_EQ(GradOf(rank, model.w[0]), Values({3}));
  EXPECT_EQ(GradOf(rank, model.w[1]), Values({6}));
}

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_REDUCED_MODELS_H_
