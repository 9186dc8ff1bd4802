// Primitives of oneDNN over dense or strided arrays, run by the calling thread. Dnnl() must
// not be null.
#ifndef CHX_SERVER_NATIVE_VENDOR_DNNL_PRIMITIVE_H_
#define CHX_SERVER_NATIVE_VENDOR_DNNL_PRIMITIVE_H_

#include <cstddef>
#include <memory>

#include "absl/types/span.h"
#include "server/native/vendor/dnnl_library.h"

namespace chx::server::native {

using DnnlDesc = dnnl_memory_desc_t;

// An array with these strides, in elements, or in the layout that a primitive prefers.
DnnlDesc DnnlStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                     dnnl_data_type_t dtype = dnnl_f32);
DnnlDesc DnnlAnyLayout(absl::Span<const int64_t> dims, dnnl_data_type_t dtype = dnnl_f32);

// Bytes of an array, rounded up so that another may follow it.
size_t DnnlBytes(const DnnlDesc& desc);
bool SameLayout(const DnnlDesc& a, const DnnlDesc& b);

struct DnnlArgument {
  int arg;  // DNNL_ARG_...
  const DnnlDesc* desc;
  const void* data;  // aligned to 64 bytes where the layout is oneDNN's own
};

// A compiled primitive. oneDNN's own threads are never used: each primitive is a task for one of
// ours, so sessions share them fairly and --threads is obeyed. Thread-safe once made.
class DnnlPrimitive {
 public:
  DnnlPrimitive() = default;
  // `op` points to one of dnnl.h's operation descriptors. Null if oneDNN can't do it, or only by
  // its slow general code, or by products of matrices unless `by_gemm`. `forward`, for gradients:
  // the primitive that this is the gradient of.
  static DnnlPrimitive Create(const_dnnl_op_desc_t op, const DnnlPrimitive* forward, bool by_gemm);
  static DnnlPrimitive Reorder(const DnnlDesc& from, const DnnlDesc& to);

  explicit operator bool() const { return primitive_ != nullptr; }
  // dnnl_query_src_md and the like.
  DnnlDesc desc(dnnl_query_t what) const;
  // False if oneDNN reports an error.
  bool Run(absl::Span<const DnnlArgument> arguments) const;

 private:
  struct Delete {
    void operator()(dnnl_primitive_desc* desc) const { Dnnl()->dnnl_primitive_desc_destroy(desc); }
    void operator()(dnnl_primitive* primitive) const { Dnnl()->dnnl_primitive_destroy(primitive); }
  };

  static DnnlPrimitive Compile(dnnl_primitive_desc* desc);

  std::unique_ptr<dnnl_primitive_desc, Delete> desc_;
  std::unique_ptr<dnnl_primitive, Delete> primitive_;
};

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_DNNL_PRIMITIVE_H_
