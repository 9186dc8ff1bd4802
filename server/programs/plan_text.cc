// What a plan says about itself.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/programs/plan.h"

namespace chx::server {
namespace {

constexpr size_t kMaxTensors = 12;  // of a call: operators over lists have thousands

std::string TextOf(const KernelTensor& tensor) {
  if (tensor.is_scalar) return tensor.scalar.ToString();
  if (!tensor.present) return "None";
  Shape shape = tensor.shape;
  for (int d = 0; d < shape.size(); ++d) {
    if (tensor.strides[d] == 0 && shape[d] > 1) shape[d] = 1;  // it is broadcast
  }
  return absl::StrCat(DtypeName(tensor.dtype), shape.ToString());
}

template <typename Tensors>
std::string TextOfAll(const Tensors& tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i == kMaxTensors) return absl::StrCat(text, ", and ", tensors.size() - i, " more");
    absl::StrAppend(&text, i == 0 ? "" : ", ", TextOf(tensors[i]));
  }
  return text;
}

}  // namespace

void Plan::Describe(size_t most, std::string* text) const {
  absl::StrAppend(text, "plan\t", calls_.size(), "\t", measured_runs_, "\n");
  for (size_t i = 0; i < arena_bytes_.size(); ++i) {
    if (arena_bytes_[i] > 0) absl::StrAppend(text, "arena\t", i, "\t", arena_bytes_[i], "\n");
  }
  int64_t result_bytes = 0;
  for (const Object& object : objects_) {
    if (object.traced.kind == Kind::kResult) result_bytes += object.traced.bytes;
  }
  absl::StrAppend(text, "results\t", result_bytes, "\n");
  size_t steps = 0;
  int64_t repeats = 0;
  for (const Sequences* each : {&sequences_, &equal_sequences_, &whole_sequences_}) {
    if (steps == 0 || each->repeats() > 0) steps = each->steps();
    repeats += each->repeats();
  }
  if (steps > 0) absl::StrAppend(text, "sequences\t", steps, "\t", repeats, "\n");
  const auto beside = std::count_if(steps_.begin(), steps_.end(),
                                    [](const Step& step) { return step.beside_until > 0; });
  if (beside > 0) absl::StrAppend(text, "beside\t", beside, "\n");
  size_t described = 0;  // steps
  for (; described < steps_.size() && text->size() < most; ++described) {
    const Step& step = steps_[described];
    absl::StrAppend(text, "step\t", step.nanoseconds, "\t",
                    step.fused != nullptr ? step.fused->block_elements() : 0, "\n");
    for (size_t i = 0; i < step.calls.count; ++i) {
      const TraceCall& call = calls_[step.calls.first + i];
      const auto kernels = call.fused.empty() ? absl::MakeConstSpan(&call.kernel, 1)
                                              : absl::MakeConstSpan(call.fused);
      for (const PreparedKernel& kernel : kernels) {
        absl::StrAppend(text, "call\t", kernel.op->name, "\t", TextOfAll(kernel.inputs), "\t",
                        TextOfAll(kernel.outputs), "\n");
      }
    }
  }
  if (described < steps_.size()) {
    absl::StrAppend(text, "more\t", steps_.size() - described, "\n");
  }
  const auto list = [&](absl::string_view what, const std::vector<const OpDef*>& ops) {
    for (const OpDef* op : ops) {
      if (text->size() < most) absl::StrAppend(text, what, "\t", op->name, "\n");
    }
  };
  list("shared", shared_);
  list("dropped", dropped_);
}

}  // namespace chx::server
