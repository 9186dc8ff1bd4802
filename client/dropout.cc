#include "client/dropout.h"

#include "client/ops.h"
#include "client/session.h"

namespace chx {

Array dropout(const Array& x, double p) {
  if (!x.ok()) return x;
  if (!IsFloat(x.dtype())) {
    return Array(DtypeError("[dropout] expects floats, got ", DtypeName(x.dtype())));
  }
  if (!(p >= 0 && p <= 1)) return Array(ValueError("[dropout] expects p in [0, 1], got ", p));
  if (p == 0) return x;
  const ArraySpec& spec = x.spec();
  absl::StatusOr<ArrayPtr> uniform = x.body()->session->Random(
      "random_uniform", spec.shape.span(), 0.0, 1.0, Dtype::kFloat32, spec.device);
  if (!uniform.ok()) return Array(uniform.status());
  const Array kept = greater_equal(Array(*uniform), p);
  return where(kept, x * (p < 1 ? 1 / (1 - p) : 0.0), 0);
}

}  // namespace chx
