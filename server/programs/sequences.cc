#include "server/programs/sequences.h"

#include <algorithm>

namespace chx::server {

bool Sequences::Start(const Executor& executor, const std::vector<char*>& addresses,
                      absl::Span<const int64_t> numbers) {
  now_ = nullptr;
  if (parts_.empty()) return false;
  ++runs_;
  const auto is_it = [&](const Set& set) {
    return set.addresses == addresses && absl::MakeConstSpan(set.numbers) == numbers &&
           set.configured == executor.configured();
  };
  auto found = std::find_if(sets_.begin(), sets_.end(), is_it);
  if (found != sets_.end()) {
    found->again = true;
  } else {
    if (captures_ >= kMostCaptures) return false;
    if (sets_.size() == kMostSets) {
      sets_.erase(std::min_element(sets_.begin(), sets_.end(),
                                   [](const Set& a, const Set& b) { return a.used < b.used; }));
    }
    Set& set = sets_.emplace_back();
    set.addresses = addresses;
    set.numbers.assign(numbers.begin(), numbers.end());
    set.configured = executor.configured();
    set.sequences.resize(parts_.size());
    found = sets_.end() - 1;
  }
  found->used = runs_;
  now_ = &*found;
  const auto& made = found->sequences;
  return found->again &&
         (captures_ < kMostCaptures || std::find(made.begin(), made.end(), nullptr) == made.end());
}

size_t Sequences::steps() const {
  size_t steps = 0;
  for (const Part& part : parts_) steps += part.end - part.begin;
  return steps;
}

const Sequences::Part* Sequences::At(size_t step) const {
  if (now_ == nullptr || !now_->again) return nullptr;
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [step](const Part& each) { return each.begin == step; });
  return part == parts_.end() ? nullptr : &*part;
}

absl::StatusOr<bool> Sequences::Run(Executor& executor, const Part& part,
                                    absl::FunctionRef<absl::Status()> run) {
  const size_t number = &part - parts_.data();
  std::unique_ptr<Sequence>& sequence = now_->sequences[number];
  if (sequence != nullptr) {
    ++repeats_;
    CHX_RETURN_IF_ERROR(executor.Repeat(part.device, sequence.get(), part.kernels));
    return true;
  }
  if (captures_ >= kMostCaptures) return false;
  ++captures_;
  absl::StatusOr<std::unique_ptr<Sequence>> captured = executor.Capture(part.device, run);
  if (captured.ok()) {
    sequence = *std::move(captured);
    return true;
  }
  if (!absl::IsUnimplemented(captured.status())) return captured.status();
  // One of its kernels cannot be in a sequence.
  parts_.erase(parts_.begin() + static_cast<int64_t>(number));
  for (Set& set : sets_) set.sequences.erase(set.sequences.begin() + static_cast<int64_t>(number));
  return false;
}

}  // namespace chx::server
