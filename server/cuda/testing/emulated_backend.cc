#include "server/cuda/testing/emulated_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/loops/late_check.h"
#include "server/cuda/testing/emulated_libraries.h"
#include "server/cuda/vendor/gemm.h"
#include "server/engine/stop_token.h"
#include "server/kernels/dispatch.h"

namespace chx::server::cuda {
namespace {

// What BLAS computes, written down from its definition: column-major, op(x) by a flag. Libraries
// sum in parts, so that a long float32 sum is more exact than one after the other: here by doubles.
template <typename T>
void ReferenceGemm(const GemmCall& call) {
  for (int64_t i = 0; i < call.count; ++i) {
    const T* const a = static_cast<const T*>(call.a) + i * call.a_stride;
    const T* const b = static_cast<const T*>(call.b) + i * call.b_stride;
    T* const c = static_cast<T*>(call.c) + i * call.c_stride;
    for (int64_t column = 0; column < call.n; ++column) {
      for (int64_t row = 0; row < call.m; ++row) {
        T& result = c[row + column * call.ldc];
        double sum = call.accumulate ? kernels::Load(result) : 0;
        for (int64_t p = 0; p < call.k; ++p) {
          const T& x = call.transpose_a ? a[p + row * call.lda] : a[row + p * call.lda];
          const T& y = call.transpose_b ? b[column + p * call.ldb] : b[p + column * call.ldb];
          sum += static_cast<double>(kernels::Load(x)) * kernels::Load(y);
        }
        if (call.bias != nullptr) sum += kernels::Load(static_cast<const T*>(call.bias)[row]);
        result = kernels::Cast<T>(sum);
      }
    }
  }
}

// A CUDA graph's stand-in: what kernels do, each time.
class EmulatedSequence : public Sequence {
 public:
  explicit EmulatedSequence(std::vector<std::function<void()>> kernels)
      : kernels_(std::move(kernels)) {}

  absl::Status Repeat() override {
    for (const auto& kernel : kernels_) kernel();
    return absl::OkStatus();
  }

 private:
  const std::vector<std::function<void()>> kernels_;
};

class EmulatedStream : public KernelStream {
 public:
  EmulatedStream(Device* device, bool libraries) : device_(device), libraries_(libraries) {}

  Device& device() override { return *device_; }
  absl::Status CopyIn(void* dst, const void* src, size_t bytes) override {
    if (captures_) return InSequence("copy");
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyOut(void* dst, const void* src, size_t bytes) override {
    CHX_RETURN_IF_ERROR(Synchronize());
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return absl::OkStatus();
  }
  absl::Status Zero(void* dst, size_t bytes) override {
    if (bytes > 0) Emulate([=] { std::memset(dst, 0, bytes); });
    return absl::OkStatus();
  }
  absl::Status Synchronize() override {
    if (captures_) return InSequence("wait");
    // A device that a test wants to be lost.
    const char* const loss = std::getenv("CHX_EMULATED_LOSS");
    if (loss == nullptr || access(loss, F_OK) != 0) return absl::OkStatus();
    const absl::Status why = DeviceError("cuda: synchronize: lost for a test");
    device_->health().Lose(why);
    return why;
  }
  void* handle() override { return nullptr; }
  absl::Status Launched() override { return absl::OkStatus(); }
  Finding* finding() override { return &finding_; }
  absl::optional<LateError> TakeLateError() override { return TakeFinding(&finding_); }
  bool MakeRoom() override { return false; }
  absl::Status Outcome(absl::string_view, int) override { return absl::OkStatus(); }
  // So few that tests have kernels of several launches.
  int64_t max_launch_elements() const override { return 4096; }
  absl::StatusOr<bool> IsDone() override { return true; }
  absl::Status Pause() override {
    return captures_ ? InSequence("wait") : CheckNotStopped("pause");
  }
  void Emulate(const std::function<void()>& kernel) override {
    if (captures_) {
      captured_.push_back(kernel);
    } else {
      kernel();
    }
  }
  absl::StatusOr<std::unique_ptr<Sequence>> Capture(
      absl::FunctionRef<absl::Status()> queue) override {
    captures_ = true;
    const absl::Status status = queue();
    captures_ = false;
    auto sequence = std::make_unique<EmulatedSequence>(std::exchange(captured_, {}));
    if (!status.ok()) return status;
    CHX_RETURN_IF_ERROR(sequence->Repeat());
    return std::unique_ptr<Sequence>(std::move(sequence));
  }
  absl::Status Gemm(const KernelArgs&, const GemmCall& call) override {
    // What cuBLAS refuses.
    const int64_t a_lines = call.transpose_a ? call.k : call.m;
    const int64_t b_lines = call.transpose_b ? call.n : call.k;
    if (call.m < 0 || call.n < 0 || call.k < 0 || call.count < 0 ||
        call.lda < std::max<int64_t>(1, a_lines) || call.ldb < std::max<int64_t>(1, b_lines) ||
        call.ldc < std::max<int64_t>(1, call.m)) {
      return DeviceError("invalid argument of a BLAS call");
    }
    Emulate([call] {
      kernels::VisitFloat(call.dtype,
                          [&](auto tag) { ReferenceGemm<typename decltype(tag)::Type>(call); });
    });
    return absl::OkStatus();
  }

  absl::StatusOr<bool> GemmWithBias(const KernelArgs& args, const GemmCall& call) override {
    if (!libraries_) return false;
    CHX_RETURN_IF_ERROR(Gemm(args, call));
    return true;
  }

  Dnn* dnn() override { return libraries_ && settings().use_cudnn && !captures_ ? &dnn_ : nullptr; }
  Solver* solver() override { return libraries_ && !captures_ ? &solver_ : nullptr; }

 private:
  static absl::Status InSequence(absl::string_view what) {
    return absl::UnimplementedError(absl::StrCat("cuda: no ", what, " within a sequence"));
  }

  Device* const device_;
  const bool libraries_;
  EmulatedDnn dnn_;
  EmulatedSolver solver_;
  Finding finding_;
  bool captures_ = false;
  std::vector<std::function<void()>> captured_;
};

class EmulatedDevice : public Device {
 public:
  EmulatedDevice(std::string name, bool libraries)
      : name_(std::move(name)), libraries_(libraries) {}

  const std::string& name() const override { return name_; }
  size_t memory_bytes() const override { return size_t{1} << 30; }
  bool has_sequences() const override { return true; }
  bool has_late_errors() const override { return true; }
  const KernelTable& kernels() const override { return kernels_; }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override {
    return std::unique_ptr<Stream>(std::make_unique<EmulatedStream>(this, libraries_));
  }
  absl::StatusOr<void*> AllocateSlab(size_t bytes) override {
    const size_t rounded = (bytes + 256) / 256 * 256;
    void* const slab = std::aligned_alloc(256, rounded);
    if (slab == nullptr) return MemoryError("no ", bytes, " bytes are left");
    std::memset(slab, 0, rounded);
    return slab;
  }
  void FreeSlab(void* slab, size_t) override { std::free(slab); }

 private:
  const std::string name_;
  const bool libraries_;
  const KernelTable kernels_ = AllKernels();
};

class EmulatedBackend : public Backend {
 public:
  EmulatedBackend(std::string name, bool libraries)
      : name_(std::move(name)), libraries_(libraries) {}

  const std::string& name() const override { return name_; }
  int device_count() const override { return 1; }
  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(int) override {
    return std::unique_ptr<Device>(std::make_unique<EmulatedDevice>(name_ + ":0", libraries_));
  }

 private:
  const std::string name_;
  const bool libraries_;
};

}  // namespace

std::unique_ptr<Backend> NewEmulatedBackend(const std::string& name, bool libraries) {
  return std::make_unique<EmulatedBackend>(name, libraries);
}

}  // namespace chx::server::cuda
