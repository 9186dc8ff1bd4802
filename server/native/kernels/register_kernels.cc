#include "server/native/kernels/register_kernels.h"

namespace chx::server::native {

void RegisterKernels(KernelTable& table) {
  RegisterActivation(table);
  RegisterAttention(table);
  RegisterAttentionRope(table);
  RegisterConvolution(table);
  RegisterConvolutionGroups(table);
  RegisterCreation(table);
  RegisterDecompositions(table);
  RegisterElementwise(table);
  RegisterIndexing(table);
  RegisterIndexingScatter(table);
  RegisterLinalg(table);
  RegisterLoss(table);
  RegisterLossElementwise(table);
  RegisterLossReduced(table);
  RegisterLossSequences(table);
  RegisterManipulation(table);
  RegisterNormalization(table);
  RegisterNormalizationRows(table);
  RegisterOptimizers(table);
  RegisterPooling(table);
  RegisterPoolingAdaptive(table);
  RegisterRandom(table);
  RegisterRecurrent(table);
  RegisterReduction(table);
  RegisterReductionSoftmax(table);
  RegisterResampling(table);
  RegisterSequencesLstm(table);
  RegisterSorting(table);
  RegisterSortingTakeAlong(table);
  RegisterSortingTopk(table);
  RegisterStatistics(table);
}

}  // namespace chx::server::native
