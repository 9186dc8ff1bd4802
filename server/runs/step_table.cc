#include "server/runs/step_table.h"

#include <algorithm>

#include "ops/error.h"

namespace chx::server {
namespace {

constexpr int64_t kBlockNumbers = 4096;
constexpr auto kNumberBytes = static_cast<int64_t>(sizeof(int64_t));

int64_t RowsAtOnce(int64_t columns) { return std::max<int64_t>(1, kBlockNumbers / columns); }

}  // namespace

int64_t StepTable::BlockBytes(int64_t columns) {
  return columns == 0 ? 0 : RowsAtOnce(columns) * columns * kNumberBytes;
}

absl::StatusOr<absl::Span<const int64_t>> StepTable::Row(int64_t row, Session* session) {
  if (columns_ == 0) return absl::Span<const int64_t>();
  const auto size = static_cast<int64_t>(block_.size());
  if (row < begin_ || (row - begin_) * columns_ >= size) {
    const int64_t count = std::min(RowsAtOnce(columns_), rows_ - row);
    block_.resize(static_cast<size_t>(count * columns_));
    begin_ = row;
    absl::Status status;
    session->Inspect([&](SessionState& state) {
      state.executor.EndUses();
      const HandleTable::Entry* const entry = state.handles.Find(handle_);
      // Whatever has become of it.
      status = entry == nullptr || entry->error != nullptr ||
                       entry->variable.array.spec.shape != Shape({rows_, columns_})
                   ? ValueError("[runs] expects the numbers of its steps, which are gone")
                   : state.executor.CopyOut(entry->variable.array, row * columns_ * kNumberBytes,
                                            count * columns_ * kNumberBytes,
                                            reinterpret_cast<char*>(block_.data()));
    });
    if (!status.ok()) block_.clear();
    CHX_RETURN_IF_ERROR(status);
  }
  return absl::MakeConstSpan(block_).subspan(static_cast<size_t>((row - begin_) * columns_),
                                             static_cast<size_t>(columns_));
}

}  // namespace chx::server
