// The parts of a LayerLoops, as parts.h says of a LoopSet's.
#ifndef CHX_SERVER_NATIVE_LOOPS_LAYER_PARTS_H_
#define CHX_SERVER_NATIVE_LOOPS_LAYER_PARTS_H_

#include "server/native/loops/layer_loops.h"

namespace chx::server::native::CHX_ISA {

void FillActivation(LayerLoops* set);
void FillAttention(LayerLoops* set);
void FillLossClasses(LayerLoops* set);
void FillNormalizationRows(LayerLoops* set);

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_LAYER_PARTS_H_
