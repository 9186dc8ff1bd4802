#include "ops/defs/register_groups.h"

namespace chx {

void RegisterAllGroups(OpRegistry& r) {
  r.BeginGroup("creation");
  RegisterCreation(r);
  RegisterCreationGrids(r);
  r.BeginGroup("arithmetic");
  RegisterArithmetic(r);
  r.BeginGroup("comparison");
  RegisterComparison(r);
  r.BeginGroup("math");
  RegisterMath(r);
  r.BeginGroup("activation");
  RegisterActivation(r);
  RegisterActivationSmooth(r);
  r.BeginGroup("reduction");
  RegisterReduction(r);
  RegisterReductionSoftmax(r);
  r.BeginGroup("statistics");
  RegisterStatistics(r);
  RegisterStatisticsNan(r);
  r.BeginGroup("sorting");
  RegisterSorting(r);
  RegisterSortingTopk(r);
  r.BeginGroup("manipulation");
  RegisterManipulation(r);
  RegisterManipulationAxes(r);
  RegisterManipulationDiagonals(r);
  r.BeginGroup("joining");
  RegisterJoining(r);
  r.BeginGroup("indexing");
  RegisterIndexing(r);
  RegisterIndexingEmbedding(r);
  RegisterIndexingScatter(r);
  r.BeginGroup("linalg");
  RegisterLinalg(r);
  RegisterLinalgNorms(r);
  r.BeginGroup("decompositions");
  RegisterDecompositions(r);
  RegisterDecompositionsEig(r);
  r.BeginGroup("convolution");
  RegisterConvolution(r);
  RegisterConvolutionGroups(r);
  r.BeginGroup("pooling");
  RegisterPooling(r);
  RegisterPoolingAdaptive(r);
  r.BeginGroup("resampling");
  RegisterResampling(r);
  r.BeginGroup("normalization");
  RegisterNormalization(r);
  RegisterNormalizationRows(r);
  r.BeginGroup("attention");
  RegisterAttention(r);
  RegisterAttentionRope(r);
  r.BeginGroup("loss");
  RegisterLoss(r);
  RegisterLossClasses(r);
  RegisterLossElementwise(r);
  RegisterLossSequences(r);
  r.BeginGroup("recurrent");
  RegisterRecurrent(r);
  r.BeginGroup("sequences");
  RegisterSequences(r);
  RegisterSequencesLstm(r);
  r.BeginGroup("random");
  RegisterRandom(r);
  r.BeginGroup("optimizers");
  RegisterOptimizers(r);
  r.BeginGroup("collectives");
  RegisterCollectives(r);
  RegisterCollectivesPairs(r);
}

}  // namespace chx
