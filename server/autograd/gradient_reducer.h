// Gradients that the ranks of a group reduce while their backward passes go on.
#ifndef CHX_SERVER_AUTOGRAD_GRADIENT_REDUCER_H_
#define CHX_SERVER_AUTOGRAD_GRADIENT_REDUCER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "server/autograd/backward_pass.h"
#include "server/engine/memory_budget.h"
#include "server/engine/pending_reduction.h"

namespace chx::server {

struct ReductionOptions {
  Attrs attrs;                  // of all_reduce
  absl::optional<Dtype> dtype;  // that gradients are exchanged in; none: their own
  int64_t bucket_bytes = 1;     // a bucket is full when it has as many
  uint64_t reducer = 0;         // the client's number for it
  bool delayed = false;         // its end is waited for at the end of the next pass
  bool may_call = false;        // the pass may call functions of the client
  double loss_scale = 1.0;      // of the pass
  MemoryCharge charge;          // of BytesOf
};

// Arrays are reduced in buckets, one command of all ranks each. Passes come to the last parameters
// first, so the buckets are of parameters from the last one to the first; all ranks begin them in
// this order, each as soon as its gradients are complete. Dropped before Wait it breaks the group.
class GradientReducer final : public GradientSink {
 public:
  GradientReducer(Runtime& runtime, std::vector<Ref<ArrayNode>> parameters,
                  ReductionOptions options);
  ~GradientReducer();

  // What a reducer of so many parameters takes, beside arrays.
  static int64_t BytesOf(size_t parameters) { return static_cast<int64_t>(4096 * parameters); }
  int64_t group() const { return options_.attrs[0].ints()[0]; }
  absl::Span<const Ref<ArrayNode>> parameters() const { return parameters_; }
  uint64_t number() const { return options_.reducer; }
  double loss_scale() const { return options_.loss_scale; }
  bool delayed() const { return options_.delayed; }
  absl::Status Complete(size_t number, const Variable& grad) override;
  // At the end of the pass: begins what it has not begun. Without a gradient there are zeros.
  absl::Status StartRest(BackwardPass* pass);
  // The reduced gradients, by parameter.
  absl::StatusOr<std::vector<Variable>> Wait();

 private:
  struct Bucket {
    std::vector<size_t> parameters;
    size_t missing = 0;  // gradients
    std::unique_ptr<PendingReduction> pending;
  };

  absl::Status StartReady();

  Runtime runtime_;
  const std::vector<Ref<ArrayNode>> parameters_;
  const ReductionOptions options_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  // by parameter
  std::vector<Array> grads_;       // by parameter; none: not there yet, or being reduced
  std::vector<bool> complete_;
  size_t started_ = 0;  // buckets
  bool waited_ = false;
};

}  // namespace chx::server

#endif  // CHX_SERVER_AUTOGRAD_GRADIENT_REDUCER_H_
