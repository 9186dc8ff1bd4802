#include "server/cuda/vendor/dnn.h"

#include <cmath>
#include <vector>

namespace chx::server::cuda {
namespace {

bool IsInt(int64_t n) { return n >= 0 && n <= INT32_MAX; }

// Whether an array of (a, b, dims...) has elements, and so few that an int counts them.
bool Countable(int64_t a, int64_t b, const int* dims, int ndim) {
  if (!IsInt(a) || !IsInt(b)) return false;
  int64_t size = a * b;  // below 2^62
  for (int d = 0; d < ndim; ++d) {
    if (size > INT32_MAX) return false;
    size *= dims[d];
  }
  return size > 0 && size <= INT32_MAX;
}

}  // namespace

absl::optional<DnnWindows> ToDnn(const kernels::Windows& windows) {
  if (windows.ndim < 1 || windows.ndim > DnnWindows::kMaxDims) return absl::nullopt;
  DnnWindows result;
  for (int d = 0; d < windows.ndim; ++d) {
    const int64_t image = windows.image[d];
    const int64_t counts = windows.counts[d];
    const int64_t kernel = windows.kernel[d];
    const int64_t stride = windows.stride[d];
    const int64_t pad = windows.pad[d];
    if (!IsInt(image) || !IsInt(counts) || !IsInt(kernel) || !IsInt(stride) || !IsInt(pad) ||
        image < 1 || counts < 1 || kernel < 1 || stride < 1) {
      return absl::nullopt;
    }
    const int64_t padded = image + 2 * pad;
    if (padded > INT32_MAX || padded < kernel || counts != (padded - kernel) / stride + 1) {
      return absl::nullopt;
    }
    result.image[d] = static_cast<int>(image);
    result.counts[d] = static_cast<int>(counts);
    result.kernel[d] = static_cast<int>(kernel);
    result.stride[d] = static_cast<int>(stride);
    result.pad[d] = static_cast<int>(pad);
  }
  result.ndim = windows.ndim;
  if (result.ndim == 1) {
    result.image[1] = result.counts[1] = result.kernel[1] = result.stride[1] = 1;
    result.ndim = 2;
  }
  return result;
}

absl::optional<ConvCall> PlanConv(ConvPart part, Dtype dtype, const kernels::Windows& windows,
                                  int64_t samples, int64_t channels, int64_t features) {
  const absl::optional<DnnWindows> dnn = ToDnn(windows);
  if (!dnn.has_value() || !Countable(samples, channels, dnn->image, dnn->ndim) ||
      !Countable(features, channels, dnn->kernel, dnn->ndim) ||
      !Countable(samples, features, dnn->counts, dnn->ndim)) {
    return absl::nullopt;
  }
  ConvCall call;
  call.part = part;
  call.dtype = dtype;
  call.samples = static_cast<int>(samples);
  call.channels = static_cast<int>(channels);
  call.features = static_cast<int>(features);
  call.windows = *dnn;
  return call;
}

absl::optional<Algorithm> Choose(absl::Span<const Algorithm> algorithms, const Settings& settings) {
  for (const Algorithm& algorithm : algorithms) {
    if (!algorithm.works || !(algorithm.exact || settings.cudnn_tf32)) continue;
    if (algorithm.workspace < 0 || algorithm.workspace > settings.max_workspace_size) continue;
    if (settings.cudnn_deterministic && !algorithm.deterministic) continue;
    return algorithm;
  }
  return absl::nullopt;
}

std::string ChoiceKey(const ConvCall& call, const Settings& settings) {
  const DnnWindows& w = call.windows;
  std::vector<int64_t> numbers = {static_cast<int64_t>(call.part),
                                  static_cast<int64_t>(call.dtype),
                                  call.samples,
                                  call.channels,
                                  call.features,
                                  call.accumulate,
                                  w.ndim,
                                  settings.cudnn_deterministic,
                                  settings.autotune,
                                  settings.cudnn_tf32,
                                  settings.max_workspace_size};
  for (int d = 0; d < w.ndim; ++d) {
    numbers.insert(numbers.end(), {w.image[d], w.counts[d], w.kernel[d], w.stride[d], w.pad[d]});
  }
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(numbers[0]));
}

}  // namespace chx::server::cuda
