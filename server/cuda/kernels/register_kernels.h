// One function per group of operators: the file names are those of ops/defs.
#ifndef CHX_SERVER_CUDA_GROUPS_H_
#define CHX_SERVER_CUDA_GROUPS_H_

#include "server/engine/kernel.h"

namespace chx::server::cuda {

void RegisterCreation(KernelTable& table);
void RegisterElementwise(KernelTable& table);
void RegisterReduction(KernelTable& table);
void RegisterManipulation(KernelTable& table);
void RegisterIndexing(KernelTable& table);
void RegisterLinalg(KernelTable& table);
void RegisterLoss(KernelTable& table);
void RegisterRandom(KernelTable& table);
void RegisterSorting(KernelTable& table);
void RegisterStatistics(KernelTable& table);
void RegisterDecompositions(KernelTable& table);
void RegisterConnection(KernelTable& table);
void RegisterPooling(KernelTable& table);
void RegisterOptimizers(KernelTable& table);
void RegisterNormalization(KernelTable& table);
void RegisterSequences(KernelTable& table);

// Parts of RegisterElementwise, in files of their own so that they compile at the same time.
void RegisterArithmetic(KernelTable& table);
void RegisterComparison(KernelTable& table);

// All of the above; needs no GPU.
KernelTable AllKernels();

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_GROUPS_H_
