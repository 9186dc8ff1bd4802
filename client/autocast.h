// Automatic mixed precision, for the calling thread: a stack of scopes.
#ifndef CHX_CLIENT_AUTOCAST_H_
#define CHX_CLIENT_AUTOCAST_H_

#include "absl/types/optional.h"
#include "ops/dtype.h"

namespace chx {

// Pushes: products are computed in `dtype`, float16 or bfloat16; nullopt: operators are computed in
// the dtypes of their inputs. Every push has its pop.
void PushAutocast(absl::optional<Dtype> dtype);
void PopAutocast();
// Of the innermost scope.
absl::optional<Dtype> CurrentAutocast();

// {Autocast scope(Dtype::kBfloat16); ...} casts the float32 inputs of linear, matmul, conv and
// other products to bfloat16, and narrow inputs of losses, sums, exp and the like to float32
// (docs/mixed_precision.md). Gradients are in the dtypes of what they belong to.
class Autocast {
 public:
  explicit Autocast(absl::optional<Dtype> dtype) { PushAutocast(dtype); }
  ~Autocast() { PopAutocast(); }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

}  // namespace chx

#endif  // CHX_CLIENT_AUTOCAST_H_
