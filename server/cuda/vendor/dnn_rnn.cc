#include "server/cuda/vendor/dnn_rnn.h"

#include <algorithm>

namespace chx::server::cuda {
namespace {

// As many sequences, and as large a network, as make sense; products of two of these are far from
// an overflow.
constexpr int64_t kMaxBatch = 1 << 20;
constexpr int64_t kMaxCount = INT32_MAX;

// Elements that all gates of all steps have in one part.
int64_t GateElements(const RnnNetwork& network) {
  return network.total_rows() * network.gates() * network.hidden;
}

}  // namespace

absl::optional<RnnCall> PlanRnn(const RnnNetwork& network, Dtype dtype, bool gradient) {
  const int64_t rows = network.total_rows();
  const int64_t hidden = network.hidden;
  const int64_t input = network.input;
  if (network.num_steps() == 0 || network.rows[0] != network.batch || network.batch > kMaxBatch ||
      hidden < 1 || input < 1) {
    return absl::nullopt;
  }
  for (const int64_t size : {rows, hidden, input}) {
    if (size > kMaxCount) return absl::nullopt;
  }
  // All factors are ints, and both sides of each comparison are below 2^63.
  const int64_t widest = std::max(input, 2 * hidden);
  if (rows > kMaxCount / widest || rows > kMaxCount / (network.gates() * hidden * 2) ||
      network.batch > kMaxCount / hidden / network.parts() ||
      widest > kMaxCount / (network.gates() * hidden * 2) / network.parts()) {
    return absl::nullopt;
  }
  RnnCall call;
  call.network = network;
  call.dtype = dtype;
  call.gradient = gradient;
  for (int step = network.num_steps() - 1; step >= 0; --step) {
    call.lengths.resize(network.rows[step], step + 1);
  }
  return call;
}

int64_t RnnWorkspaceLimit(const RnnCall& call, const Settings& settings) {
  const int64_t gates = GateElements(call.network) * call.network.parts() * ItemSize(call.dtype);
  return std::max(settings.max_workspace_size, 2 * gates);  // those for x and those for h
}

}  // namespace chx::server::cuda
