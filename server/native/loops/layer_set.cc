// The LayerLoops of one instruction set.
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

LayerLoops MakeLayers() {
  LayerLoops layers = {};
  FillActivation(&layers);
  FillAttention(&layers);
  FillLossClasses(&layers);
  FillLossElementwise(&layers);
  FillLossSequences(&layers);
  FillNormalizationRows(&layers);
  return layers;
}

}  // namespace

void FillLayers(LoopSet* set) {
  static const LayerLoops layers = MakeLayers();
  set->layers = &layers;
}

}  // namespace chx::server::native::CHX_ISA
