#include "server/cuda/vendor/dnn_library.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/error.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/vendor/dnn_objects.h"
#include "server/cuda/vendor/library.h"

namespace chx::server::cuda {
namespace {

// Clients choose shapes, so the number of remembered choices is bounded.
constexpr size_t kMaxChoices = 1024;
constexpr int kMaxAlgorithms = 16;

bool LoadAll(void* library, DnnLibrary* dnn) {
#define CHX_LOAD(name) LoadFunction(library, #name, &dnn->name)&&
  return CHX_DNN_FUNCTIONS(CHX_LOAD) true;
#undef CHX_LOAD
}

template <typename Perf>
std::vector<Algorithm> ToAlgorithms(const Perf* perfs, int count, Dtype dtype) {
  std::vector<Algorithm> algorithms(std::max(0, count));
  for (size_t i = 0; i < algorithms.size(); ++i) {
    algorithms[i].number = static_cast<int>(perfs[i].algo);
    algorithms[i].works =
        perfs[i].status == CUDNN_STATUS_SUCCESS &&
        (IsNarrowFloat(dtype) || perfs[i].mathType != CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
    algorithms[i].math = static_cast<int>(perfs[i].mathType);
    // With FMA_MATH in the call, DEFAULT_MATH is that, too.
    algorithms[i].exact = IsNarrowFloat(dtype) || perfs[i].mathType == CUDNN_FMA_MATH ||
                          perfs[i].mathType == CUDNN_DEFAULT_MATH;
    algorithms[i].deterministic = perfs[i].determinism == CUDNN_DETERMINISTIC;
    algorithms[i].workspace =
        perfs[i].memory > INT64_MAX ? -1 : static_cast<int64_t>(perfs[i].memory);
  }
  return algorithms;
}

}  // namespace

absl::StatusOr<const DnnLibrary*> OpenDnn() {
  static const auto* const result = new absl::StatusOr<const DnnLibrary*>(
      OpenFunctions({"cuDNN 9",
                     "convolutions and recurrent networks do without",
                     "CHXD_CUDNN",
                     {"libcudnn.so.9"}},
                    LoadAll));
  return *result;
}

// The descriptors of a call.
struct CudaDnn::ConvObjects {
  explicit ConvObjects(const DnnLibrary& dnn)
      : image(dnn),
        features(dnn),
        weight(dnn.cudnnCreateFilterDescriptor, dnn.cudnnDestroyFilterDescriptor),
        windows(dnn.cudnnCreateConvolutionDescriptor, dnn.cudnnDestroyConvolutionDescriptor) {}

  cudnnStatus_t Set(const DnnLibrary& dnn, const ConvCall& call, bool tf32) const {
    const cudnnStatus_t made =
        First({image.status(), features.status(), weight.status(), windows.status()});
    if (made != CUDNN_STATUS_SUCCESS) return made;
    const DnnWindows& w = call.windows;
    const cudnnDataType_t type = DataType(call.dtype);
    constexpr int kDense[DnnWindows::kMaxDims] = {1, 1, 1};
    return First(
        {Dims(call.samples, call.channels, w.image, w.ndim).Set(dnn, type, image.get()),
         Dims(call.samples, call.features, w.counts, w.ndim).Set(dnn, type, features.get()),
         Dims(call.features, call.channels, w.kernel, w.ndim).Set(dnn, type, weight.get()),
         dnn.cudnnSetConvolutionNdDescriptor(windows.get(), w.ndim, w.pad, w.stride, kDense,
                                             CUDNN_CROSS_CORRELATION, WorkType(call.dtype)),
         // Of float32, DEFAULT_MATH may use TF32.
         dnn.cudnnSetConvolutionMathType(
             windows.get(), IsNarrowFloat(call.dtype)                ? CUDNN_TENSOR_OP_MATH
                            : call.dtype == Dtype::kFloat32 && !tf32 ? CUDNN_FMA_MATH
                                                                     : CUDNN_DEFAULT_MATH)});
  }

  const TensorDescriptor image;
  const TensorDescriptor features;
  const Descriptor<cudnnFilterDescriptor_t> weight;
  const Descriptor<cudnnConvolutionDescriptor_t> windows;
};

CudaDnn::~CudaDnn() {
  if (handle_ != nullptr) library_->cudnnDestroy(handle_);
}

absl::Status CudaDnn::Check(const char* what, cudnnStatus_t status) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return DeviceError("cuda: ", what, ": ", library_->cudnnGetErrorString(status));
}

absl::Status CudaDnn::Open() {
  if (handle_ != nullptr) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(library_, OpenDnn());
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t made = library_->cudnnCreate(&handle);
  if (made == CUDNN_STATUS_NOT_INITIALIZED ||
      made == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    return MemoryError("cuda: cudnnCreate: ", library_->cudnnGetErrorString(made),
                       "; the device may have no memory left");
  }
  CHX_RETURN_IF_ERROR(Check("cudnnCreate", made));
  const absl::Status set = Check("cudnnSetStream", library_->cudnnSetStream(handle, stream_));
  if (!set.ok()) {
    library_->cudnnDestroy(handle);
    return set;
  }
  handle_ = handle;
  return absl::OkStatus();
}

absl::Status CudaDnn::Open(const KernelArgs& args) {
  StreamOf(args).handle();  // makes its device current
  return WithRoom(StreamOf(args), [this] { return Open(); });
}

// The choice is by estimates or, to autotune, by trying algorithms with all the workspace that is
// allowed: twice, because each is measured once, and its first call may load it. Trying writes to
// the output, so an accumulating call gets another one for it.
absl::StatusOr<absl::optional<Algorithm>> CudaDnn::Search(const KernelArgs& args,
                                                          const ConvCall& call,
                                                          const ConvObjects& o,
                                                          const Settings& settings) {
  void* workspace = nullptr;
  void* out = call.out;
  bool tries = settings.autotune;
  size_t bytes = static_cast<size_t>(settings.max_workspace_size);
  if (tries && bytes > 0) {
    const absl::StatusOr<void*> memory = args.scratch.Allocate(bytes);
    tries = memory.ok();
    if (tries) workspace = *memory;
  }
  if (tries && call.accumulate) {
    const absl::StatusOr<void*> memory =
        args.scratch.Allocate(args.out(0).size() * ItemSize(call.dtype));
    tries = memory.ok();
    if (tries) out = *memory;
  }
  int count = 0;
  const auto choose = [&](const auto* perfs, auto find,
                          auto estimate) -> absl::StatusOr<absl::optional<Algorithm>> {
    cudnnStatus_t status = tries ? find() : estimate();
    if (tries && status == CUDNN_STATUS_SUCCESS) status = find();
    if (IsDeclined(status)) return absl::optional<Algorithm>();
    CHX_RETURN_IF_ERROR(Check("the search for a convolution's algorithm", status));
    return Choose(ToAlgorithms(perfs, std::min(count, kMaxAlgorithms), call.dtype), settings);
  };
  const DnnLibrary& dnn = *library_;
  switch (call.part) {
    case ConvPart::kFeatures: {
      cudnnConvolutionFwdAlgoPerf_t perfs[kMaxAlgorithms];
      return choose(
          perfs,
          [&] {
            return dnn.cudnnFindConvolutionForwardAlgorithmEx(
                handle_, o.image.get(), call.a, o.weight.get(), call.b, o.windows.get(),
                o.features.get(), out, kMaxAlgorithms, &count, perfs, workspace, bytes);
          },
          [&] {
            return dnn.cudnnGetConvolutionForwardAlgorithm_v7(
                handle_, o.image.get(), o.weight.get(), o.windows.get(), o.features.get(),
                kMaxAlgorithms, &count, perfs);
          });
    }
    case ConvPart::kImage: {
      cudnnConvolutionBwdDataAlgoPerf_t perfs[kMaxAlgorithms];
      return choose(
          perfs,
          [&] {
            return dnn.cudnnFindConvolutionBackwardDataAlgorithmEx(
                handle_, o.weight.get(), call.b, o.features.get(), call.a, o.windows.get(),
                o.image.get(), out, kMaxAlgorithms, &count, perfs, workspace, bytes);
          },
          [&] {
            return dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(
                handle_, o.weight.get(), o.features.get(), o.windows.get(), o.image.get(),
                kMaxAlgorithms, &count, perfs);
          });
    }
    case ConvPart::kWeight:
      break;
  }
  cudnnConvolutionBwdFilterAlgoPerf_t perfs[kMaxAlgorithms];
  return choose(
      perfs,
      [&] {
        return dnn.cudnnFindConvolutionBackwardFilterAlgorithmEx(
            handle_, o.image.get(), call.a, o.features.get(), call.b, o.windows.get(),
            o.weight.get(), out, kMaxAlgorithms, &count, perfs, workspace, bytes);
      },
      [&] {
        return dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            handle_, o.image.get(), o.features.get(), o.windows.get(), o.weight.get(),
            kMaxAlgorithms, &count, perfs);
      });
}

cudnnStatus_t CudaDnn::Run(const ConvCall& call, const ConvObjects& o, const Algorithm& algorithm,
                           void* workspace) const {
  const Factor one(call.dtype, 1);
  const Factor before(call.dtype, call.accumulate ? 1 : 0);
  const auto bytes = static_cast<size_t>(algorithm.workspace);
  if (IsNarrowFloat(call.dtype) || !algorithm.exact) {
    const cudnnStatus_t status = library_->cudnnSetConvolutionMathType(
        o.windows.get(), static_cast<cudnnMathType_t>(algorithm.math));
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  switch (call.part) {
    case ConvPart::kFeatures:
      return library_->cudnnConvolutionForward(
          handle_, one.get(), o.image.get(), call.a, o.weight.get(), call.b, o.windows.get(),
          static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number), workspace, bytes, before.get(),
          o.features.get(), call.out);
    case ConvPart::kImage:
      return library_->cudnnConvolutionBackwardData(
          handle_, one.get(), o.weight.get(), call.b, o.features.get(), call.a, o.windows.get(),
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), workspace, bytes,
          before.get(), o.image.get(), call.out);
    case ConvPart::kWeight:
      break;
  }
  return library_->cudnnConvolutionBackwardFilter(
      handle_, one.get(), o.image.get(), call.a, o.features.get(), call.b, o.windows.get(),
      static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), workspace, bytes,
      before.get(), o.weight.get(), call.out);
}

absl::StatusOr<absl::optional<Algorithm>*> CudaDnn::ChoiceFor(const KernelArgs& args,
                                                              const ConvCall& call,
                                                              const ConvObjects& objects,
                                                              const Settings& settings) {
  const std::string key = ChoiceKey(call, settings);
  auto found = choices_.find(key);
  if (found == choices_.end()) {
    CHX_ASSIGN_OR_RETURN(const absl::optional<Algorithm> choice,
                         Search(args, call, objects, settings));
    if (choices_.size() >= kMaxChoices) choices_.clear();
    found = choices_.emplace(key, choice).first;
  }
  return &found->second;
}

absl::StatusOr<bool> CudaDnn::Convolve(const KernelArgs& args, const ConvCall& call) {
  CHX_RETURN_IF_ERROR(Open(args));
  Settings settings = args.stream.settings();
  const ConvObjects objects(*library_);
  const cudnnStatus_t set = objects.Set(*library_, call, settings.cudnn_tf32);
  if (IsDeclined(set)) return false;
  CHX_RETURN_IF_ERROR(Check("a convolution's descriptors", set));
  absl::optional<Algorithm>* choice = nullptr;
  void* workspace = nullptr;
  for (;;) {
    CHX_ASSIGN_OR_RETURN(choice, ChoiceFor(args, call, objects, settings));
    if (!choice->has_value()) return false;
    if ((*choice)->workspace == 0) break;
    const absl::StatusOr<void*> memory = args.scratch.Allocate((*choice)->workspace);
    if (memory.ok()) {
      workspace = *memory;
      break;
    }
    // The session has no memory left for it: a slower algorithm does without.
    if (std::exchange(settings.max_workspace_size, 0) == 0) return false;
  }
  const cudnnStatus_t status = Run(call, objects, **choice, workspace);
  if (IsDeclined(status)) {
    choice->reset();
    return false;
  }
  CHX_RETURN_IF_ERROR(Check("convolution", status));
  CHX_RETURN_IF_ERROR(StreamOf(args).Launched());
  return true;
}

}  // namespace chx::server::cuda
