#include "ops/defs/common/running_products.h"

#include <algorithm>
#include <vector>

#include "ops/defs/common/expressions.h"

namespace chx {
namespace {

// As SliceAxis, or x itself.
Value Slice(Value x, int axis, int64_t begin, int64_t end) {
  if (begin == 0 && end == x.shape()[axis]) return x;
  return SliceAxis(x, axis, begin, end);
}

Value Join(Value first, Value second, int axis) {
  return first.context()->Apply("concatenate", {first, second}, {{"axis", int64_t{axis}}});
}

// Ones of x's shape but for 1 along the axis.
Value One(Value x, int axis) {
  Shape shape = x.shape();
  shape[axis] = 1;
  return x.context()->Apply("ones", {}, {{"shape", ShapeAttr(shape)}, {"dtype", x.dtype()}});
}

}  // namespace

// For each element of one half, the others are its like in the other half, and the others of the
// halves' product.
Value TimesTheOthers(Value x, Value seed, int axis) {
  struct Halves {
    Value low;
    Value high;
    int64_t size;
  };
  std::vector<Halves> levels;
  while (x.shape()[axis] > 1) {
    const int64_t size = x.shape()[axis];
    const int64_t half = (size + 1) / 2;
    const Value low = Slice(x, axis, 0, half);
    Value high = Slice(x, axis, half, size);
    if (size % 2 != 0) high = Join(high, One(x, axis), axis);
    levels.push_back({low, high, size});
    x = low * high;
  }
  Value others = seed;
  for (; !levels.empty(); levels.pop_back()) {
    const Halves& level = levels.back();
    const int64_t rest = level.size / 2;
    const Value of_high = Slice(others, axis, 0, rest) * Slice(level.low, axis, 0, rest);
    others = Join(others * level.high, of_high, axis);
  }
  return others;
}

// y_i = a_0 ... a_i, so the gradient of a_j is the product of all before a_j, times the sum over
// i >= j of gy_i a_j+1 ... a_i. The sums s_j = gy_j + a_j+1 s_j+1 are made by doubling how far each
// reaches; `factor` is what the sum after that is multiplied by.
Value RunningProductGradient(Value a, Value y, Value gy, int axis) {
  const int64_t size = a.shape()[axis];
  if (size < 2) return gy;
  Value sums = gy;
  Value factor = Slice(a, axis, 1, size);
  for (int64_t reach = 1; reach < size; reach *= 2) {
    const int64_t inner = size - reach;
    sums = Join(Slice(sums, axis, 0, inner) + factor * Slice(sums, axis, reach, size),
                Slice(sums, axis, inner, size), axis);
    if (2 * reach >= size) break;
    factor = Slice(factor, axis, 0, inner - reach) * Slice(factor, axis, reach, inner);
  }
  return Join(One(a, axis), Slice(y, axis, 0, size - 1), axis) * sums;
}

}  // namespace chx
