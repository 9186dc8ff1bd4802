// How samples.cc and its parts write calls down.
#ifndef CHX_OPS_TESTING_SAMPLE_H_
#define CHX_OPS_TESTING_SAMPLE_H_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ops/testing/samples.h"

namespace chx::samples {

using Named = std::vector<std::pair<std::string, AttrValue>>;

struct Sample {
  const char* op;
  std::vector<Argument> inputs;
  Named attrs;
};

inline ArraySpec F(std::initializer_list<int64_t> shape, Dtype dtype = Dtype::kFloat32) {
  return ArraySpec(dtype, Shape(shape));
}

inline ArraySpec I(std::initializer_list<int64_t> shape, Dtype dtype = Dtype::kInt64) {
  return ArraySpec(dtype, Shape(shape));
}

inline AttrValue Dims(std::initializer_list<int64_t> values) { return AttrValue(Ints(values)); }

// samples_networks.cc
std::vector<Sample> NeuralNetworks();
std::vector<Sample> RowsAndAttention();
std::vector<Sample> Recurrent();
std::vector<Sample> Sequences();

}  // namespace chx::samples

#endif  // CHX_OPS_TESTING_SAMPLE_H_
