// How a convolution is computed as products of matrices, block by block.
#ifndef CHX_SERVER_KERNELS_CONV_PLAN_H_
#define CHX_SERVER_KERNELS_CONV_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/engine/kernel.h"
#include "server/kernels/windows.h"

namespace chx::server::kernels {

// Relates an image (samples, channels, spatial...), a weight (features, channels, kernel...) and
// features (samples, features, counts...). The elements of a sample's windows are the columns of a
// matrix (im2col). A block is this matrix for some samples, or for some rows of windows of one
// sample. Immutable.
class ConvPlan {
 public:
  // Blocks have about `block_bytes`. `max_dim` is the largest dimension of a matrix. A kMemory
  // error if there are too many elements.
  static absl::StatusOr<ConvPlan> Make(const KernelArgs& args, Dtype dtype, const Windows& windows,
                                       int64_t samples, int64_t channels, int64_t features,
                                       int64_t block_bytes, int64_t max_dim) {
    ConvPlan plan;
    plan.windows_ = windows;
    plan.samples_ = samples;
    plan.channels_ = channels;
    plan.features_ = features;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(channels, windows.kernel_size, &plan.rows_) ||
        __builtin_mul_overflow(plan.rows_, windows.count, &bytes) ||
        __builtin_mul_overflow(bytes, ItemSize(dtype), &bytes) ||
        std::max({plan.rows_, features, windows.count}) > max_dim) {
      return MemoryError("[", args.op.name, "] out of memory: expects smaller images or kernels");
    }
    plan.samples_per_block_ = samples;
    plan.rows_per_block_ = windows.counts[0];
    if (windows.IsIdentity() || plan.rows_ == 0) return plan;
    bytes = std::max<int64_t>(1, bytes);
    plan.samples_per_block_ = std::min(samples, std::max<int64_t>(1, block_bytes / bytes));
    const int64_t row_bytes = std::max<int64_t>(1, bytes / plan.rows_per_block_);
    plan.rows_per_block_ =
        std::min(plan.rows_per_block_, std::max<int64_t>(1, block_bytes / row_bytes));
    plan.scratch_bytes_ =
        std::max<int64_t>(1, plan.samples_per_block_ * plan.rows_per_block_ * row_bytes);
    return plan;
  }

  const Windows& windows() const { return windows_; }
  int64_t channels() const { return channels_; }
  int64_t features() const { return features_; }
  // Rows of a sample's matrix.
  int64_t rows() const { return rows_; }
  // For the matrix of one block; 0 if the image is that matrix as it is.
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // Elements of the image before a sample.
  int64_t ImageAt(int64_t sample) const { return sample * channels_ * windows_.image_size; }
  // Elements of the features before a row of windows of a sample's first feature.
  int64_t FeaturesAt(int64_t sample, int64_t row) const {
    return sample * features_ * windows_.count + row * (windows_.count / windows_.counts[0]);
  }

  // Calls fn(windows, row, first, count), which returns a Status, for each block: the rows of
  // windows from `row` on of `count` samples from `first` on.
  template <typename Fn>
  absl::Status ForBlocks(Fn&& fn) const {
    for (int64_t first = 0; first < samples_; first += samples_per_block_) {
      for (int64_t row = 0; row < windows_.counts[0]; row += rows_per_block_) {
        CHX_RETURN_IF_ERROR(
            fn(windows_.Rows(row, std::min(rows_per_block_, windows_.counts[0] - row)), row, first,
               std::min(samples_per_block_, samples_ - first)));
      }
    }
    return absl::OkStatus();
  }

 private:
  ConvPlan() = default;

  Windows windows_;
  int64_t samples_ = 0;
  int64_t channels_ = 0;
  int64_t features_ = 0;
  int64_t rows_ = 0;
  int64_t samples_per_block_ = 0;
  int64_t rows_per_block_ = 0;
  int64_t scratch_bytes_ = 0;
};

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_CONV_PLAN_H_
