// cuDNN 9, opened when the first convolution or recurrent network needs it (library.h).
#ifndef CHX_SERVER_CUDA_VENDOR_DNN_LIBRARY_H_
#define CHX_SERVER_CUDA_VENDOR_DNN_LIBRARY_H_

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "server/cuda/vendor/dnn.h"

namespace chx::server::cuda {

// The functions that we call, of cuDNN's older interface. The graph interface has the same kernels,
// and needs C++ headers that toolkits lack.
#define CHX_DNN_FUNCTIONS(F)                       \
  F(cudnnCreate)                                   \
  F(cudnnDestroy)                                  \
  F(cudnnSetStream)                                \
  F(cudnnGetErrorString)                           \
  F(cudnnCreateTensorDescriptor)                   \
  F(cudnnSetTensorNdDescriptor)                    \
  F(cudnnDestroyTensorDescriptor)                  \
  F(cudnnCreateFilterDescriptor)                   \
  F(cudnnSetFilterNdDescriptor)                    \
  F(cudnnDestroyFilterDescriptor)                  \
  F(cudnnCreateConvolutionDescriptor)              \
  F(cudnnSetConvolutionNdDescriptor)               \
  F(cudnnSetConvolutionMathType)                   \
  F(cudnnDestroyConvolutionDescriptor)             \
  F(cudnnGetConvolutionForwardAlgorithm_v7)        \
  F(cudnnFindConvolutionForwardAlgorithmEx)        \
  F(cudnnConvolutionForward)                       \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
  F(cudnnFindConvolutionBackwardDataAlgorithmEx)   \
  F(cudnnConvolutionBackwardData)                  \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  F(cudnnFindConvolutionBackwardFilterAlgorithmEx) \
  F(cudnnConvolutionBackwardFilter)                \
  F(cudnnGetTensorNdDescriptor)                    \
  F(cudnnCreateDropoutDescriptor)                  \
  F(cudnnSetDropoutDescriptor)                     \
  F(cudnnDestroyDropoutDescriptor)                 \
  F(cudnnCreateRNNDescriptor)                      \
  F(cudnnSetRNNDescriptor_v8)                      \
  F(cudnnDestroyRNNDescriptor)                     \
  F(cudnnCreateRNNDataDescriptor)                  \
  F(cudnnSetRNNDataDescriptor)                     \
  F(cudnnDestroyRNNDataDescriptor)                 \
  F(cudnnGetRNNTempSpaceSizes)                     \
  F(cudnnGetRNNWeightSpaceSize)                    \
  F(cudnnGetRNNWeightParams)                       \
  F(cudnnRNNForward)                               \
  F(cudnnRNNBackwardData_v8)                       \
  F(cudnnRNNBackwardWeights_v8)

// Immutable; safe from any thread.
struct DnnLibrary {
#define CHX_DECLARE(name) decltype(&::name) name = nullptr;
  CHX_DNN_FUNCTIONS(CHX_DECLARE)
#undef CHX_DECLARE
};

// The outcome of the first call is kept. CHXD_CUDNN names the file, or is "off".
absl::StatusOr<const DnnLibrary*> OpenDnn();

struct RnnObjects;

// An error if the library refuses the descriptors of some kind of recurrent network. Needs no GPU.
absl::Status DescribeRnns();

// A handle for one stream, and the algorithms that were chosen for it.
class CudaDnn : public Dnn {
 public:
  CudaDnn() = default;
  ~CudaDnn() override;
  CudaDnn(const CudaDnn&) = delete;
  CudaDnn& operator=(const CudaDnn&) = delete;

  // Before all other calls.
  void set_stream(cudaStream_t stream) { stream_ = stream; }
  // Of its device, which is current. Else the first call does it.
  absl::Status Open();
  absl::StatusOr<bool> Convolve(const KernelArgs& args, const ConvCall& call) override;
  absl::StatusOr<bool> Recur(const KernelArgs& args, const RnnCall& call) override;

 private:
  struct ConvObjects;

  absl::Status Open(const KernelArgs& args);
  absl::Status Check(const char* what, cudnnStatus_t status) const;
  absl::StatusOr<absl::optional<Algorithm>> Search(const KernelArgs& args, const ConvCall& call,
                                                   const ConvObjects& objects,
                                                   const Settings& settings);
  // That was found before, or is now; until the next search.
  absl::StatusOr<absl::optional<Algorithm>*> ChoiceFor(const KernelArgs& args, const ConvCall& call,
                                                       const ConvObjects& objects,
                                                       const Settings& settings);
  cudnnStatus_t Run(const ConvCall& call, const ConvObjects& objects, const Algorithm& algorithm,
                    void* workspace) const;
  absl::StatusOr<bool> CopyWeights(const RnnCall& call, const RnnObjects& objects, void* space,
                                   size_t bytes, bool out) const;

  cudaStream_t stream_ = nullptr;
  const DnnLibrary* library_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  // The key has all that the choice depends on. Nothing: cuDNN must not be used.
  absl::flat_hash_map<std::string, absl::optional<Algorithm>> choices_;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_DNN_LIBRARY_H_
