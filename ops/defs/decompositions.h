// What ops/defs/decompositions.cc and its gradients share.
#ifndef CHX_OPS_DEFS_DECOMPOSITIONS_H_
#define CHX_OPS_DEFS_DECOMPOSITIONS_H_

#include "ops/array_spec.h"
#include "ops/op_context.h"

namespace chx {

inline constexpr int kQrReduced = 0;
inline constexpr int kQrComplete = 1;
inline constexpr int kQrR = 2;
inline constexpr int kQrRaw = 3;

// Whether solve takes b as vectors: it has one dimension less than a.
inline bool SolvesVectors(const ArraySpec& a, const ArraySpec& b) {
  return b.ndim() == a.ndim() - 1;
}

// decompositions_gradients.cc
void SolveGradient(GradContext& g);
void InvGradient(GradContext& g);
void CholeskyGradient(GradContext& g);
void EighGradient(GradContext& g);
void EigvalshGradient(GradContext& g);
void SvdGradient(GradContext& g);
void QrGradient(GradContext& g);

// decompositions_determinants.cc
void DetGradient(GradContext& g);
void CofactorsGradient(GradContext& g);

// decompositions_pinv.cc
void PinvCompose(ComposeContext& c);
void PinvGradient(GradContext& g);

}  // namespace chx

#endif  // CHX_OPS_DEFS_DECOMPOSITIONS_H_
