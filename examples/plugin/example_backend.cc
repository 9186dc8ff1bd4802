// A plug-in backend: relu by a loop of its own, which counts its calls; all else as native has it.
// chxd --plugins=example=/PATH/libchxd_example.so --devices=example:0
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "server/engine/host_plugin.h"

namespace {

using chx::server::KernelArgs;
using chx::server::KernelTensor;

std::atomic<int64_t> own_calls{0};
std::atomic<int64_t> native_calls{0};
chx::server::Kernel native_relu = nullptr;

void PrintCalls() {
  std::fprintf(stderr, "example: relu ran %lld times here and %lld times in native\n",
               static_cast<long long>(own_calls), static_cast<long long>(native_calls));
}

bool IsPlainFloat(const KernelTensor& tensor) {
  return tensor.present && !tensor.is_scalar && tensor.dtype == chx::Dtype::kFloat32 &&
         tensor.strides == chx::ContiguousStrides(tensor.shape, sizeof(float));
}

// Runs on the session's own thread: several sessions may be in here at once.
absl::Status Relu(const KernelArgs& args) {
  const KernelTensor& x = args.in(0);
  const KernelTensor& y = args.out(0);
  if (!IsPlainFloat(x) || !IsPlainFloat(y)) {
    native_calls++;
    return native_relu(args);
  }
  own_calls++;
  const auto* const from = reinterpret_cast<const float*>(x.data);
  auto* const to = reinterpret_cast<float*>(y.data);
  const int64_t size = y.size();
  for (int64_t i = 0; i < size; ++i) to[i] = from[i] < 0 ? 0 : from[i];  // NaN stays NaN.
  return absl::OkStatus();
}

// Once for each device that the daemon opens, by the thread that starts it.
absl::Status SetKernels(chx::server::HostKernels* kernels) {
  if (native_relu == nullptr) {
    native_relu = kernels->Find("relu");
    std::atexit(PrintCalls);
  }
  return kernels->Set("relu", Relu);
}

}  // namespace

const chx::server::HostPlugin ChxHostPlugin = {chx::server::kHostPluginAbi,
                                               chx::server::kHostPluginLayout, SetKernels};
