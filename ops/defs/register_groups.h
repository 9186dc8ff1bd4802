// One function per group of operators; the file names are those of the kernels and test cases.
#ifndef CHX_OPS_DEFS_GROUPS_H_
#define CHX_OPS_DEFS_GROUPS_H_

#include "ops/registry.h"

namespace chx {

void RegisterCreation(OpRegistry& r);
void RegisterElementwise(OpRegistry& r);
void RegisterReduction(OpRegistry& r);
void RegisterManipulation(OpRegistry& r);
void RegisterIndexing(OpRegistry& r);
void RegisterLinalg(OpRegistry& r);
void RegisterLoss(OpRegistry& r);
void RegisterRandom(OpRegistry& r);
void RegisterMath(OpRegistry& r);
void RegisterActivation(OpRegistry& r);
void RegisterViews(OpRegistry& r);
void RegisterJoining(OpRegistry& r);
void RegisterGrids(OpRegistry& r);
void RegisterSorting(OpRegistry& r);
void RegisterStatistics(OpRegistry& r);
void RegisterDecompositions(OpRegistry& r);
void RegisterNorms(OpRegistry& r);
void RegisterEig(OpRegistry& r);
void RegisterConnection(OpRegistry& r);
void RegisterPooling(OpRegistry& r);
void RegisterNormalization(OpRegistry& r);
void RegisterRecurrent(OpRegistry& r);
void RegisterUfuncs(OpRegistry& r);
void RegisterOptimizers(OpRegistry& r);
void RegisterSequences(OpRegistry& r);

// Calls each of the above, in an order that only grows at its end.
void RegisterAllGroups(OpRegistry& r);

}  // namespace chx

#endif  // CHX_OPS_DEFS_GROUPS_H_
