// The parts of a LoopSet, each filled in by a source file of its own. What they define is in
// namespace CHX_ISA (`baseline`, `avx2` or `avx512`): Bazel compiles these files once for each
// instruction set (chx_isa_library in bazel/cc.bzl). The shared helpers that they use are
// inlined by force (server/kernels/host_device.h), so that the linker never takes code for one
// processor into another's set.
#ifndef CHX_SERVER_NATIVE_LOOPS_PARTS_H_
#define CHX_SERVER_NATIVE_LOOPS_PARTS_H_

#include "server/native/loops/loops.h"

namespace chx::server::native::CHX_ISA {

void FillArithmetic(LoopSet* set);
void FillCasts(LoopSet* set);
void FillComparison(LoopSet* set);
void FillLayers(LoopSet* set);
void FillLoss(LoopSet* set);
void FillMath(LoopSet* set);
void FillNormalization(LoopSet* set);
void FillPooling(LoopSet* set);
void FillRecurrent(LoopSet* set);
void FillReduction(LoopSet* set);
void FillSoftmax(LoopSet* set);
void FillUpdates(LoopSet* set);

void FillActivation(LayerLoops* layers);
void FillAttention(LayerLoops* layers);
void FillLossClasses(LayerLoops* layers);
void FillLossElementwise(LayerLoops* layers);
void FillLossSequences(LayerLoops* layers);
void FillNormalizationRows(LayerLoops* layers);

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_PARTS_H_
