#include "server/cuda/loops/copy.h"

#include "ops/error.h"
#include "server/cuda/loops/elementwise.h"

namespace chx::server::cuda {
namespace {

template <typename Bits>
struct Move {
  CHX_HD static Bits Call(const Bits& x) { return x; }
};

template <typename From, typename To>
struct CastTo {
  CHX_HD static To Call(const From& x) { return kernels::Cast<To>(x); }
};

KernelTensor BroadcastTo(const Shape& shape, const KernelTensor& in) {
  KernelTensor result = in;
  result.shape = shape;
  result.strides = Strides(shape.size(), 0);
  const int missing = shape.size() - in.ndim();
  for (int d = 0; d < in.ndim(); ++d) {
    if (in.shape[d] != 1) result.strides[missing + d] = in.strides[d];
  }
  return result;
}

absl::Status MoveBits(const KernelArgs& args, const KernelTensor& in, const KernelTensor& out) {
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using Bits = typename decltype(tag)::Type;
    return RunElementwise<Move<Bits>, true, Bits, Bits>(args, out, in);
  });
}

}  // namespace

absl::Status Copy(const KernelArgs& args, const KernelTensor& in, const KernelTensor& out) {
  const KernelTensor from = in.shape == out.shape ? in : BroadcastTo(out.shape, in);
  if (from.dtype == out.dtype) return MoveBits(args, from, out);
  return kernels::VisitDtype(from.dtype, [&](auto from_tag) {
    using From = typename decltype(from_tag)::Type;
    return kernels::VisitDtype(out.dtype, [&](auto to_tag) -> absl::Status {
      using To = typename decltype(to_tag)::Type;
      if constexpr (std::is_same<From, To>::value) {
        return absl::OkStatus();  // moved above
      } else {
        return RunElementwise<CastTo<From, To>, true, To, From>(args, out, from);
      }
    });
  });
}

absl::Status Fill(const KernelArgs& args, const Scalar& value, const KernelTensor& out) {
  return kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    KernelTensor in;
    in.is_scalar = true;
    // The element's bits, as an integer of its size that casts to itself.
    const T element = kernels::ScalarAs<T>(value);
    if constexpr (sizeof(T) == 1) {
      in.scalar = Scalar(int64_t{kernels::BitCast<uint8_t>(element)});
    } else if constexpr (sizeof(T) == 2) {
      in.scalar = Scalar(int64_t{kernels::BitCast<uint16_t>(element)});
    } else if constexpr (sizeof(T) == 4) {
      in.scalar = Scalar(int64_t{kernels::BitCast<uint32_t>(element)});
    } else {
      in.scalar = Scalar(kernels::BitCast<int64_t>(element));
    }
    return MoveBits(args, in, out);
  });
}

absl::StatusOr<KernelTensor> NewTensor(const KernelArgs& args, Dtype dtype, const Shape& shape) {
  KernelTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = ContiguousStrides(shape, ItemSize(dtype));
  if (tensor.size() > 0) {
    CHX_ASSIGN_OR_RETURN(void* const data, args.scratch.Allocate(tensor.size() * ItemSize(dtype)));
    tensor.data = static_cast<char*>(data);
  }
  return tensor;
}

absl::StatusOr<KernelTensor> Contiguous(const KernelArgs& args, const KernelTensor& in) {
  return Contiguous(args, in, in.dtype);
}

absl::StatusOr<KernelTensor> Contiguous(const KernelArgs& args, const KernelTensor& in,
                                        Dtype dtype) {
  if (in.dtype == dtype && kernels::IsContiguous(in.shape, in.strides, ItemSize(dtype))) return in;
  CHX_ASSIGN_OR_RETURN(const KernelTensor result, NewTensor(args, dtype, in.shape));
  CHX_RETURN_IF_ERROR(Copy(args, in, result));
  return result;
}

}  // namespace chx::server::cuda
