#include "server/native/vendor/dnnl_conv_plans.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "server/native/vendor/dnnl_plan_cache.h"

namespace chx::server::native {
namespace {

using kernels::Windows;
using Sizes = absl::InlinedVector<int64_t, 5>;

Sizes WithSpatialSizes(int64_t first, int64_t second, const int64_t* spatial, int ndim) {
  Sizes sizes = {first, second};
  sizes.insert(sizes.end(), spatial, spatial + ndim);
  return sizes;
}

// Of an array of these sizes that is a part, along its first two dimensions, of one with `channels`
// in the second.
Sizes StridesWithin(const Sizes& sizes, int64_t channels) {
  Sizes strides(sizes.size(), 1);
  for (int d = static_cast<int>(sizes.size()) - 1; d > 0; --d) {
    strides[d - 1] = strides[d] * (d == 1 ? channels : sizes[d]);
  }
  return strides;
}

bool MakeSide(const Sizes& sizes, int64_t channels, const DnnlDesc& inner, bool is_output,
              dnnl_data_type_t dtype, ConvSide* side) {
  side->plain = DnnlStrided(sizes, StridesWithin(sizes, channels), dtype);
  side->inner = inner;
  if (SameLayout(side->plain, inner)) return true;
  side->reorder = is_output ? DnnlPrimitive::Reorder(inner, side->plain)
                            : DnnlPrimitive::Reorder(side->plain, inner);
  return static_cast<bool>(side->reorder);
}

// Null if oneDNN does not support it.
std::shared_ptr<const ConvPlan> MakePlan(const ConvShape& shape, const ConvPiece& piece,
                                         bool biased) {
  const Windows& w = shape.windows;
  const Sizes image = WithSpatialSizes(piece.samples, piece.channels, w.image, w.ndim);
  Sizes weight = WithSpatialSizes(piece.features / piece.groups, piece.channels / piece.groups,
                                  w.kernel, w.ndim);
  int64_t weight_channels = shape.channels;
  if (shape.groups > 1) {
    weight_channels = weight[0];
    weight.insert(weight.begin(), piece.groups);
  }
  const Sizes features = WithSpatialSizes(piece.samples, piece.features, w.counts, w.ndim);
  Sizes before;
  Sizes after;
  for (int d = 0; d < w.ndim; ++d) {
    before.push_back(w.pad[d]);
    const int64_t end = (w.counts[d] - 1) * w.stride[d] + shape.extent(d);
    after.push_back(std::max<int64_t>(0, end - w.image[d] - w.pad[d]));
  }
  const dnnl_data_type_t dtype = shape.bfloat16 ? dnnl_bf16 : dnnl_f32;
  const DnnlDesc x = DnnlAnyLayout(image, dtype);
  const DnnlDesc k = DnnlAnyLayout(weight, dtype);
  const DnnlDesc y = DnnlAnyLayout(features, dtype);
  auto plan = std::make_shared<ConvPlan>();
  plan->bias = DnnlStrided({piece.features}, {1}, dtype);
  dnnl_convolution_desc_t op;
  if (Dnnl()->dnnl_dilated_convolution_forward_desc_init(
          &op, dnnl_forward_training, dnnl_convolution_direct, &x, &k,
          biased ? &plan->bias : nullptr, &y, w.stride, shape.gaps, before.data(),
          after.data()) != dnnl_success) {
    return nullptr;
  }
  // Otherwise our own products of matrices are as fast.
  const bool by_gemm = !shape.is_plain();
  DnnlPrimitive forward = DnnlPrimitive::Create(&op, nullptr, by_gemm);
  if (!forward) return nullptr;
  dnnl_query_t of_image = dnnl_query_src_md;
  dnnl_query_t of_weight = dnnl_query_weights_md;
  dnnl_query_t of_features = dnnl_query_dst_md;
  if (shape.kind == ConvKind::kForward) {
    plan->convolution = std::move(forward);
  } else {
    of_features = dnnl_query_diff_dst_md;
    dnnl_status_t status;
    if (shape.kind == ConvKind::kImage) {
      of_image = dnnl_query_diff_src_md;
      status = Dnnl()->dnnl_dilated_convolution_backward_data_desc_init(
          &op, dnnl_convolution_direct, &x, &k, &y, w.stride, shape.gaps, before.data(),
          after.data());
    } else {
      of_weight = dnnl_query_diff_weights_md;
      const DnnlDesc sums = DnnlAnyLayout(weight);  // of several pieces
      status = Dnnl()->dnnl_dilated_convolution_backward_weights_desc_init(
          &op, dnnl_convolution_direct, &x, &sums, nullptr, &y, w.stride, shape.gaps, before.data(),
          after.data());
    }
    if (status != dnnl_success) return nullptr;
    plan->convolution = DnnlPrimitive::Create(&op, &forward, by_gemm);
    if (!plan->convolution) return nullptr;
  }
  const DnnlPrimitive& made = plan->convolution;
  plan->scratchpad = made.desc(dnnl_query_scratchpad_md);
  const ConvKind kind = shape.kind;
  if (!MakeSide(image, shape.channels, made.desc(of_image), kind == ConvKind::kImage, dtype,
                &plan->image) ||
      !MakeSide(weight, weight_channels, made.desc(of_weight), kind == ConvKind::kWeight, dtype,
                &plan->weight) ||
      !MakeSide(features, shape.features, made.desc(of_features), kind == ConvKind::kForward, dtype,
                &plan->features)) {
    return nullptr;
  }
  return plan;
}

DnnlPlanCache<ConvPlan>& Plans() {
  static auto* const cache = new DnnlPlanCache<ConvPlan>;
  return *cache;
}

}  // namespace

std::shared_ptr<const ConvPlan> PlanOf(const ConvShape& shape, const ConvPiece& piece,
                                       bool biased) {
  const Windows& w = shape.windows;
  DnnlPlanCache<ConvPlan>::Key key = {static_cast<int64_t>(shape.kind),
                                      shape.bfloat16,
                                      biased,
                                      shape.channels,
                                      shape.features,
                                      shape.groups,
                                      piece.samples,
                                      piece.channels,
                                      piece.features};
  for (int d = 0; d < w.ndim; ++d) {
    for (const int64_t* sizes : {w.image, w.counts, w.kernel, w.stride, w.pad, shape.gaps}) {
      key.push_back(sizes[d]);
    }
  }
  return Plans().Get(key, [&] { return MakePlan(shape, piece, biased); });
}

}  // namespace chx::server::native
