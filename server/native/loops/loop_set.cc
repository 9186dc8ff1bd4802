// The LoopSet of one instruction set.
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

#define CHX_STRING_(text) #text
#define CHX_STRING(text) CHX_STRING_(text)

LoopSet MakeLoopSet() {
  LoopSet set = {};
  set.name = CHX_STRING(CHX_ISA);
  FillArithmetic(&set);
  FillCasts(&set);
  FillComparison(&set);
  FillLayers(&set);
  FillLoss(&set);
  FillMath(&set);
  FillNormalization(&set);
  FillPooling(&set);
  FillRecurrent(&set);
  FillReduction(&set);
  FillSoftmax(&set);
  FillUpdates(&set);
  return set;
}

}  // namespace

const LoopSet& GetLoopSet() {
  static const LoopSet set = MakeLoopSet();
  return set;
}

}  // namespace chx::server::native::CHX_ISA
