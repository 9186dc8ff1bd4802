#include "server/cuda/kernels/register_kernels.h"

namespace chx::server::cuda {

KernelTable AllKernels() {
  KernelTable table;
  RegisterCreation(table);
  RegisterArithmetic(table);
  RegisterComparison(table);
  RegisterMath(table);
  RegisterReduction(table);
  RegisterReductionSoftmax(table);
  RegisterManipulation(table);
  RegisterIndexing(table);
  RegisterLinalg(table);
  RegisterLoss(table);
  RegisterRandom(table);
  RegisterSorting(table);
  RegisterSortingNonzero(table);
  RegisterSortingScan(table);
  RegisterSortingTakeAlong(table);
  RegisterStatistics(table);
  RegisterDecompositions(table);
  RegisterConvolution(table);
  RegisterPooling(table);
  RegisterOptimizers(table);
  RegisterNormalization(table);
  RegisterNormalizationRows(table);
  RegisterSequences(table);
  RegisterFused(table);
  return table;
}

}  // namespace chx::server::cuda
