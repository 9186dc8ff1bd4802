#include "ops/defs/groups.h"

namespace chx {

void RegisterAllGroups(OpRegistry& r) {
  r.BeginGroup("creation");
  RegisterCreation(r);
  r.BeginGroup("elementwise");
  RegisterElementwise(r);
  r.BeginGroup("reduction");
  RegisterReduction(r);
  r.BeginGroup("manipulation");
  RegisterManipulation(r);
  r.BeginGroup("indexing");
  RegisterIndexing(r);
  r.BeginGroup("linalg");
  RegisterLinalg(r);
  r.BeginGroup("loss");
  RegisterLoss(r);
  r.BeginGroup("random");
  RegisterRandom(r);
  r.BeginGroup("math");
  RegisterMath(r);
  r.BeginGroup("activation");
  RegisterActivation(r);
  r.BeginGroup("views");
  RegisterViews(r);
  r.BeginGroup("joining");
  RegisterJoining(r);
  RegisterGrids(r);
  r.BeginGroup("sorting");
  RegisterSorting(r);
  r.BeginGroup("statistics");
  RegisterStatistics(r);
  r.BeginGroup("decompositions");
  RegisterDecompositions(r);
  RegisterNorms(r);
  RegisterEig(r);
  r.BeginGroup("connection");
  RegisterConnection(r);
  r.BeginGroup("pooling");
  RegisterPooling(r);
  r.BeginGroup("normalization");
  RegisterNormalization(r);
  r.BeginGroup("recurrent");
  RegisterRecurrent(r);
  r.BeginGroup("ufuncs");
  RegisterUfuncs(r);
  r.BeginGroup("optimizers");
  RegisterOptimizers(r);
  r.BeginGroup("sequences");
  RegisterSequences(r);
}

}  // namespace chx
