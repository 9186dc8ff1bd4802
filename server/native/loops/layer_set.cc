// The LayerLoops of one instruction set.
#include "server/native/loops/layer_parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

#define CHX_STRING_(text) #text
#define CHX_STRING(text) CHX_STRING_(text)

LayerLoops MakeLayerLoops() {
  LayerLoops set = {};
  set.name = CHX_STRING(CHX_ISA);
  FillActivation(&set);
  FillAttention(&set);
  FillLossClasses(&set);
  FillNormalizationRows(&set);
  return set;
}

}  // namespace

const LayerLoops& GetLayerLoops() {
  static const LayerLoops set = MakeLayerLoops();
  return set;
}

}  // namespace chx::server::native::CHX_ISA
