// Arrays that the ranks of a group reduce while the session's thread goes on.
#ifndef CHX_SERVER_ENGINE_PENDING_REDUCTION_H_
#define CHX_SERVER_ENGINE_PENDING_REDUCTION_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/attr.h"
#include "server/engine/array.h"
#include "server/engine/backend.h"
#include "server/engine/collectives.h"
#include "server/engine/kernel.h"

namespace chx::server {

// From Executor::StartReduction to FinishReduction; the session's thread has it. Dropped before its
// end it breaks the group.
class PendingReduction {
 public:
  ~PendingReduction();
  PendingReduction(const PendingReduction&) = delete;
  PendingReduction& operator=(const PendingReduction&) = delete;

 private:
  friend class Executor;
  explicit PendingReduction(absl::Span<const AttrValue> attrs)
      : attrs_(attrs.begin(), attrs.end()) {}
  // Of one device, in whose memory they stay.
  void AddInput(Array array);
  void AddOutput(Array array);

  const std::vector<AttrValue> attrs_;
  std::vector<ArraySpec> wanted_;  // of the results
  std::vector<Array> inputs_;
  std::vector<Array> outputs_;
  std::vector<KernelTensor> in_;
  std::vector<KernelTensor> out_;
  std::unique_ptr<StartedCollective> started_;  // null: it is over
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_PENDING_REDUCTION_H_
