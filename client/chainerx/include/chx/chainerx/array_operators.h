// Arrays in expressions: x + y, x += 1, 2 * x, x == y.
#ifndef CHX_CHAINERX_ARRAY_OPERATORS_H_
#define CHX_CHAINERX_ARRAY_OPERATORS_H_

#include "chx/chainerx/array.h"
#include "chx/chainerx/operators.h"
#include "chx/chainerx/scalar.h"

namespace chainerx {
namespace internal {

// In place, by the operator of that name: `x1` must not be in a graph that records.
void InPlace(const char* op, const Array& x1, const Array& x2);
void InPlace(const char* op, const Array& x1, Scalar x2);

}  // namespace internal

#define CHX_CHAINERX_OPERATOR(symbol, Routine)                                               \
  inline Array operator symbol(const Array& x1, const Array& x2) { return Routine(x1, x2); } \
  inline Array operator symbol(const Array& x1, Scalar x2) { return Routine(x1, x2); }       \
  inline Array operator symbol(Scalar x1, const Array& x2) { return Routine(x1, x2); }
#define CHX_CHAINERX_IN_PLACE(symbol, op)                                 \
  inline Array& operator symbol(Array& x1, const Array& x2) {             \
    internal::InPlace(op, x1, x2);                                        \
    return x1;                                                            \
  }                                                                       \
  inline Array& operator symbol(Array& x1, Scalar x2) {                   \
    internal::InPlace(op, x1, x2);                                        \
    return x1;                                                            \
  }                                                                       \
  inline const Array& operator symbol(const Array& x1, const Array& x2) { \
    internal::InPlace(op, x1, x2);                                        \
    return x1;                                                            \
  }                                                                       \
  inline const Array& operator symbol(const Array& x1, Scalar x2) {       \
    internal::InPlace(op, x1, x2);                                        \
    return x1;                                                            \
  }

CHX_CHAINERX_OPERATOR(+, Add)
CHX_CHAINERX_OPERATOR(-, Subtract)
CHX_CHAINERX_OPERATOR(*, Multiply)
CHX_CHAINERX_OPERATOR(/, Divide)
CHX_CHAINERX_OPERATOR(%, Mod)
CHX_CHAINERX_OPERATOR(&, BitwiseAnd)
CHX_CHAINERX_OPERATOR(|, BitwiseOr)
CHX_CHAINERX_OPERATOR(^, BitwiseXor)
CHX_CHAINERX_OPERATOR(<<, LeftShift)
CHX_CHAINERX_OPERATOR(>>, RightShift)
CHX_CHAINERX_OPERATOR(==, Equal)
CHX_CHAINERX_OPERATOR(!=, NotEqual)
CHX_CHAINERX_OPERATOR(>, Greater)
CHX_CHAINERX_OPERATOR(>=, GreaterEqual)
CHX_CHAINERX_OPERATOR(<, Less)
CHX_CHAINERX_OPERATOR(<=, LessEqual)

CHX_CHAINERX_IN_PLACE(+=, "add_")
CHX_CHAINERX_IN_PLACE(-=, "subtract_")
CHX_CHAINERX_IN_PLACE(*=, "multiply_")
CHX_CHAINERX_IN_PLACE(/=, "divide_")
CHX_CHAINERX_IN_PLACE(%=, "remainder_")
CHX_CHAINERX_IN_PLACE(&=, "bitwise_and_")
CHX_CHAINERX_IN_PLACE(|=, "bitwise_or_")
CHX_CHAINERX_IN_PLACE(^=, "bitwise_xor_")
CHX_CHAINERX_IN_PLACE(<<=, "left_shift_")
CHX_CHAINERX_IN_PLACE(>>=, "right_shift_")

#undef CHX_CHAINERX_OPERATOR
#undef CHX_CHAINERX_IN_PLACE

inline Array operator-(const Array& x) { return Negative(x); }

}  // namespace chainerx

#endif  // CHX_CHAINERX_ARRAY_OPERATORS_H_
