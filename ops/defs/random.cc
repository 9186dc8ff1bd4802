// Random numbers as pure functions of a seed and a counter: the same on every device and replay.
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// shape, two parameters, dtype, seed, counter.
absl::Status RandomRule(InferContext& c) {
  const Dtype dtype = c.attr(3).AsDtype();
  if (!IsFloat(dtype)) {
    return DtypeError("[", c.name(), "] expects a float dtype, got ", DtypeName(dtype));
  }
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), c.attr(0).ints(), dtype));
  return c.AddOutput(dtype, Shape(c.attr(0).ints()));
}

// key; shape, begin, end.
absl::Status KeyRule(InferContext& c) {
  const ArraySpec& key = c.input(0);
  if (!c.has_array(0) || key.dtype != Dtype::kFloat64 || NumElements(key.shape) != 1) {
    return DtypeError("[", c.name(), "] expects a key of one float64, got ", key.ToString());
  }
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), c.attr(0).ints(), Dtype::kFloat32));
  Shape shape(c.attr(0).ints());
  const int axis = shape.size() - 2;
  const int64_t begin = c.attr(1).AsInt();
  const int64_t end = c.attr(2).AsInt();
  if (axis < 0 || begin < 0 || begin > end || end > shape[axis]) {
    return ValueError("[", c.name(),
                      "] expects begin and end of the rows of an array of matrices, ", "got ",
                      begin, " and ", end, " for ", shape.ToString());
  }
  shape[axis] = end - begin;
  return c.AddOutput(Dtype::kFloat32, shape);
}

// Parameters of one shape: `dtypes` are what they are cast to.
absl::Status DrawRule(InferContext& c, std::initializer_list<Dtype> dtypes, Dtype result) {
  int i = 0;
  for (const Dtype dtype : dtypes) {
    if (c.input(i).shape != c.input(0).shape) {
      return DimensionError("[", c.name(), "] expects parameters of one shape, got ",
                            c.input(0).shape.ToString(), " and ", c.input(i).shape.ToString());
    }
    c.CastInput(i++, dtype);
  }
  return c.AddOutput(result, c.input(0).shape);
}

absl::Status GammaRule(InferContext& c) {
  const Dtype dtype = c.input(0).dtype;
  return DrawRule(c, {Dtype::kFloat64}, IsFloat(dtype) ? dtype : Dtype::kFloat64);
}
absl::Status PoissonRule(InferContext& c) { return DrawRule(c, {Dtype::kFloat64}, Dtype::kInt64); }
absl::Status BinomialRule(InferContext& c) {
  return DrawRule(c, {Dtype::kInt64, Dtype::kFloat64}, Dtype::kInt64);
}

// Elements that take as many numbers as they need: element i those of block counter + i.
void RegisterDraws(OpRegistry& r) {
  const auto draw = [&r](const char* name, const char* doc, std::vector<std::string> inputs,
                         InferFn rule) {
    r.Add(name)
        .Doc(doc)
        .Inputs(std::move(inputs))
        .Outputs({"y"})
        .Attr("seed", AttrType::kInt)
        .Attr("counter", AttrType::kInt)
        .Infer(rule)
        .Internal();
  };
  draw("random_gamma", "Gamma with a shape parameter for each element and scale 1.", {"a"},
       GammaRule);
  draw("random_poisson",
       "Poisson (int64) with a rate for each element; -1 for a rate that is negative or NaN.",
       {"lam"}, PoissonRule);
  draw("random_binomial",
       "Successes (int64) of n trials with probability p, for each element; -1 for an n below 0 or "
       "a p outside of [0, 1].",
       {"n", "p"}, BinomialRule);
}

}  // namespace

void RegisterRandom(OpRegistry& r) {
  const auto random = [&r](const char* name, const char* doc, const char* a, double default_a,
                           const char* b, double default_b) {
    r.Add(name)
        .Doc(doc)
        .Outputs({"y"})
        .Attr("shape", AttrType::kInts)
        .Attr(a, AttrType::kFloat, default_a)
        .Attr(b, AttrType::kFloat, default_b)
        .Attr("dtype", AttrType::kDtype, Dtype::kFloat64)
        .Attr("seed", AttrType::kInt)
        .Attr("counter", AttrType::kInt)
        .Infer(RandomRule)
        .Internal();
  };
  random("random_uniform",
         "Uniform in [low, high), by Philox4x32-10 with `seed` as key, from block `counter` on.",
         "low", 0.0, "high", 1.0);
  random("random_normal",
         "Normal with mean loc and deviation scale, by Philox4x32-10 and Box-Muller.", "loc", 0.0,
         "scale", 1.0);
  RegisterDraws(r);
  r.Add("uniform_by_key")
      .Doc(
          "Rows [begin, end) of each matrix of uniform numbers in [0, 1), as float32, by "
          "Philox4x32-10 with the bits of one float64 as key.")
      .Inputs({"key"})
      .Outputs({"y"})
      .Attr("shape", AttrType::kInts)
      .Attr("begin", AttrType::kInt)
      .Attr("end", AttrType::kInt)
      .ConstantInputs({"key"})
      .Infer(KeyRule)
      .Internal();
}

}  // namespace chx
