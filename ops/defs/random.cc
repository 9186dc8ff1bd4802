// Random numbers as pure functions of a seed and a counter: the same on every device and replay.
#include "ops/defs/groups.h"
#include "ops/rules.h"

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
}

}  // namespace chx
