// The labels of losses of classes.
#ifndef CHX_SERVER_NATIVE_KERNELS_CLASS_LABELS_H_
#define CHX_SERVER_NATIVE_KERNELS_CLASS_LABELS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/engine/kernel.h"
#include "server/engine/stop_token.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {

inline constexpr int64_t kIgnored = -1;

// Dense int64 labels, each a class or kIgnored.
inline absl::StatusOr<const int64_t*> CheckedLabels(const KernelArgs& args,
                                                    const KernelTensor& labels, int64_t classes) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, labels, Dtype::kInt64));
  const int64_t* const data = reinterpret_cast<const int64_t*>(dense.data);
  StopWatch watch;
  for (int64_t i = 0; i < labels.size(); ++i) {
    if (watch.After(1)) break;
    if (data[i] != kIgnored && (data[i] < 0 || data[i] >= classes)) {
      return IndexError("[", args.op.name, "] expects labels below ", classes,
                        " or -1 to ignore a sample, got ", data[i]);
    }
  }
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));  // otherwise not all labels have been checked
  return data;
}

// Of rows of so many classes.
inline int64_t RowGrain(int64_t classes) {
  // Because of exp, an element costs about as much as 4 cheap ones.
  return std::max<int64_t>(1, kGrain / 4 / std::max<int64_t>(1, classes));
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_CLASS_LABELS_H_
