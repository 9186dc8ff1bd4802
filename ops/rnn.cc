#include "ops/rnn.h"

#include "ops/error.h"

namespace chx {

int RnnGates(RnnMode mode) { return mode == RnnMode::kLstm ? 4 : mode == RnnMode::kGru ? 3 : 1; }

Shape RnnNetwork::WeightShape(int part, RnnWeight weight) const {
  switch (weight) {
    case RnnWeight::kFromX:
      return {hidden, width(part)};
    case RnnWeight::kFromH:
      return {hidden, hidden};
    case RnnWeight::kBiasOfX:
    case RnnWeight::kBiasOfH:
      break;
  }
  return {hidden};
}

absl::StatusOr<RnnNetwork> MakeRnnNetwork(absl::string_view op, const Shape& x, const Shape& hx,
                                          absl::Span<const AttrValue> attrs) {
  const Ints& rows = attrs[0].ints();
  const int64_t layers = attrs[1].AsInt();
  const int64_t directions = attrs[2].AsInt();
  constexpr int64_t kMaxLayers = 65535;  // as many as a call has operands
  if (layers < 1 || layers > kMaxLayers || directions < 1 || directions > 2) {
    return ValueError("[", op, "] expects layers from 1 to ", kMaxLayers,
                      " and 1 or 2 directions, got ", layers, " and ", directions);
  }
  RnnNetwork network;
  network.mode = static_cast<RnnMode>(attrs[3].AsInt());
  network.layers = static_cast<int>(layers);
  network.directions = static_cast<int>(directions);
  if (x.size() != 2 || hx.size() != 3 || hx[0] != network.parts()) {
    return DimensionError("[", op, "] expects x (rows, I) and states (", network.parts(),
                          ", N, C), got ", x.ToString(), " and ", hx.ToString());
  }
  network.input = x[1];
  network.batch = hx[1];
  network.hidden = hx[2];
  if (network.hidden > INT32_MAX) {  // whose weights for h no array holds
    return DimensionError("[", op, "] expects states of less than 2^31 channels, got ",
                          hx.ToString());
  }
  const auto steps = static_cast<int64_t>(rows.size());
  if (steps < 1 || steps > kMaxRnnSteps || steps * network.parts() > kMaxRnnCells) {
    return DimensionError("[", op, "] expects from 1 to ", kMaxRnnSteps, " steps, and at most ",
                          kMaxRnnCells, " of all layers and directions, got ", steps);
  }
  int64_t below = network.batch;
  int64_t total = 0;  // at most x's rows
  bool fits = true;
  for (const int64_t n : rows) {
    if (n < 0 || n > below) {
      return DimensionError("[", op, "] expects steps whose rows do not grow in number, from ",
                            network.batch, " on, got ", n, " after ", below);
    }
    if (n > 0) {
      network.rows.push_back(n);
      network.offsets.push_back(total);
    }
    fits = n <= x[0] - total;
    if (!fits) break;
    below = n;
    total += n;
  }
  network.offsets.push_back(total);
  if (!fits || total != x[0]) {
    return DimensionError("[", op, "] expects x to have the rows of all ", steps, " steps, got ",
                          x.ToString());
  }
  return network;
}

absl::StatusOr<RnnNetwork> MakeLstmLayer(absl::string_view op, const Shape& from_x, const Shape& hx,
                                         const AttrValue& rows) {
  if (hx.size() != 2) {
    return DimensionError("[", op, "] expects states (N, C), got ", hx.ToString());
  }
  const AttrValue attrs[] = {rows, AttrValue(int64_t{1}), AttrValue(int64_t{1}),
                             AttrValue(static_cast<int64_t>(RnnMode::kLstm))};
  return MakeRnnNetwork(op, from_x, {1, hx[0], hx[1]}, attrs);
}

}  // namespace chx
