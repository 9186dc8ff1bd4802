// Routines whose arguments are not those of the operator: the other ones are in operators.h.
#ifndef CHX_CHAINERX_ROUTINES_H_
#define CHX_CHAINERX_ROUTINES_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "chx/chainerx/array.h"
#include "chx/chainerx/operators.h"
#include "chx/chainerx/optional.h"
#include "chx/chainerx/scalar.h"
#include "chx/chainerx/shape.h"

namespace chainerx {

// What Divide is.
inline Array TrueDivide(const Array& x1, const Array& x2) { return Divide(x1, x2); }
inline Array TrueDivide(const Array& x1, Scalar x2) { return Divide(x1, x2); }
inline Array TrueDivide(Scalar x1, const Array& x2) { return Divide(x1, x2); }

bool AllClose(const Array& a, const Array& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);

// Of the axes together, as if they were one; of all without axes.
Array ArgMax(const Array& a, const OptionalAxes& axis = std::nullopt);
Array ArgMin(const Array& a, const OptionalAxes& axis = std::nullopt);
Array NanArgMax(const Array& a, const OptionalAxes& axis = std::nullopt);
Array NanArgMin(const Array& a, const OptionalAxes& axis = std::nullopt);

Array Take(const Array& a, const Array& indices, int8_t axis,
           IndexBoundsMode mode = IndexBoundsMode::kDefault);
// a, with the slices of b added to those that Take would read. a is not changed.
Array AddAt(const Array& a, const Array& indices, int8_t axis, const Array& b,
            IndexBoundsMode mode = IndexBoundsMode::kDefault);
// The positions of elements other than zero, an array for each axis. Waits.
std::vector<Array> Nonzero(const Array& a);

// Parts of one size, or between indices. DimensionErrors if the size does not divide the axis, or
// the axis (2, 0, or 1 and for one dimension 0) is not there.
std::vector<Array> Split(const Array& ary, int64_t sections, int8_t axis = 0);
std::vector<Array> Split(const Array& ary, std::vector<int64_t> indices, int8_t axis = 0);
std::vector<Array> DSplit(const Array& ary, int64_t sections);
std::vector<Array> DSplit(const Array& ary, std::vector<int64_t> indices);
std::vector<Array> VSplit(const Array& ary, int64_t sections);
std::vector<Array> VSplit(const Array& ary, std::vector<int64_t> indices);
std::vector<Array> HSplit(const Array& ary, int64_t sections);
std::vector<Array> HSplit(const Array& ary, std::vector<int64_t> indices);

Array Repeat(const Array& a, int64_t repeats, Optional<int8_t> axis = std::nullopt);
Array Repeat(const Array& a, const std::vector<int64_t>& repeats,
             Optional<int8_t> axis = std::nullopt);

enum class CastingMode { kNo };
// Writes src where `where` is true. The dtypes must be equal.
void CopyTo(const Array& dst, const Array& src, CastingMode casting, const Array& where);

// `out_dtype`: what the result is converted to.
Array Dot(const Array& a, const Array& b, Optional<Dtype> out_dtype = std::nullopt);
// u, s, vh; u and vh are empty without compute_uv.
std::tuple<Array, Array, Array> Svd(const Array& a, bool full_matrices, bool compute_uv);
enum class QrMode { kReduced, kComplete, kR, kRaw };
// q, r, of which q is empty for kR; or h, tau for kRaw.
std::tuple<Array, Array> Qr(const Array& a, QrMode mode);
// From the lower or upper triangle: 'L' or 'U'.
std::tuple<Array, Array> Eigh(const Array& a, char uplo);
Array Eigvalsh(const Array& a, char uplo);

// x (N, C, spatial...), w (out, C, spatial...), b (out).
Array Conv(const Array& x, const Array& w, const Optional<Array>& b, const Dims& stride,
           const Dims& pad, bool cover_all = false, Optional<Dtype> out_dtype = std::nullopt);
Array ConvTranspose(const Array& x, const Array& w, const Optional<Array>& b, const Dims& stride,
                    const Dims& pad, const Optional<Dims>& out_size = std::nullopt,
                    Optional<Dtype> out_dtype = std::nullopt);
Array MaxPool(const Array& x, const Dims& kernel_size, const Dims& stride, const Dims& pad,
              bool cover_all = true);
enum class AveragePoolPadMode { kZero = 1, kIgnore };
Array AveragePool(const Array& x, const Dims& kernel_size, const Dims& stride, const Dims& pad,
                  AveragePoolPadMode pad_mode = AveragePoolPadMode::kIgnore);

// Recurrent networks over steps xs (n, inputs), in which n must not grow. ws and bs have a list for
// each layer and direction, with an array for each gate of the input, then of the state. The
// result is {{hy}, ys}, and {{hy, cy}, ys} for LSTMs.
using ArrayLists = std::vector<std::vector<Array>>;
ArrayLists NStepLstm(int64_t n_layers, const Array& hx, Array cx, const ArrayLists& ws,
                     const ArrayLists& bs, std::vector<Array>& xs);
ArrayLists NStepBiLstm(int64_t n_layers, const Array& hx, Array cx, const ArrayLists& ws,
                       const ArrayLists& bs, std::vector<Array>& xs);
ArrayLists NStepGru(int64_t n_layers, const Array& hx, const ArrayLists& ws, const ArrayLists& bs,
                    std::vector<Array>& xs);
ArrayLists NStepBiGru(int64_t n_layers, const Array& hx, const ArrayLists& ws, const ArrayLists& bs,
                      std::vector<Array>& xs);
// activation: "tanh", which is the default, or "relu".
ArrayLists NStepRnn(int64_t n_layers, const Array& hx, const ArrayLists& ws, const ArrayLists& bs,
                    std::vector<Array>& xs, Optional<std::string> activation);
ArrayLists NStepBiRnn(int64_t n_layers, const Array& hx, const ArrayLists& ws, const ArrayLists& bs,
                      std::vector<Array>& xs, Optional<std::string> activation);

}  // namespace chainerx

#endif  // CHX_CHAINERX_ROUTINES_H_
