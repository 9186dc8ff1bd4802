#include "server/collectives/work_list.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "ops/error.h"
#include "server/collectives/reduction.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

// Of one part: small enough for the cache of a core, with the ranks' elements one by one.
constexpr int64_t kPartBytes = 256 << 10;

int64_t BytesOf(Dtype dtype, int64_t count) { return count * ItemSize(dtype); }

}  // namespace

WorkList::WorkList(std::vector<const CollectiveCall*> calls)
    : calls_(std::move(calls)),
      pattern_(*calls_[0]->op.pattern),
      root_(RootOf(calls_[0]->op, calls_[0]->attrs)),
      reduction_(ReductionOf(calls_[0]->op, calls_[0]->attrs)) {
  const auto num_ranks = static_cast<int>(calls_.size());
  const auto& common = pattern_.by_output ? calls_[0]->outputs : calls_[0]->inputs;
  for (const KernelTensor& tensor : common) {
    Item item;
    item.first = size_;
    item.dtype = tensor.dtype;
    item.block = pattern_.has_rows ? tensor.size() / num_ranks : tensor.size();
    item.parts = (BytesOf(item.dtype, item.block) + kPartBytes - 1) / kPartBytes;
    size_ += item.parts * pattern_.count(num_ranks);
    items_.push_back(item);
  }
}

WorkList::Part WorkList::PartAt(int64_t number) const {
  const auto after =
      std::upper_bound(items_.begin(), items_.end(), number,
                       [](int64_t value, const Item& item) { return value < item.first; });
  const Item& item = *(after - 1);
  const int64_t elements = kPartBytes / ItemSize(item.dtype);
  Part part;
  part.array = static_cast<size_t>(after - 1 - items_.begin());
  part.move =
      pattern_.move((number - item.first) / item.parts, static_cast<int>(calls_.size()), root_);
  part.begin = (number - item.first) % item.parts * elements;
  part.count = std::min(elements, item.block - part.begin);
  return part;
}

char* WorkList::In(const Part& part, int rank) const {
  const Item& item = items_[part.array];
  return calls_[rank]->inputs[part.array].data +
         BytesOf(item.dtype, part.move.from_block * item.block + part.begin);
}

char* WorkList::Out(const Part& part, int rank) const {
  const Item& item = items_[part.array];
  return calls_[rank]->outputs[part.array].data +
         BytesOf(item.dtype, part.move.to_block * item.block + part.begin);
}

absl::Status WorkList::Reduce(const Part& part, char* result, HostKernels kernels) const {
  const Dtype dtype = items_[part.array].dtype;
  const auto num_ranks = static_cast<int>(calls_.size());
  absl::InlinedVector<char*, 16> inputs;
  for (int rank = 0; rank < num_ranks; ++rank) inputs.push_back(In(part, rank));
  CHX_RETURN_IF_ERROR(ReduceElements(reduction_, dtype, part.count, inputs, result, kernels));
  return FinishReduction(reduction_, dtype, part.count, num_ranks, result, kernels);
}

absl::Status WorkList::Run(const Part& part, HostKernels kernels) const {
  const CollectiveMove& move = part.move;
  const bool to_all = move.to == CollectiveMove::kEvery;
  const int first = to_all ? 0 : move.to;
  const int last = to_all ? static_cast<int>(calls_.size()) - 1 : move.to;
  const char* elements = nullptr;
  if (move.from == CollectiveMove::kEvery) {
    char* const result = Out(part, first);
    CHX_RETURN_IF_ERROR(Reduce(part, result, kernels));
    elements = result;
  } else {
    elements = In(part, move.from);
  }
  const auto bytes = static_cast<size_t>(BytesOf(items_[part.array].dtype, part.count));
  for (int rank = first; rank <= last; ++rank) {
    char* const out = Out(part, rank);
    if (out != elements) std::memcpy(out, elements, bytes);
  }
  return absl::OkStatus();
}

absl::Status WorkList::Work(HostKernels kernels, int64_t* taken) {
  *taken = 0;
  while (!stopped_.load(std::memory_order_relaxed)) {
    const int64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    if (number >= size_) break;
    absl::Status status = CheckNotStopped(calls_[0]->op.name);
    if (status.ok()) status = Run(PartAt(number), kernels);
    if (!status.ok()) {
      Stop();
      return status;
    }
    ++*taken;
  }
  return absl::OkStatus();
}

}  // namespace chx::server
