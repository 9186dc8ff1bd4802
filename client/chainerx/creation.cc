#include "chx/chainerx/creation.h"

#include <cstring>

#include "client/chainerx/internal.h"

namespace chainerx {
namespace {

Array Create(absl::string_view op, Device& device, const chx::Attrs& attrs) {
  Context& context = device.context();
  return internal::FromChx(
      chx::internal::Create(internal::SessionIn(context), internal::Operator(op),
                            static_cast<chx::DeviceId>(internal::NumberOf(device)), attrs),
      context);
}

// The elements of an axis and those below, in C order.
void Gather(const char* from, const Shape& shape, const Strides& strides, int64_t item_size,
            int8_t axis, std::vector<char>* out) {
  if (axis == shape.ndim()) {
    out->insert(out->end(), from, from + item_size);
    return;
  }
  for (int64_t i = 0; i < shape[axis]; ++i) {
    Gather(from + i * strides[axis], shape, strides, item_size, static_cast<int8_t>(axis + 1), out);
  }
}

Array Upload(const Shape& shape, Dtype dtype, const void* data, Device& device) {
  Context& context = device.context();
  return internal::FromChx(
      chx::Array::FromHost(internal::SessionIn(context), data, internal::ToChx(shape),
                           internal::ToChx(dtype),
                           static_cast<chx::DeviceId>(internal::NumberOf(device))),
      context);
}

void CheckDims(const Shape& shape) {
  for (int64_t dim : shape) {
    if (dim < 0) throw DimensionError("[from_data] expects no negative dimensions, got ", shape);
  }
}

}  // namespace

Array FromContiguousHostData(const Shape& shape, Dtype dtype, const std::shared_ptr<void>& data,
                             Device& device) {
  return Upload(shape, dtype, data.get(), device);
}

Array FromHostData(const Shape& shape, Dtype dtype, const std::shared_ptr<void>& data,
                   const Strides& strides, int64_t offset, Device& device) {
  if (strides.size() != shape.size()) {
    throw DimensionError("[from_data] expects as many strides as dimensions, got ", strides,
                         " for ", shape);
  }
  CheckDims(shape);
  std::vector<char> values;
  Gather(static_cast<const char*>(data.get()) + offset, shape, strides, GetItemSize(dtype), 0,
         &values);
  return Upload(shape, dtype, values.data(), device);
}

Array FromData(const Shape& shape, Dtype dtype, const std::shared_ptr<void>& data,
               const Optional<Strides>& strides, int64_t offset, Device& device) {
  if (strides.has_value()) return FromHostData(shape, dtype, data, *strides, offset, device);
  return Upload(shape, dtype, static_cast<const char*>(data.get()) + offset, device);
}

namespace internal {

void CopyToHost(const Array& a, Dtype dtype, void* out) {
  CheckEqual(a.dtype(), dtype);
  ThrowIfError(ToChx(a).CopyTo(out, static_cast<size_t>(a.GetNBytes())));
}

}  // namespace internal

Scalar AsScalar(const Array& a) {
  if (a.GetTotalSize() != 1) {
    throw DimensionError("[as_scalar] expects an array of one element, got shape ", a.shape());
  }
  return VisitDtype(a.dtype(), [&a](auto type) {
    typename decltype(type)::type value{};
    internal::CopyToHost(a, a.dtype(), &value);
    return Scalar(value);
  });
}

Array Empty(const Shape& shape, Dtype dtype, Device& device) {
  return Create("empty", device, {internal::ToAttr(shape), internal::ToAttr(dtype)});
}
Array Full(const Shape& shape, Scalar fill_value, Dtype dtype, Device& device) {
  return Create("full", device,
                {internal::ToAttr(shape), internal::ToAttr(fill_value), internal::ToAttr(dtype)});
}
Array Full(const Shape& shape, Scalar fill_value, Device& device) {
  return Full(shape, fill_value, GetDefaultDtype(fill_value.kind()), device);
}
Array Zeros(const Shape& shape, Dtype dtype, Device& device) {
  return Create("zeros", device, {internal::ToAttr(shape), internal::ToAttr(dtype)});
}
Array Ones(const Shape& shape, Dtype dtype, Device& device) {
  return Create("ones", device, {internal::ToAttr(shape), internal::ToAttr(dtype)});
}

namespace {
Array MakeArange(Scalar start, Scalar stop, Scalar step, Optional<Dtype> dtype, Device& device) {
  return Create("arange", device,
                {internal::ToAttr(start), internal::ToAttr(stop), internal::ToAttr(step),
                 internal::ToAttr(dtype)});
}
}  // namespace

Array Arange(Scalar start, Scalar stop, Scalar step, Dtype dtype, Device& device) {
  return MakeArange(start, stop, step, dtype, device);
}
Array Arange(Scalar start, Scalar stop, Scalar step, Device& device) {
  return MakeArange(start, stop, step, std::nullopt, device);
}
Array Arange(Scalar start, Scalar stop, Dtype dtype, Device& device) {
  return MakeArange(start, stop, 1, dtype, device);
}
Array Arange(Scalar start, Scalar stop, Device& device) {
  return MakeArange(start, stop, 1, std::nullopt, device);
}
Array Arange(Scalar stop, Dtype dtype, Device& device) {
  return MakeArange(0, stop, 1, dtype, device);
}
Array Arange(Scalar stop, Device& device) { return MakeArange(0, stop, 1, std::nullopt, device); }

Array EmptyLike(const Array& a, Device& device) { return Empty(a.shape(), a.dtype(), device); }
Array FullLike(const Array& a, Scalar fill_value, Device& device) {
  return Full(a.shape(), fill_value, a.dtype(), device);
}
Array ZerosLike(const Array& a, Device& device) { return Zeros(a.shape(), a.dtype(), device); }
Array OnesLike(const Array& a, Device& device) { return Ones(a.shape(), a.dtype(), device); }

Array Identity(int64_t n, Dtype dtype, Device& device) {
  return Create("identity", device, {n, internal::ToAttr(dtype)});
}
Array Eye(int64_t n, Optional<int64_t> m, Optional<int64_t> k, Optional<Dtype> dtype,
          Device& device) {
  return Create(
      "eye", device,
      {n, internal::ToAttr(m), k.value_or(0), internal::ToAttr(dtype.value_or(Dtype::kFloat64))});
}
Array Tri(int64_t n, Optional<int64_t> m, Optional<int64_t> k, Optional<Dtype> dtype,
          Device& device) {
  return Create(
      "tri", device,
      {n, internal::ToAttr(m), k.value_or(0), internal::ToAttr(dtype.value_or(Dtype::kFloat32))});
}
Array Linspace(Scalar start, Scalar stop, Optional<int64_t> num, bool endpoint,
               Optional<Dtype> dtype, Device& device) {
  return Create("linspace", device,
                {internal::ToAttr(start), internal::ToAttr(stop), num.value_or(50), endpoint,
                 internal::ToAttr(dtype.value_or(Dtype::kFloat32))});
}

std::vector<Array> Meshgrid(const std::vector<Array>& arrays, MeshgridIndexingMode mode) {
  const int64_t indexing = mode == MeshgridIndexingMode::kMatrix ? 1 : 0;
  return internal::CallMulti(internal::Operator("meshgrid"), internal::Arguments(arrays),
                             {indexing});
}

Array AsContiguous(const Array& a, Dtype dtype) {
  if (dtype != a.dtype()) return a.AsType(dtype);
  return a.IsContiguous() ? a : a.Copy();
}

Array AsContiguousArray(const Array& a, Optional<Dtype> dtype) {
  const Array contiguous = AsContiguous(a, dtype.value_or(a.dtype()));
  return a.ndim() == 0 ? contiguous.Reshape({1}) : contiguous;
}

}  // namespace chainerx
