// One function per group of operators. The file names are those of ops/defs: the functions of
// GROUP.cc are in GROUP.cu, or in GROUP_PART.cu.
#ifndef CHX_SERVER_CUDA_KERNELS_REGISTER_KERNELS_H_
#define CHX_SERVER_CUDA_KERNELS_REGISTER_KERNELS_H_

#include "server/engine/kernel.h"

namespace chx::server::cuda {

void RegisterCreation(KernelTable& table);
void RegisterArithmetic(KernelTable& table);
void RegisterComparison(KernelTable& table);
void RegisterMath(KernelTable& table);
void RegisterReduction(KernelTable& table);
void RegisterReductionSoftmax(KernelTable& table);
void RegisterManipulation(KernelTable& table);
void RegisterIndexing(KernelTable& table);
void RegisterLinalg(KernelTable& table);
void RegisterLoss(KernelTable& table);
void RegisterRandom(KernelTable& table);
void RegisterSorting(KernelTable& table);
void RegisterSortingNonzero(KernelTable& table);
void RegisterSortingScan(KernelTable& table);
void RegisterSortingTakeAlong(KernelTable& table);
void RegisterStatistics(KernelTable& table);
void RegisterDecompositions(KernelTable& table);
void RegisterConvolution(KernelTable& table);
void RegisterPooling(KernelTable& table);
void RegisterOptimizers(KernelTable& table);
void RegisterNormalization(KernelTable& table);
void RegisterNormalizationRows(KernelTable& table);
void RegisterSequences(KernelTable& table);
void RegisterFused(KernelTable& table);

// Calls all of the above. Needs no GPU.
KernelTable AllKernels();

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_REGISTER_KERNELS_H_
