#include "server/native/vendor/dnnl_primitive.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/native/vendor/dnnl_library.h"

namespace chx::server::native {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kMaxArguments = 6;

// Of this thread; null if there is no oneDNN.
dnnl_stream_t Stream() {
  struct Holder {
    dnnl_stream_t stream = nullptr;
    Holder() {
      if (Dnnl() == nullptr) return;
      if (Dnnl()->dnnl_stream_create(&stream, Dnnl()->engine, dnnl_stream_default_flags) !=
          dnnl_success) {
        stream = nullptr;
      }
    }
    ~Holder() {
      if (stream != nullptr) Dnnl()->dnnl_stream_destroy(stream);
    }
  };
  thread_local const Holder holder;
  return holder.stream;
}

struct DeleteAttr {
  void operator()(dnnl_primitive_attr* attr) const { Dnnl()->dnnl_primitive_attr_destroy(attr); }
};
using Attr = std::unique_ptr<dnnl_primitive_attr, DeleteAttr>;

// Primitives get their scratch memory from us: else they could not run on several threads.
Attr UserScratchpad() {
  dnnl_primitive_attr_t attr = nullptr;
  if (Dnnl()->dnnl_primitive_attr_create(&attr) != dnnl_success) return nullptr;
  Dnnl()->dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  return Attr(attr);
}

}  // namespace

DnnlDesc DnnlStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                     dnnl_data_type_t dtype) {
  DnnlDesc desc = {};
  Dnnl()->dnnl_memory_desc_init_by_strides(&desc, static_cast<int>(dims.size()), dims.data(), dtype,
                                           strides.data());
  return desc;
}

DnnlDesc DnnlAnyLayout(absl::Span<const int64_t> dims, dnnl_data_type_t dtype) {
  DnnlDesc desc = {};
  Dnnl()->dnnl_memory_desc_init_by_tag(&desc, static_cast<int>(dims.size()), dims.data(), dtype,
                                       dnnl_format_tag_any);
  return desc;
}

size_t DnnlBytes(const DnnlDesc& desc) {
  return (Dnnl()->dnnl_memory_desc_get_size(&desc) + kAlignment - 1) / kAlignment * kAlignment;
}

bool SameLayout(const DnnlDesc& a, const DnnlDesc& b) {
  return Dnnl()->dnnl_memory_desc_equal(&a, &b) != 0;
}

DnnlPrimitive DnnlPrimitive::Compile(dnnl_primitive_desc* desc) {
  DnnlPrimitive result;
  result.desc_.reset(desc);
  dnnl_primitive_t primitive = nullptr;
  if (Dnnl()->dnnl_primitive_create(&primitive, desc) == dnnl_success)
    result.primitive_.reset(primitive);
  return result;
}

DnnlPrimitive DnnlPrimitive::Create(const_dnnl_op_desc_t op, const DnnlPrimitive* forward,
                                    bool by_gemm) {
  if (Stream() == nullptr) return {};
  const Attr attr = UserScratchpad();
  dnnl_primitive_desc_t desc = nullptr;
  if (Dnnl()->dnnl_primitive_desc_create(&desc, op, attr.get(), Dnnl()->engine,
                                         forward == nullptr ? nullptr : forward->desc_.get()) !=
      dnnl_success) {
    return {};
  }
  const char* name = "";
  Dnnl()->dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
  if (!absl::StrContains(name, "jit:") && !absl::StrContains(name, "jit_") &&
      !absl::StrContains(name, "brg") && !(by_gemm && absl::StrContains(name, "gemm"))) {
    Dnnl()->dnnl_primitive_desc_destroy(desc);
    return {};
  }
  return Compile(desc);
}

DnnlPrimitive DnnlPrimitive::Reorder(const DnnlDesc& from, const DnnlDesc& to) {
  if (Stream() == nullptr) return {};
  dnnl_primitive_desc_t desc = nullptr;
  if (Dnnl()->dnnl_reorder_primitive_desc_create(&desc, &from, Dnnl()->engine, &to, Dnnl()->engine,
                                                 nullptr) != dnnl_success) {
    return {};
  }
  return Compile(desc);
}

DnnlDesc DnnlPrimitive::desc(dnnl_query_t what) const {
  const DnnlDesc* const found = Dnnl()->dnnl_primitive_desc_query_md(desc_.get(), what, 0);
  return found != nullptr ? *found : DnnlDesc{};
}

bool DnnlPrimitive::Run(absl::Span<const DnnlArgument> arguments) const {
  const dnnl_stream_t stream = Stream();
  if (stream == nullptr || arguments.size() > kMaxArguments) return false;
  dnnl_exec_arg_t args[kMaxArguments];
  int count = 0;
  bool ok = true;
  for (const DnnlArgument& argument : arguments) {
    dnnl_memory_t memory = nullptr;
    // Inputs are not written, although the interface can't say so.
    ok = ok && Dnnl()->dnnl_memory_create(&memory, argument.desc, Dnnl()->engine,
                                          const_cast<void*>(argument.data)) == dnnl_success;
    if (memory != nullptr) args[count++] = {argument.arg, memory};
  }
  ok = ok && Dnnl()->dnnl_primitive_execute(primitive_.get(), stream, count, args) == dnnl_success;
  for (int i = 0; i < count; ++i) Dnnl()->dnnl_memory_destroy(args[i].memory);
  return ok;
}

}  // namespace chx::server::native
