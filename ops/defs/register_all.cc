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
  r.BeginGroup("decompositions");
  RegisterDecompositions(r);
  r.BeginGroup("connection");
  RegisterConnection(r);
  r.BeginGroup("pooling");
  RegisterPooling(r);
  r.BeginGroup("normalization");
  RegisterNormalization(r);
}

}  // namespace chx
