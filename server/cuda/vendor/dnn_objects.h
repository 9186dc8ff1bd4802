// cuDNN's descriptors and constants for the types of dnn.h.
#ifndef CHX_SERVER_CUDA_VENDOR_DNN_OBJECTS_H_
#define CHX_SERVER_CUDA_VENDOR_DNN_OBJECTS_H_

#include <cudnn.h>

#include <algorithm>
#include <initializer_list>

#include "server/cuda/vendor/dnn_library.h"

namespace chx::server::cuda {

inline cudnnDataType_t DataType(Dtype dtype) {
  return dtype == Dtype::kFloat64    ? CUDNN_DATA_DOUBLE
         : dtype == Dtype::kFloat16  ? CUDNN_DATA_HALF
         : dtype == Dtype::kBfloat16 ? CUDNN_DATA_BFLOAT16
                                     : CUDNN_DATA_FLOAT;
}

// Narrow floats are summed up in float32.
inline cudnnDataType_t WorkType(Dtype dtype) {
  return dtype == Dtype::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

// Nothing has run: cuDNN refuses such a call (2000 to 2999), or has no kernel for it (3000 to
// 3999).
inline bool IsDeclined(cudnnStatus_t status) {
  const int category = static_cast<int>(status) / 1000;
  return category == 2 || category == 3;
}

// A factor, which cuDNN expects as float or, for float64, as double.
class Factor {
 public:
  Factor(Dtype dtype, double value)
      : wide_(dtype == Dtype::kFloat64), double_(value), float_(static_cast<float>(value)) {}
  const void* get() const { return wide_ ? static_cast<const void*>(&double_) : &float_; }

 private:
  const bool wide_;
  const double double_;
  const float float_;
};

// One of cuDNN's descriptors, made and destroyed by the given functions.
template <typename T>
class Descriptor {
 public:
  using Create = cudnnStatus_t (*)(T*);
  using Destroy = cudnnStatus_t (*)(T);
  Descriptor(Create create, Destroy destroy) : destroy_(destroy), status_(create(&descriptor_)) {}
  ~Descriptor() {
    if (status_ == CUDNN_STATUS_SUCCESS) destroy_(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T get() const { return descriptor_; }
  cudnnStatus_t status() const { return status_; }

 private:
  T descriptor_ = nullptr;
  const Destroy destroy_;
  const cudnnStatus_t status_;
};

class TensorDescriptor : public Descriptor<cudnnTensorDescriptor_t> {
 public:
  explicit TensorDescriptor(const DnnLibrary& dnn)
      : Descriptor(dnn.cudnnCreateTensorDescriptor, dnn.cudnnDestroyTensorDescriptor) {}
};

// (a, b, dims...) in C order.
class Dims {
 public:
  Dims(int a, int b, const int* dims, int ndim) : size_(ndim + 2) {
    dims_[0] = a;
    dims_[1] = b;
    std::copy(dims, dims + ndim, dims_ + 2);
    int stride = 1;  // the whole size is an int
    for (int d = size_ - 1; d >= 0; --d) {
      strides_[d] = stride;
      stride *= dims_[d];
    }
  }
  cudnnStatus_t Set(const DnnLibrary& dnn, cudnnDataType_t type, cudnnTensorDescriptor_t to) const {
    return dnn.cudnnSetTensorNdDescriptor(to, type, size_, dims_, strides_);
  }
  cudnnStatus_t Set(const DnnLibrary& dnn, cudnnDataType_t type, cudnnFilterDescriptor_t to) const {
    return dnn.cudnnSetFilterNdDescriptor(to, type, CUDNN_TENSOR_NCHW, size_, dims_);
  }

 private:
  const int size_;
  int dims_[DnnWindows::kMaxDims + 2];
  int strides_[DnnWindows::kMaxDims + 2];
};

inline cudnnStatus_t First(std::initializer_list<cudnnStatus_t> statuses) {
  for (const cudnnStatus_t status : statuses) {
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_DNN_OBJECTS_H_
