// oneDNN's functions, from libdnnl.so.2. The library is opened on first use, so that chxd starts
// quickly, and runs with its own kernels if the library is not installed.
#ifndef CHX_SERVER_NATIVE_VENDOR_DNNL_LIBRARY_H_
#define CHX_SERVER_NATIVE_VENDOR_DNNL_LIBRARY_H_

#include <dnnl.h>

// The functions that we use.
#define CHX_DNNL_FUNCTIONS(F)                            \
  F(dnnl_dilated_convolution_backward_data_desc_init)    \
  F(dnnl_dilated_convolution_backward_weights_desc_init) \
  F(dnnl_dilated_convolution_forward_desc_init)          \
  F(dnnl_engine_create)                                  \
  F(dnnl_matmul_desc_init)                               \
  F(dnnl_memory_create)                                  \
  F(dnnl_memory_desc_equal)                              \
  F(dnnl_memory_desc_get_size)                           \
  F(dnnl_memory_desc_init_by_strides)                    \
  F(dnnl_memory_desc_init_by_tag)                        \
  F(dnnl_memory_destroy)                                 \
  F(dnnl_primitive_attr_create)                          \
  F(dnnl_primitive_attr_destroy)                         \
  F(dnnl_primitive_attr_set_scratchpad_mode)             \
  F(dnnl_primitive_create)                               \
  F(dnnl_primitive_desc_create)                          \
  F(dnnl_primitive_desc_destroy)                         \
  F(dnnl_primitive_desc_query)                           \
  F(dnnl_primitive_desc_query_md)                        \
  F(dnnl_primitive_destroy)                              \
  F(dnnl_primitive_execute)                              \
  F(dnnl_reorder_primitive_desc_create)                  \
  F(dnnl_set_primitive_cache_capacity)                   \
  F(dnnl_sgemm)                                          \
  F(dnnl_stream_create)                                  \
  F(dnnl_stream_destroy)                                 \
  F(dnnl_version)

namespace chx::server::native {

struct DnnlLibrary {
#define CHX_DNNL_MEMBER(name) decltype(&::name) name = nullptr;
  CHX_DNNL_FUNCTIONS(CHX_DNNL_MEMBER)
#undef CHX_DNNL_MEMBER
  // Of the OpenMP runtime that oneDNN is linked with; for the thread that calls it.
  void (*omp_set_num_threads)(int threads) = nullptr;
  dnnl_engine_t engine = nullptr;
};

// Null if there is no oneDNN 2 beside the program or where the system keeps libraries. Runs on the
// calling thread alone.
const DnnlLibrary* Dnnl();

// Whether the processor multiplies bfloat16 (AVX512-BF16; those with AMX have it, too): otherwise
// float32 is faster.
bool HasBfloat16Instructions();

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_DNNL_LIBRARY_H_
