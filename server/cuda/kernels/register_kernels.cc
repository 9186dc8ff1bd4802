#include "server/cuda/groups.h"

namespace chx::server::cuda {

KernelTable AllKernels() {
  KernelTable table;
  RegisterCreation(table);
  RegisterElementwise(table);
  RegisterReduction(table);
  RegisterManipulation(table);
  RegisterIndexing(table);
  RegisterLinalg(table);
  RegisterLoss(table);
  RegisterRandom(table);
  RegisterSorting(table);
  RegisterStatistics(table);
  RegisterDecompositions(table);
  RegisterConnection(table);
  RegisterPooling(table);
  RegisterOptimizers(table);
  RegisterNormalization(table);
  RegisterSequences(table);
  return table;
}

}  // namespace chx::server::cuda
