#include "server/native/loops/layer_loops.h"

#include "absl/strings/string_view.h"

namespace chx::server::native {

// Each is in layer_set.cc, compiled for the instruction set.
namespace baseline {
const LayerLoops& GetLayerLoops();
}  // namespace baseline
namespace avx2 {
const LayerLoops& GetLayerLoops();
}  // namespace avx2
namespace avx512 {
const LayerLoops& GetLayerLoops();
}  // namespace avx512

namespace {

const LayerLoops& For(const LoopSet& set) {
#ifndef CHX_BASELINE_ONLY
  const absl::string_view name = set.name;
  if (name == "avx512") return avx512::GetLayerLoops();
  if (name == "avx2") return avx2::GetLayerLoops();
#endif
  return baseline::GetLayerLoops();
}

}  // namespace

std::vector<const LayerLoops*> SupportedLayerLoops() {
  std::vector<const LayerLoops*> sets;
  for (const LoopSet* set : SupportedLoops()) sets.push_back(&For(*set));
  return sets;
}

const LayerLoops& LayersLoops() {
  static const LayerLoops& loops = For(Loops());
  return loops;
}

}  // namespace chx::server::native
