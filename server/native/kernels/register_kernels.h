// One function per group of operators: the file names are those of ops/defs. softmax and
// take_along_axis are parts of their groups with files of their own (<group>_<part>.cc).
#ifndef CHX_SERVER_NATIVE_KERNELS_REGISTER_KERNELS_H_
#define CHX_SERVER_NATIVE_KERNELS_REGISTER_KERNELS_H_

#include "server/engine/kernel.h"

namespace chx::server::native {

void RegisterActivation(KernelTable& table);  // the smooth ones
void RegisterAttention(KernelTable& table);
void RegisterAttentionRope(KernelTable& table);
void RegisterConvolution(KernelTable& table);
void RegisterConvolutionGroups(KernelTable& table);
void RegisterCreation(KernelTable& table);
void RegisterDecompositions(KernelTable& table);
void RegisterElementwise(KernelTable& table);  // arithmetic, comparison and math
void RegisterIndexing(KernelTable& table);
void RegisterIndexingScatter(KernelTable& table);
void RegisterLinalg(KernelTable& table);
void RegisterLoss(KernelTable& table);
void RegisterLossElementwise(KernelTable& table);
void RegisterLossReduced(KernelTable& table);
void RegisterLossSequences(KernelTable& table);
void RegisterManipulation(KernelTable& table);
void RegisterNormalization(KernelTable& table);
void RegisterNormalizationRows(KernelTable& table);
void RegisterOptimizers(KernelTable& table);
void RegisterPooling(KernelTable& table);
void RegisterPoolingAdaptive(KernelTable& table);
void RegisterRandom(KernelTable& table);
void RegisterRecurrent(KernelTable& table);
void RegisterReduction(KernelTable& table);
void RegisterReductionSoftmax(KernelTable& table);
void RegisterResampling(KernelTable& table);
void RegisterSequencesLstm(KernelTable& table);
void RegisterSorting(KernelTable& table);
void RegisterSortingTakeAlong(KernelTable& table);
void RegisterSortingTopk(KernelTable& table);
void RegisterStatistics(KernelTable& table);

// All of them.
void RegisterKernels(KernelTable& table);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_REGISTER_KERNELS_H_
