// Values that change from step to step, such as a learning rate (docs/runs.md).
//
//   namespace schedules = chx::schedules;
//   options.schedule = schedules::Set({{&adam.alpha, schedules::Cosine(1e-3, 10000)}});
//
// A schedule is a function of the step's number, counted from 0: any function may be one. One that
// is made of arguments that do not fit gives kValue in each step. In Python chx.schedules has the
// same ones.
#ifndef CHX_CLIENT_SCHEDULES_H_
#define CHX_CLIENT_SCHEDULES_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace chx {
namespace schedules {

// The value in a step, counted from 0.
using Schedule = std::function<absl::StatusOr<double>(int64_t step)>;

// For RunOptions::schedule, or to call in each step of a loop. The numbers, such as an optimizer's
// hyperparameters, have to be there as long as it is called.
std::function<absl::Status(int64_t step)> Set(std::vector<std::pair<double*, Schedule>> values);

// value, in all steps.
Schedule Constant(double value);
// value * rate^floor(n / every), until it is `target`, if there is one.
Schedule Step(double value, int64_t every, double rate, absl::optional<double> target = {});
// value * rate^k, k being how many steps of `at` have come.
Schedule MultiStep(double value, std::vector<int64_t> at, double rate);
// value * rate^n, until it is `target`.
Schedule Exponential(double value, double rate, absl::optional<double> target = {});
// value * (1 + gamma * n)^-power, until it is `target`.
Schedule Inverse(double value, double gamma, double power, absl::optional<double> target = {});
// `first` up to step `begin`, `last` from step `begin + steps` on, and a line in between.
Schedule Linear(double first, double last, int64_t steps, int64_t begin = 0);
// value * (1 - n / steps)^power, until it is `target`; after `steps` it stays there, or at 0.
Schedule Polynomial(double value, int64_t steps, double power = 1,
                    absl::optional<double> target = {});
// last + (value - last) * (1 + cos(pi * n / steps)) / 2, and `last` from step `steps` on.
Schedule Cosine(double value, int64_t steps, double last = 0);

// The shape of OneCycle.
struct OneCycleOptions {
  double up = 0.3;                // the share of the steps on the way up
  bool linear = false;            // lines in place of half periods of a cosine
  double div_factor = 25;         // the first value is greatest / div_factor
  double final_div_factor = 1e4;  // the last one is the first one / final_div_factor
  bool three_phase = false;       // down to the first value as up, then to the last one
};
// Up to `greatest` and down again; the last value from step `steps - 1` on (PyTorch's OneCycleLR).
Schedule OneCycle(double greatest, int64_t steps, const OneCycleOptions& options = {});
// A line from `first` to where another schedule begins, and from step `steps` on that one, which
// counts from 0 there.
Schedule WarmUp(int64_t steps, Schedule then, double first = 0);

}  // namespace schedules
}  // namespace chx

#endif  // CHX_CLIENT_SCHEDULES_H_
