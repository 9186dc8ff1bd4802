// What an operator is called with.
#ifndef CHX_OPS_OPERAND_H_
#define CHX_OPS_OPERAND_H_

#include <cstdint>
#include <type_traits>

#include "ops/scalar.h"

namespace chx {

// An array, a scalar, or nothing: an optional input that is absent. `A` is what a layer has of an
// array: a pointer, or a handle. Each layer names its own: SpecOperand (ops/infer.h), Value
// (ops/op_context.h), HandleOperand (proto/command.h), Operand (client/array.h), ArrayOperand
// (server/engine/executor.h) and VariableOperand (server/autograd/apply.h). Trivially copyable.
template <typename A>
class BasicOperand {
  static_assert(std::is_trivially_copyable_v<A> && std::is_trivially_copyable_v<Scalar>);

 public:
  BasicOperand() : scalar_(), kind_(Kind::kAbsent) {}
  // A null pointer: absent.
  explicit BasicOperand(A array) : array_(array), kind_(Kind::kArray) {
    if constexpr (std::is_pointer_v<A>) {
      if (array == nullptr) *this = BasicOperand();
    }
  }
  explicit BasicOperand(Scalar scalar) : scalar_(scalar), kind_(Kind::kScalar) {}
  // A plain number would be taken for a handle, or 0 for a null pointer: Scalar(1.5) is a scalar.
  template <typename T,
            typename = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, A>>>
  explicit BasicOperand(T number) = delete;

  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_scalar() const { return kind_ == Kind::kScalar; }
  bool absent() const { return kind_ == Kind::kAbsent; }
  // A() if this is not an array; likewise scalar().
  A array() const { return is_array() ? array_ : A(); }
  Scalar scalar() const { return is_scalar() ? scalar_ : Scalar(); }

  // The operand as another layer has it; `convert` says what an array is there.
  template <typename Other, typename Convert>
  Other As(Convert convert) const {
    if (is_array()) return Other(convert(array_));
    return is_scalar() ? Other(scalar_) : Other();
  }

 private:
  enum class Kind : uint8_t { kAbsent, kArray, kScalar };

  union {
    A array_;
    Scalar scalar_;
  };
  Kind kind_;
};

}  // namespace chx

#endif  // CHX_OPS_OPERAND_H_
