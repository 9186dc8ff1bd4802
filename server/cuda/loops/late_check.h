// Checks of values that lie in device memory, such as indices, for which nobody waits: who waits
// for the stream later finds what was wrong.
#ifndef CHX_SERVER_CUDA_LOOPS_LATE_CHECK_H_
#define CHX_SERVER_CUDA_LOOPS_LATE_CHECK_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/kernels/host_device.h"

namespace chx::server::cuda {

// What a kernel has found: the first of a stream's kernels, and any one of its values. Plain data,
// in memory of the host that kernels can write to.
struct Finding {
  enum class Kind : uint32_t { kNone = 0, kIndex, kLabel };

  Kind kind = Kind::kNone;
  uint32_t op = 0;  // OpId
  uint32_t origin = 0;
  int64_t value = 0;
  int64_t limit = 0;  // below it, values are right
};

// Part of a kernel's body, which calls Report for a value that is wrong and goes on as if its
// element were not there.
class LateCheck {
 public:
  LateCheck() = default;
  LateCheck(const KernelArgs& args, Finding::Kind kind, int64_t limit)
      : finding_(StreamOf(args).finding()) {
    found_.kind = kind;
    found_.op = args.op.id;
    found_.origin = args.stream.origin();
    found_.limit = limit;
  }

  // On the device, by any thread. Threads that come here at once are of one kernel, as a stream's
  // kernels run one after the other, so they write the same but for the value.
  CHX_HD void Report(int64_t value) const {
    volatile Finding* const finding = finding_;
    if (finding->kind != Finding::Kind::kNone) return;
    finding->op = found_.op;
    finding->origin = found_.origin;
    finding->limit = found_.limit;
    finding->value = value;
    finding->kind = found_.kind;
  }

 private:
  Finding* finding_ = nullptr;
  Finding found_;
};

// After a wait for the stream: what has been found, which is forgotten.
absl::optional<LateError> TakeFinding(Finding* finding);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_LATE_CHECK_H_
