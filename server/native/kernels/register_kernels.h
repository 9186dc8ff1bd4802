// One function per group of operators: the file names are those of ops/defs.
#ifndef CHX_SERVER_NATIVE_GROUPS_H_
#define CHX_SERVER_NATIVE_GROUPS_H_

#include "server/engine/kernel.h"

namespace chx::server::native {

void RegisterCreation(KernelTable& table);
void RegisterElementwise(KernelTable& table);
void RegisterReduction(KernelTable& table);
void RegisterSoftmax(KernelTable& table);  // of reduction
void RegisterManipulation(KernelTable& table);
void RegisterIndexing(KernelTable& table);
void RegisterLinalg(KernelTable& table);
void RegisterLoss(KernelTable& table);
void RegisterRandom(KernelTable& table);
void RegisterRecurrent(KernelTable& table);
void RegisterSorting(KernelTable& table);
void RegisterTakeAlong(KernelTable& table);  // of sorting
void RegisterStatistics(KernelTable& table);
void RegisterDecompositions(KernelTable& table);
void RegisterConnection(KernelTable& table);
void RegisterPooling(KernelTable& table);
void RegisterOptimizers(KernelTable& table);
void RegisterNormalization(KernelTable& table);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_GROUPS_H_
