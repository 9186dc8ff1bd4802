// What this backend's kernels need of cuDNN, in plain C++: the calls, which of our operators they
// can stand for, and the choice among algorithms. No CUDA headers, as in kernel_stream.h.
#ifndef CHX_SERVER_CUDA_VENDOR_DNN_H_
#define CHX_SERVER_CUDA_VENDOR_DNN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "ops/dtype.h"
#include "ops/settings.h"
#include "server/engine/kernel.h"
#include "server/kernels/norm_layout.h"
#include "server/kernels/windows.h"

namespace chx::server::cuda {

struct RnnCall;  // dnn_rnn.h

// Windows as cuDNN takes them: 2 or 3 spatial dimensions, of int.
struct DnnWindows {
  static constexpr int kMaxDims = 3;
  int ndim = 0;
  int image[kMaxDims] = {};
  int counts[kMaxDims] = {};
  int kernel[kMaxDims] = {};
  int stride[kMaxDims] = {};
  int pad[kMaxDims] = {};
};

// One dimension becomes two. Nothing where cuDNN has no such windows: more dimensions, windows that
// begin beyond the padding or are not all that fit (cover_all), numbers beyond int.
absl::optional<DnnWindows> ToDnn(const kernels::Windows& windows);

// Which of image, weight and features is computed from the other two.
enum class ConvPart { kFeatures, kImage, kWeight };

// All arrays are dense, of one float dtype and in C order: image (samples, channels, image...),
// weight (features, channels, kernel...), features (samples, features, counts...).
struct ConvCall {
  ConvPart part = ConvPart::kFeatures;
  Dtype dtype = Dtype::kFloat32;
  int samples = 0;
  int channels = 0;
  int features = 0;
  DnnWindows windows;
  bool accumulate = false;  // adds to what is in `out`
  const void* a = nullptr;  // the image; for kImage the features
  const void* b = nullptr;  // the weight; for kWeight the features
  void* out = nullptr;
};

// The call without its arrays. Nothing where cuDNN cannot do it: see ToDnn; and where an array has
// no elements, or 2^31 or more.
absl::optional<ConvCall> PlanConv(ConvPart part, Dtype dtype, const kernels::Windows& windows,
                                  int64_t samples, int64_t channels, int64_t features);

// Sums of windows of `planes` images, or where `spread`, of the windows that each position is in.
struct PoolCall {
  Dtype dtype = Dtype::kFloat32;
  bool spread = false;
  int planes = 0;
  DnnWindows windows;
  const void* in = nullptr;
  void* out = nullptr;
};

// As PlanConv; windows may not lie in the padding altogether.
absl::optional<PoolCall> PlanPool(Dtype dtype, bool spread, const kernels::Windows& windows,
                                  int64_t planes);

// Batch normalization by a batch's own moments, or by given ones, or the gradient of the first.
enum class NormPart { kBatch, kFixed, kGradient };

// x (outer, channels, inner), y, gy and gx are dense and of `dtype`; all others are (channels,), of
// float64 if that is float64 and else of float32.
struct NormCall {
  NormPart part = NormPart::kBatch;
  Dtype dtype = Dtype::kFloat32;
  int outer = 0;
  int channels = 0;
  int inner = 0;
  double eps = 0;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  // Results of kBatch, which are zero before: the variance is that of what the batch is a sample
  // of. Operands of kFixed.
  void* mean = nullptr;
  void* variance = nullptr;
  const void* gy = nullptr;  // of kGradient, as are the gradients of gamma and beta
  void* ggamma = nullptr;
  void* gbeta = nullptr;
  void* out = nullptr;  // y or gx
};

// As PlanConv; also nothing for an eps that cuDNN refuses, for moments of one element, and for more
// samples than its kernels reach.
absl::optional<NormCall> PlanNorm(NormPart part, Dtype dtype, const kernels::NormLayout& layout,
                                  double eps);

// What cuDNN says of an algorithm for one convolution.
struct Algorithm {
  int number = 0;
  bool works = false;
  bool exact = false;  // sums up in the dtype of its work: no TF32
  bool deterministic = false;
  int math = 0;           // in which mode it runs, as the library numbers them
  int64_t workspace = 0;  // bytes
};
// The first of these, which come with the fastest first, that the settings allow. Nothing if none.
absl::optional<Algorithm> Choose(absl::Span<const Algorithm> algorithms, const Settings& settings);

// cuDNN as one stream uses it; by one thread at a time. Calls are asynchronous. False: the library
// does not do this within the settings of args.stream, and nothing was done.
class Dnn {
 public:
  virtual ~Dnn() = default;
  virtual absl::StatusOr<bool> Convolve(const KernelArgs& args, const ConvCall& call) = 0;
  virtual absl::StatusOr<bool> Pool(const KernelArgs& args, const PoolCall& call) = 0;
  virtual absl::StatusOr<bool> Normalize(const KernelArgs& args, const NormCall& call) = 0;
  virtual absl::StatusOr<bool> Recur(const KernelArgs& args, const RnnCall& call) = 0;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_DNN_H_
