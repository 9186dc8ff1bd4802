// Models of ranks whose gradients a backward pass reduces.
#ifndef CHX_TESTS_SESSION_REDUCED_MODELS_H_
#define CHX_TESTS_SESSION_REDUCED_MODELS_H_

#include <gtest/gtest.h>

#include <vector>

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

inline Values GradOf(Rank& rank, Handle array) {
  const Handle grad = rank.NewHandle();
  rank.Do({command::GetGrad{array, 0, grad}});
  const absl::StatusOr<Values> values = rank.Read(grad);
  EXPECT_EQ(values.status(), absl::OkStatus());
  return values.ok() ? *values : Values();
}

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_REDUCED_MODELS_H_
