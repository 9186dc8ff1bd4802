#include "chx/chainerx/routines.h"

#include <algorithm>

#include "client/chainerx/internal.h"

namespace chainerx {
namespace {

using internal::Call;
using internal::ToAttr;

// The position along several axes: along one that they are put together in.
Array ArgAlong(absl::string_view op, const Array& a, const OptionalAxes& axes) {
  chx::AttrValue axis;
  Array joined = a;
  if (axes.has_value() && axes->size() == 1) {
    axis = int64_t{(*axes)[0]};
  } else if (axes.has_value()) {
    Axes order;
    Axes last;
    for (int8_t given : *axes) {
      const int normal = given < 0 ? given + a.ndim() : given;
      if (normal < 0 || normal >= a.ndim() ||
          std::find(last.begin(), last.end(), normal) != last.end()) {
        throw DimensionError("[", op, "] expects different axes of ", a.shape(), ", got ", *axes);
      }
      last.push_back(static_cast<int8_t>(normal));
    }
    std::sort(last.begin(), last.end());
    Shape shape;
    int64_t size = 1;
    for (int8_t i = 0; i < a.ndim(); ++i) {
      if (std::find(last.begin(), last.end(), i) != last.end()) {
        size *= a.shape()[i];
        continue;
      }
      order.push_back(i);
      shape.push_back(a.shape()[i]);
    }
    for (int8_t i : last) order.push_back(i);
    shape.push_back(size);
    joined = a.Transpose(order).Reshape(shape);
    axis = int64_t{-1};
  }
  return Call(op, {joined}, {axis, false});
}

chx::AttrValue ModeAttr(IndexBoundsMode mode) {
  if (mode == IndexBoundsMode::kDefault) return {};
  return static_cast<int64_t>(mode) - 1;
}

std::vector<Array> SplitBy(const Array& ary, Optional<int64_t> sections,
                           const Optional<std::vector<int64_t>>& indices, int64_t axis) {
  return internal::CallMulti(internal::Operator("split"), {ary},
                             {ToAttr(sections), ToAttr(indices), axis});
}

void CheckNdim(const char* op, const Array& ary, int8_t least) {
  if (ary.ndim() >= least) return;
  throw DimensionError("[", op, "] expects an array of ", least, " or more dimensions, got shape ",
                       ary.shape());
}

int8_t HorizontalAxis(const Array& ary) {
  CheckNdim("hsplit", ary, 1);
  return ary.ndim() == 1 ? 0 : 1;
}

Array None(const Array& like) { return Empty({0}, like.dtype(), like.device()); }

chx::AttrValue UploAttr(char uplo) {
  if (uplo != 'L' && uplo != 'U') {
    throw ValueError("[eigh] expects uplo 'L' or 'U', got '", uplo, "'");
  }
  return int64_t{uplo == 'U' ? 1 : 0};
}

}  // namespace

bool AllClose(const Array& a, const Array& b, double rtol, double atol, bool equal_nan) {
  return static_cast<bool>(AsScalar(Call("allclose", {a, b}, {rtol, atol, equal_nan})));
}

Array ArgMax(const Array& a, const OptionalAxes& axis) { return ArgAlong("argmax", a, axis); }
Array ArgMin(const Array& a, const OptionalAxes& axis) { return ArgAlong("argmin", a, axis); }
Array NanArgMax(const Array& a, const OptionalAxes& axis) { return ArgAlong("nanargmax", a, axis); }
Array NanArgMin(const Array& a, const OptionalAxes& axis) { return ArgAlong("nanargmin", a, axis); }

Array Take(const Array& a, const Array& indices, int8_t axis, IndexBoundsMode mode) {
  return Call("take", {a, indices}, {int64_t{axis}, ModeAttr(mode)});
}

Array AddAt(const Array& a, const Array& indices, int8_t axis, const Array& b,
            IndexBoundsMode mode) {
  return a + Call("take_grad", {b, indices}, {ToAttr(a.shape()), int64_t{axis}, ModeAttr(mode)});
}

std::vector<Array> Nonzero(const Array& a) {
  const Array flat = a.AsGradStopped().Ravel();
  const auto count = static_cast<int64_t>(AsScalar(CountNonzero(flat)));
  Array positions = Call("nonzero_positions", {flat}, {count});
  std::vector<Array> axes(static_cast<size_t>(std::max<int8_t>(a.ndim(), 1)));
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t size = a.ndim() == 0 ? 1 : std::max<int64_t>(a.shape()[static_cast<int>(i)], 1);
    axes[i] = Mod(positions, size);
    positions = FloorDivide(positions, size);
  }
  return axes;
}

std::vector<Array> Split(const Array& ary, int64_t sections, int8_t axis) {
  return SplitBy(ary, sections, std::nullopt, axis);
}
std::vector<Array> Split(const Array& ary, std::vector<int64_t> indices, int8_t axis) {
  return SplitBy(ary, std::nullopt, indices, axis);
}
std::vector<Array> DSplit(const Array& ary, int64_t sections) {
  CheckNdim("dsplit", ary, 3);
  return Split(ary, sections, 2);
}
std::vector<Array> DSplit(const Array& ary, std::vector<int64_t> indices) {
  CheckNdim("dsplit", ary, 3);
  return Split(ary, std::move(indices), 2);
}
std::vector<Array> VSplit(const Array& ary, int64_t sections) {
  CheckNdim("vsplit", ary, 2);
  return Split(ary, sections, 0);
}
std::vector<Array> VSplit(const Array& ary, std::vector<int64_t> indices) {
  CheckNdim("vsplit", ary, 2);
  return Split(ary, std::move(indices), 0);
}
std::vector<Array> HSplit(const Array& ary, int64_t sections) {
  return Split(ary, sections, HorizontalAxis(ary));
}
std::vector<Array> HSplit(const Array& ary, std::vector<int64_t> indices) {
  return Split(ary, std::move(indices), HorizontalAxis(ary));
}

Array Repeat(const Array& a, int64_t repeats, Optional<int8_t> axis) {
  return Repeat(a, std::vector<int64_t>{repeats}, axis);
}
Array Repeat(const Array& a, const std::vector<int64_t>& repeats, Optional<int8_t> axis) {
  return Call("repeat", {a}, {ToAttr(repeats), ToAttr(Optional<int64_t>(axis))});
}

void CopyTo(const Array& dst, const Array& src, CastingMode /*casting*/, const Array& where) {
  CheckEqual(dst.dtype(), src.dtype());
  internal::CallInPlace(internal::Operator("copyto"), {dst, Where(where, src, dst)}, {});
}

Array Dot(const Array& a, const Array& b, Optional<Dtype> out_dtype) {
  return internal::AsTypeIf(Call("dot", {a, b}, {}), out_dtype);
}

std::tuple<Array, Array, Array> Svd(const Array& a, bool full_matrices, bool compute_uv) {
  const std::vector<Array> parts =
      internal::CallMulti(internal::Operator("svd"), {a}, {full_matrices, compute_uv});
  if (!compute_uv) return {None(a), parts[0], None(a)};
  return {parts[0], parts[1], parts[2]};
}

std::tuple<Array, Array> Qr(const Array& a, QrMode mode) {
  const std::vector<Array> parts =
      internal::CallMulti(internal::Operator("qr"), {a}, {static_cast<int64_t>(mode)});
  if (mode == QrMode::kR) return {None(a), parts[0]};
  return {parts[0], parts[1]};
}

std::tuple<Array, Array> Eigh(const Array& a, char uplo) {
  const std::vector<Array> parts =
      internal::CallMulti(internal::Operator("eigh"), {a}, {UploAttr(uplo)});
  return {parts[0], parts[1]};
}

Array Eigvalsh(const Array& a, char uplo) { return Call("eigvalsh", {a}, {UploAttr(uplo)}); }

Array Conv(const Array& x, const Array& w, const Optional<Array>& b, const Dims& stride,
           const Dims& pad, bool cover_all, Optional<Dtype> out_dtype) {
  return internal::AsTypeIf(Call("conv", {x, w, b}, {ToAttr(stride), ToAttr(pad), cover_all}),
                            out_dtype);
}

Array ConvTranspose(const Array& x, const Array& w, const Optional<Array>& b, const Dims& stride,
                    const Dims& pad, const Optional<Dims>& out_size, Optional<Dtype> out_dtype) {
  return internal::AsTypeIf(
      Call("conv_transpose", {x, w, b}, {ToAttr(stride), ToAttr(pad), ToAttr(out_size)}),
      out_dtype);
}

Array MaxPool(const Array& x, const Dims& kernel_size, const Dims& stride, const Dims& pad,
              bool cover_all) {
  return Call("max_pool", {x}, {ToAttr(kernel_size), ToAttr(stride), ToAttr(pad), cover_all});
}

Array AveragePool(const Array& x, const Dims& kernel_size, const Dims& stride, const Dims& pad,
                  AveragePoolPadMode pad_mode) {
  const int64_t mode = pad_mode == AveragePoolPadMode::kZero ? 1 : 0;
  return Call("average_pool", {x}, {ToAttr(kernel_size), ToAttr(stride), ToAttr(pad), mode});
}

}  // namespace chainerx
