// What this backend's kernels need of cuDNN, in plain C++: its calls, which operators they can
// compute, and the choice of an algorithm. No CUDA headers, as in kernel_stream.h.
#ifndef CHX_SERVER_CUDA_VENDOR_DNN_H_
#define CHX_SERVER_CUDA_VENDOR_DNN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "ops/dtype.h"
#include "ops/settings.h"
#include "server/engine/kernel.h"
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

// One dimension becomes two. Nothing if cuDNN has no such windows: more dimensions, windows that
// begin beyond the padding (cover_all), fewer windows than fit, or numbers beyond int.
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
  bool accumulate = false;  // adds to the values in `out`
  const void* a = nullptr;  // the image; for kImage the features
  const void* b = nullptr;  // the weight; for kWeight the features
  void* out = nullptr;
};

// The call without its arrays. Nothing if cuDNN cannot compute it: see ToDnn. Arrays must have
// elements, and fewer than 2^31.
absl::optional<ConvCall> PlanConv(ConvPart part, Dtype dtype, const kernels::Windows& windows,
                                  int64_t samples, int64_t channels, int64_t features);

// cuDNN's description of an algorithm for one convolution.
struct Algorithm {
  int number = 0;
  bool works = false;  // and does not round float32 to float16
  bool exact = false;  // computes in the dtype of the call: no TF32
  bool deterministic = false;
  int math = 0;           // its cudnnMathType_t
  int64_t workspace = 0;  // bytes
};
// The first algorithm that the settings allow, of a list with the fastest first. Nothing if none.
absl::optional<Algorithm> Choose(absl::Span<const Algorithm> algorithms, const Settings& settings);

// All that the choice of an algorithm depends on.
std::string ChoiceKey(const ConvCall& call, const Settings& settings);

// cuDNN for one stream. Used by one thread at a time. Calls are asynchronous. False: the library
// cannot do this within the settings of args.stream, and has done nothing.
class Dnn {
 public:
  virtual ~Dnn() = default;
  virtual absl::StatusOr<bool> Convolve(const KernelArgs& args, const ConvCall& call) = 0;
  virtual absl::StatusOr<bool> Recur(const KernelArgs& args, const RnnCall& call) = 0;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_DNN_H_
