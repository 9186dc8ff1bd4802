#include "server/autograd/gradient_reducer.h"

#include <utility>

#include "ops/error.h"

namespace chx::server {

GradientReducer::GradientReducer(Runtime& runtime, std::vector<Ref<ArrayNode>> parameters,
                                 ReductionOptions options)
    : runtime_(runtime),
      parameters_(std::move(parameters)),
      options_(std::move(options)),
      bucket_of_(parameters_.size()),
      grads_(parameters_.size()),
      complete_(parameters_.size()) {
  int64_t bytes = options_.bucket_bytes;
  for (size_t i = parameters_.size(); i-- > 0;) {
    if (bytes >= options_.bucket_bytes) {
      buckets_.emplace_back();
      bytes = 0;
    }
    const ArraySpec& spec = parameters_[i]->spec;
    bytes += NumElements(spec.shape) * ItemSize(options_.dtype.value_or(spec.dtype));
    Bucket& bucket = buckets_.back();
    bucket.parameters.push_back(i);
    ++bucket.missing;
    bucket_of_[i] = buckets_.size() - 1;
  }
}

GradientReducer::~GradientReducer() {
  if (!waited_) {
    runtime_.executor.BreakGroup(options_.attrs, "has not finished a backward pass");
  }
}

absl::Status GradientReducer::Complete(size_t number, const Variable& grad) {
  grads_[number] = grad.array;
  complete_[number] = true;
  --buckets_[bucket_of_[number]].missing;
  return StartReady();
}

absl::Status GradientReducer::StartReady() {
  for (; started_ < buckets_.size() && buckets_[started_].missing == 0; ++started_) {
    Bucket& bucket = buckets_[started_];
    std::vector<Array> grads;
    for (const size_t i : bucket.parameters) grads.push_back(std::exchange(grads_[i], Array()));
    CHX_ASSIGN_OR_RETURN(bucket.pending,
                         runtime_.executor.StartReduction(grads, options_.dtype, options_.attrs,
                                                          options_.delayed || options_.may_call));
  }
  return absl::OkStatus();
}

absl::Status GradientReducer::StartRest(BackwardPass* pass) {
  for (size_t i = parameters_.size(); i-- > 0;) {
    if (complete_[i]) continue;
    if (const Variable* const grad = pass->Find(parameters_[i].get())) {
      CHX_RETURN_IF_ERROR(Complete(i, *grad));
      continue;
    }
    CHX_ASSIGN_OR_RETURN(const Variable zeros, pass->Full(parameters_[i]->spec, 0));
    CHX_RETURN_IF_ERROR(Complete(i, zeros));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Variable>> GradientReducer::Wait() {
  std::vector<Variable> reduced(parameters_.size());
  for (Bucket& bucket : buckets_) {
    CHX_ASSIGN_OR_RETURN(std::vector<Array> arrays,
                         runtime_.executor.FinishReduction(std::move(bucket.pending)));
    for (size_t k = 0; k < arrays.size(); ++k) {
      reduced[bucket.parameters[k]].array = std::move(arrays[k]);
    }
  }
  waited_ = true;
  return reduced;
}

}  // namespace chx::server
