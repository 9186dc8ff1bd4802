// Recurrent networks as cuDNN defines them, one sequence after the other and one cell after the
// other, in float64; the gradient by the chain rule, cell by cell back.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/error.h"
#include "server/cuda/testing/emulated_libraries.h"
#include "server/cuda/vendor/dnn_rnn.h"
#include "server/engine/backend.h"
#include "server/kernels/dispatch.h"

namespace chx::server::cuda {
namespace {

using Doubles = std::vector<double>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Doubles Read(Dtype dtype, const void* data, int64_t size) {
  Doubles values(size);
  kernels::VisitFloat(dtype, [&](auto tag) {
    const auto* const from = static_cast<const typename decltype(tag)::Type*>(data);
    for (int64_t i = 0; i < size; ++i) values[i] = static_cast<double>(kernels::Load(from[i]));
  });
  return values;
}

void Write(Dtype dtype, const Doubles& values, void* data) {
  kernels::VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (size_t i = 0; i < values.size(); ++i)
      static_cast<T*>(data)[i] = kernels::Cast<T>(values[i]);
  });
}

Shape InputShape(const RnnNetwork& n, int i) {
  if (i == 0) return n.x_shape();
  if (i <= n.num_states()) return n.state_shape();
  const int of_parts = i - 1 - n.num_states();
  const int of_part = of_parts % (kRnnWeights * n.gates());
  return n.WeightShape(of_parts / (kRnnWeights * n.gates()),
                       static_cast<RnnWeight>(of_part / n.gates()));
}

class Reference {
 public:
  explicit Reference(const RnnCall& call) : call_(call), n_(call.network), hidden_(n_.hidden) {
    for (int i = 0; i < n_.num_inputs(); ++i) {
      const int64_t size = NumElements(InputShape(n_, i));
      in_.push_back(Read(call.dtype, call.inputs[i], size));
      grads_.emplace_back(size);
    }
  }

  void Run() {
    xs_ = {in_[0]};
    hy_ = in_[1];
    cy_ = n_.has_cell() ? in_[2] : Doubles(hy_.size());
    tapes_.resize(n_.parts());
    for (int layer = 0; layer < n_.layers; ++layer) {
      xs_.emplace_back(n_.total_rows() * n_.directions * hidden_);
      for (int d = 0; d < n_.directions; ++d) {
        const int part = layer * n_.directions + d;
        Tape& tape = tapes_[part];
        for (Doubles* const kept : {&tape.from_x, &tape.from_h}) {
          kept->resize(n_.total_rows() * n_.gates() * hidden_);
        }
        for (Doubles* const kept : {&tape.h, &tape.c}) kept->resize(n_.total_rows() * hidden_);
        for (int64_t b = 0; b < n_.batch; ++b) {
          for (int i = 0; i < call_.lengths[b]; ++i) Step(part, d, b, StepAt(d, b, i));
        }
      }
    }
    const Dtype dtype = call_.dtype;
    if (call_.gradient) return RunBack();
    Write(dtype, xs_.back(), call_.outputs[0]);
    Write(dtype, hy_, call_.outputs[1]);
    if (n_.has_cell()) Write(dtype, cy_, call_.outputs[2]);
  }

 private:
  // Of one part, by rows: what the gates were given, and the states before.
  struct Tape {
    Doubles from_x;
    Doubles from_h;
    Doubles h;
    Doubles c;
  };

  int StepAt(int direction, int64_t b, int i) const {
    return direction == 0 ? i : call_.lengths[b] - 1 - i;
  }
  const Doubles& Weight(int part, RnnWeight weight, int gate) const {
    return in_[n_.Position(part, weight, gate)];
  }
  double* StateOf(Doubles* state, int part, int64_t b) const {
    return state->data() + (part * n_.batch + b) * hidden_;
  }

  // weights (hidden, width) times x, plus a bias.
  Doubles Affine(const Doubles& weights, const Doubles& bias, const double* x,
                 int64_t width) const {
    Doubles result = bias;
    for (int64_t k = 0; k < hidden_; ++k) {
      for (int64_t j = 0; j < width; ++j) result[k] += weights[k * width + j] * x[j];
    }
    return result;
  }

  void Step(int part, int direction, int64_t b, int step) {
    Tape& tape = tapes_[part];
    const int64_t row = n_.offsets[step] + b;
    const int64_t width = n_.width(part);
    double* const h = StateOf(&hy_, part, b);
    double* const c = StateOf(&cy_, part, b);
    std::copy_n(h, hidden_, tape.h.begin() + row * hidden_);
    std::copy_n(c, hidden_, tape.c.begin() + row * hidden_);
    const double* const x = xs_[part / n_.directions].data() + row * width;
    for (int gate = 0; gate < n_.gates(); ++gate) {
      const int64_t at = (row * n_.gates() + gate) * hidden_;
      const Doubles from_x = Affine(Weight(part, RnnWeight::kFromX, gate),
                                    Weight(part, RnnWeight::kBiasOfX, gate), x, width);
      const Doubles from_h = Affine(Weight(part, RnnWeight::kFromH, gate),
                                    Weight(part, RnnWeight::kBiasOfH, gate), h, hidden_);
      std::copy(from_x.begin(), from_x.end(), tape.from_x.begin() + at);
      std::copy(from_h.begin(), from_h.end(), tape.from_h.begin() + at);
    }
    double* const y =
        xs_[part / n_.directions + 1].data() + (row * n_.directions + direction) * hidden_;
    for (int64_t k = 0; k < hidden_; ++k) {
      const auto from_x = [&](int gate) { return At(tape.from_x, row, gate, k); };
      const auto from_h = [&](int gate) { return At(tape.from_h, row, gate, k); };
      const auto sum = [&](int gate) { return from_x(gate) + from_h(gate); };
      switch (n_.mode) {
        case RnnMode::kLstm:
          c[k] = Sigmoid(sum(1)) * c[k] + Sigmoid(sum(0)) * std::tanh(sum(2));
          h[k] = Sigmoid(sum(3)) * std::tanh(c[k]);
          break;
        case RnnMode::kGru: {
          const double z = Sigmoid(sum(1));
          h[k] = (1 - z) * std::tanh(from_x(2) + Sigmoid(sum(0)) * from_h(2)) + z * h[k];
          break;
        }
        case RnnMode::kTanh:
          h[k] = std::tanh(sum(0));
          break;
        case RnnMode::kRelu:
          h[k] = std::max(sum(0), 0.0);
          break;
      }
      y[k] = h[k];
    }
  }

  double At(const Doubles& gates, int64_t row, int gate, int64_t k) const {
    return gates[(row * n_.gates() + gate) * hidden_ + k];
  }

  void RunBack() {
    const Dtype dtype = call_.dtype;
    Doubles gy = Read(dtype, call_.output_grads[0], xs_.back().size());
    Doubles gh = Read(dtype, call_.output_grads[1], hy_.size());
    Doubles gc = n_.has_cell() ? Read(dtype, call_.output_grads[2], cy_.size()) : gh;
    for (int layer = n_.layers - 1; layer >= 0; --layer) {
      Doubles gx(xs_[layer].size());
      for (int d = 0; d < n_.directions; ++d) {
        const int part = layer * n_.directions + d;
        for (int64_t b = 0; b < n_.batch; ++b) {
          double* const h = StateOf(&gh, part, b);
          for (int i = call_.lengths[b] - 1; i >= 0; --i) {
            const int64_t row = n_.offsets[StepAt(d, b, i)] + b;
            const double* const y = gy.data() + (row * n_.directions + d) * hidden_;
            for (int64_t k = 0; k < hidden_; ++k) h[k] += y[k];
            StepBack(part, row, h, StateOf(&gc, part, b), gx.data() + row * n_.width(part));
          }
        }
      }
      gy = gx;
    }
    grads_[0] = gy;
    grads_[1] = gh;
    if (n_.has_cell()) grads_[2] = gc;
    for (int i = 0; i < n_.num_inputs(); ++i) Write(dtype, grads_[i], call_.outputs[i]);
  }

  // gh and gc: of the states after the cell, then of those before it.
  void StepBack(int part, int64_t row, double* gh, double* gc, double* gx) {
    const Tape& tape = tapes_[part];
    const int gates = n_.gates();
    Doubles from_x(gates * hidden_);  // their gradients
    Doubles from_h(gates * hidden_);
    for (int64_t k = 0; k < hidden_; ++k) {
      const auto x = [&](int gate) { return At(tape.from_x, row, gate, k); };
      const auto h = [&](int gate) { return At(tape.from_h, row, gate, k); };
      const auto set = [&](int gate, double g, double g_of_h) {
        from_x[gate * hidden_ + k] = g;
        from_h[gate * hidden_ + k] = g_of_h;
      };
      const double before = tape.h[row * hidden_ + k];
      if (n_.mode == RnnMode::kLstm) {
        const double i = Sigmoid(x(0) + h(0));
        const double f = Sigmoid(x(1) + h(1));
        const double a = std::tanh(x(2) + h(2));
        const double o = Sigmoid(x(3) + h(3));
        const double c = tape.c[row * hidden_ + k];
        const double squashed = std::tanh(f * c + i * a);
        const double total = gc[k] + gh[k] * o * (1 - squashed * squashed);
        const double g[] = {total * a * i * (1 - i), total * c * f * (1 - f),
                            total * i * (1 - a * a), gh[k] * squashed * o * (1 - o)};
        for (int gate = 0; gate < 4; ++gate) set(gate, g[gate], g[gate]);
        gc[k] = total * f;
        gh[k] = 0;
      } else if (n_.mode == RnnMode::kGru) {
        const double r = Sigmoid(x(0) + h(0));
        const double z = Sigmoid(x(1) + h(1));
        const double candidate = std::tanh(x(2) + r * h(2));
        const double g = gh[k] * (1 - z) * (1 - candidate * candidate);
        const double of_z = gh[k] * (before - candidate) * z * (1 - z);
        const double of_r = g * h(2) * r * (1 - r);
        set(0, of_r, of_r);
        set(1, of_z, of_z);
        set(2, g, g * r);
        gh[k] *= z;
      } else {
        const double sum = x(0) + h(0);
        const double y = std::tanh(sum);
        const double slope = n_.mode == RnnMode::kTanh ? 1 - y * y : sum > 0 ? 1 : 0;
        set(0, gh[k] * slope, gh[k] * slope);
        gh[k] = 0;
      }
    }
    const int64_t width = n_.width(part);
    const double* const x = xs_[part / n_.directions].data() + row * width;
    for (int gate = 0; gate < gates; ++gate) {
      AffineBack(part, gate, false, from_x.data() + gate * hidden_, x, width, gx);
      AffineBack(part, gate, true, from_h.data() + gate * hidden_, &tape.h[row * hidden_], hidden_,
                 gh);
    }
  }

  // Adds the gradients of a gate's weights, its bias and x.
  void AffineBack(int part, int gate, bool of_h, const double* g, const double* x, int64_t width,
                  double* gx) {
    const RnnWeight kind = of_h ? RnnWeight::kFromH : RnnWeight::kFromX;
    const Doubles& weight = Weight(part, kind, gate);
    Doubles& g_weight = grads_[n_.Position(part, kind, gate)];
    Doubles& g_bias =
        grads_[n_.Position(part, of_h ? RnnWeight::kBiasOfH : RnnWeight::kBiasOfX, gate)];
    for (int64_t k = 0; k < hidden_; ++k) {
      g_bias[k] += g[k];
      for (int64_t j = 0; j < width; ++j) {
        g_weight[k * width + j] += g[k] * x[j];
        gx[j] += g[k] * weight[k * width + j];
      }
    }
  }

  const RnnCall& call_;
  const RnnNetwork& n_;
  const int64_t hidden_;
  std::vector<Doubles> in_;
  std::vector<Doubles> grads_;
  std::vector<Doubles> xs_;  // what each layer reads, then the last one's output
  Doubles hy_;
  Doubles cy_;
  std::vector<Tape> tapes_;
};

// What the library checks, and that no array is missing.
bool IsSound(const RnnCall& call) {
  const RnnNetwork& n = call.network;
  const auto inputs = static_cast<size_t>(n.num_inputs());
  const auto results = static_cast<size_t>(1 + n.num_states());
  if (call.lengths.size() != static_cast<size_t>(n.batch) || n.batch < 1 || n.hidden < 1 ||
      n.input < 1 || call.lengths.back() < 1 || call.lengths[0] != n.num_steps() ||
      !std::is_sorted(call.lengths.rbegin(), call.lengths.rend()) ||
      std::accumulate(call.lengths.begin(), call.lengths.end(), int64_t{0}) != n.total_rows() ||
      call.inputs.size() != inputs || call.output_grads.size() != (call.gradient ? results : 0) ||
      call.outputs.size() != (call.gradient ? inputs : results)) {
    return false;
  }
  const auto there = [](const auto* pointer) { return pointer != nullptr; };
  return std::all_of(call.inputs.begin(), call.inputs.end(), there) &&
         std::all_of(call.output_grads.begin(), call.output_grads.end(), there) &&
         std::all_of(call.outputs.begin(), call.outputs.end(), there);
}

}  // namespace

absl::StatusOr<bool> EmulatedDnn::Recur(const KernelArgs& args, const RnnCall& call) {
  if (!IsSound(call)) return DeviceError("invalid argument of a recurrent network");
  CountEmulatedCall();
  constexpr int64_t kWorkspace = 4096;
  if (kWorkspace > RnnWorkspaceLimit(call, args.stream.settings())) return false;
  if (!args.scratch.Allocate(kWorkspace).ok()) return false;
  Reference(call).Run();
  return true;
}

}  // namespace chx::server::cuda
