// One function for each file of operators.
//
// A file of this folder is named as its group, or <group>_<part>. Kernels (server/native,
// server/cuda) and the rows of tests (tests/conformance/cases) are in files of the same names. What
// groups share is in common/.
#ifndef CHX_OPS_DEFS_REGISTER_GROUPS_H_
#define CHX_OPS_DEFS_REGISTER_GROUPS_H_

#include "ops/registry.h"

namespace chx {

void RegisterCreation(OpRegistry& r);
void RegisterCreationGrids(OpRegistry& r);
void RegisterArithmetic(OpRegistry& r);
void RegisterComparison(OpRegistry& r);
void RegisterMath(OpRegistry& r);
void RegisterActivation(OpRegistry& r);
void RegisterActivationSmooth(OpRegistry& r);
void RegisterReduction(OpRegistry& r);
void RegisterReductionSoftmax(OpRegistry& r);
void RegisterStatistics(OpRegistry& r);
void RegisterStatisticsNan(OpRegistry& r);
void RegisterSorting(OpRegistry& r);
void RegisterSortingTopk(OpRegistry& r);
void RegisterManipulation(OpRegistry& r);
void RegisterManipulationAxes(OpRegistry& r);
void RegisterManipulationDiagonals(OpRegistry& r);
void RegisterJoining(OpRegistry& r);
void RegisterIndexing(OpRegistry& r);
void RegisterIndexingEmbedding(OpRegistry& r);
void RegisterIndexingScatter(OpRegistry& r);
void RegisterLinalg(OpRegistry& r);
void RegisterLinalgNorms(OpRegistry& r);
void RegisterDecompositions(OpRegistry& r);
void RegisterDecompositionsEig(OpRegistry& r);
void RegisterAttention(OpRegistry& r);
void RegisterAttentionRope(OpRegistry& r);
void RegisterConvolution(OpRegistry& r);
void RegisterConvolutionGroups(OpRegistry& r);
void RegisterPooling(OpRegistry& r);
void RegisterPoolingAdaptive(OpRegistry& r);
void RegisterResampling(OpRegistry& r);
void RegisterNormalization(OpRegistry& r);
void RegisterNormalizationRows(OpRegistry& r);
void RegisterLoss(OpRegistry& r);
void RegisterLossClasses(OpRegistry& r);
void RegisterLossElementwise(OpRegistry& r);
void RegisterLossSequences(OpRegistry& r);
void RegisterRecurrent(OpRegistry& r);
void RegisterSequences(OpRegistry& r);
void RegisterSequencesLstm(OpRegistry& r);
void RegisterRandom(OpRegistry& r);
void RegisterOptimizers(OpRegistry& r);
void RegisterCollectives(OpRegistry& r);
void RegisterCollectivesPairs(OpRegistry& r);

// Calls each of the above. An operator's id is its position. The order is free: client and daemon
// agree on ids, by name and signature, when a session opens.
void RegisterAllGroups(OpRegistry& r);

}  // namespace chx

#endif  // CHX_OPS_DEFS_REGISTER_GROUPS_H_
