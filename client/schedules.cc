#include "client/schedules.h"

#include <algorithm>
#include <cmath>

#include "ops/error.h"

namespace chx {
namespace schedules {
namespace {

constexpr double kPi = 3.14159265358979323846;

template <typename T>
Schedule Wrong(const char* expects, T got) {
  const absl::Status status = ValueError(expects, ", got ", got);
  return [status](int64_t /*step*/) -> absl::StatusOr<double> { return status; };
}

// The value, or where it stops; both may be negative.
double Until(const absl::optional<double>& target, double value, bool rises) {
  if (!target.has_value() || *target == 0) return value;
  const double part = value / *target;
  return (rises ? part > 1 : part < 1) ? *target : value;
}

}  // namespace

std::function<absl::Status(int64_t step)> Set(std::vector<std::pair<double*, Schedule>> values) {
  return [values = std::move(values)](int64_t step) {
    for (const auto& [value, schedule] : values) {
      CHX_ASSIGN_OR_RETURN(*value, schedule(step));
    }
    return absl::OkStatus();
  };
}

Schedule Constant(double value) {
  return [value](int64_t /*step*/) { return value; };
}

Schedule Step(double value, int64_t every, double rate, absl::optional<double> target) {
  if (every < 1) return Wrong("[step] expects a change every 1 step or more", every);
  return [=](int64_t step) {
    const int64_t changes = step / every;
    return Until(target, value * std::pow(rate, static_cast<double>(changes)), rate > 1);
  };
}

Schedule MultiStep(double value, std::vector<int64_t> at, double rate) {
  std::sort(at.begin(), at.end());
  return [value, at = std::move(at), rate](int64_t step) {
    const auto come = std::upper_bound(at.begin(), at.end(), step) - at.begin();
    return value * std::pow(rate, static_cast<double>(come));
  };
}

Schedule Exponential(double value, double rate, absl::optional<double> target) {
  if (!(rate >= 0)) return Wrong("[exponential] expects a rate of 0 or more", rate);
  return [=](int64_t step) {
    return Until(target, value * std::pow(rate, static_cast<double>(step)), rate > 1);
  };
}

Schedule Inverse(double value, double gamma, double power, absl::optional<double> target) {
  if (!(gamma >= 0)) return Wrong("[inverse] expects a gamma of 0 or more", gamma);
  return [=](int64_t step) {
    const double base = 1 + gamma * static_cast<double>(step);
    return Until(target, value * std::pow(base, -power), power < 0);
  };
}

Schedule Linear(double first, double last, int64_t steps, int64_t begin) {
  if (steps < 1) return Wrong("[linear] expects 1 step or more", steps);
  return [=](int64_t step) {
    const int64_t done = std::min(std::max<int64_t>(step - begin, 0), steps);
    if (done == steps) return last;
    return first + static_cast<double>(done) / static_cast<double>(steps) * (last - first);
  };
}

Schedule Polynomial(double value, int64_t steps, double power, absl::optional<double> target) {
  if (steps < 1) return Wrong("[polynomial] expects 1 step or more", steps);
  if (!(power >= 0)) return Wrong("[polynomial] expects a power of 0 or more", power);
  return [=](int64_t step) {
    const double left = 1 - static_cast<double>(step) / static_cast<double>(steps);
    return Until(target, value * std::pow(std::max(left, 0.0), power), false);
  };
}

Schedule Cosine(double value, int64_t steps, double last) {
  if (steps < 1) return Wrong("[cosine] expects 1 step or more", steps);
  return [=](int64_t step) {
    if (step >= steps) return last;
    const double angle = kPi * static_cast<double>(step) / static_cast<double>(steps);
    return last + (value - last) * (1 + std::cos(angle)) / 2;
  };
}

Schedule OneCycle(double greatest, int64_t steps, const OneCycleOptions& options) {
  if (steps < 1) return Wrong("[one_cycle] expects 1 step or more", steps);
  if (!(options.up >= 0 && options.up <= 1)) {
    return Wrong("[one_cycle] expects a share of the steps, in [0, 1]", options.up);
  }
  struct Phase {
    double end;  // the step that it ends with
    double value;
  };
  const double first = greatest / options.div_factor;
  const double top = options.up * static_cast<double>(steps) - 1;
  std::vector<Phase> phases = {{top, greatest}};
  if (options.three_phase) phases.push_back({2 * top, first});
  const double last_step = static_cast<double>(steps - 1);
  phases.push_back({last_step, first / options.final_div_factor});
  return [=, linear = options.linear](int64_t number) {
    const double step = std::min(static_cast<double>(number), last_step);
    Phase before = {0, first};
    for (const Phase& phase : phases) {
      if (step <= phase.end) {
        double way = phase.end > before.end ? (step - before.end) / (phase.end - before.end) : 1;
        if (!linear) way = (1 - std::cos(kPi * way)) / 2;
        return before.value + (phase.value - before.value) * way;
      }
      before = phase;
    }
    return before.value;
  };
}

Schedule WarmUp(int64_t steps, Schedule then, double first) {
  if (steps < 1) return Wrong("[warm_up] expects 1 step or more", steps);
  return [steps, then = std::move(then), first](int64_t step) -> absl::StatusOr<double> {
    if (step >= steps) return then(step - steps);
    CHX_ASSIGN_OR_RETURN(const double last, then(0));
    return (static_cast<double>(step) * last + static_cast<double>(steps - step) * first) /
           static_cast<double>(steps);
  };
}

}  // namespace schedules
}  // namespace chx
