// The base of the optimizers in client/optimizers.h.
//
//   chx::optimizers::Adam optimizer;
//   optimizer.alpha = 1e-3;
//   status = optimizer.Setup({w, b});
//   ...
//   status = chx::Backward(loss);
//   status = optimizer.Update();
//   status = optimizer.ClearGrads();
#ifndef CHX_CLIENT_OPTIMIZER_H_
#define CHX_CLIENT_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/array.h"
#include "client/array_map.h"
#include "ops/attr.h"

namespace chx {

struct OptimizerDef;
struct OptimizerRule;

namespace optimizers {

// Changes gradients in place before a step. Gets the parameters of one device, and their gradients.
// An error ends the step.
using Hook =
    std::function<absl::Status(absl::Span<const Array> params, absl::Span<const Array> grads)>;

// Updates parameters in place from their gradients. A step is one command for all parameters of a
// device, and waits for nothing. Used by one thread at a time, as arrays are.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Names the arrays to update, which require gradients. Their names are "0", "1", ... What was set
  // up before is forgotten. The learning rate of this moment is the initial one of AdaBound.
  absl::Status Setup(const std::vector<Array>& params);
  absl::Status SetupNamed(const ArrayMap& params);

  // Takes a step. Parameters without a gradient stay as they are. A step that could not be sent
  // does not count.
  absl::Status Update();
  // Forgets the gradients of all parameters.
  absl::Status ClearGrads();
  // How many steps there were.
  int64_t t() const { return t_; }

  // Calls the hook before every step, after those that were added before. An error if there is one
  // of that name. To change a hook's members later, add std::ref(hook).
  absl::Status AddHook(std::string name, Hook hook);
  absl::Status RemoveHook(absl::string_view name);

  // All that the next steps depend on but the parameters: hyperparameters, "t" and, if there is an
  // alpha, "initial_alpha", without dimensions; "PARAMETER/STATE". Python's state_dict() has the
  // same names. The latter are the optimizer's own arrays: to be copied or saved before the next
  // step.
  absl::StatusOr<ArrayMap> State() const;
  // Takes back, by copies, what State() gave. Waits for the numbers. Nothing changes if something
  // is missing, unknown or of another shape.
  absl::Status LoadState(const ArrayMap& state);

 protected:
  // A hyperparameter that the user may set.
  using Member = std::variant<double*, bool*>;

  explicit Optimizer(absl::string_view name);

 private:
  struct Parameter {
    std::string name;
    Array array;
    Array writable;             // the same memory outside of all graphs
    std::vector<Array> states;  // in the rule's order; none before the first step
  };
  using Numbers = std::map<std::string, double>;

  // In the order of the rule's hyperparameters.
  virtual std::vector<Member> members() = 0;
  std::vector<double> Values() const;
  absl::Status SetUp(std::vector<Parameter> params);
  absl::Status UpdateGroup(const std::vector<Parameter*>& group, const std::vector<Array>& grads,
                           const Attrs& attrs);
  absl::Status AddStates(Parameter* parameter) const;
  // Of a step that is recorded (client/program.h): each run takes one more.
  absl::Status VaryIn(Session* session, size_t num_params, const Attrs& attrs);
  absl::Status Run(const std::vector<std::vector<Array>>& lists, const Attrs& attrs) const;
  // Hyperparameters and counters as State() has them.
  Numbers ToNumbers() const;
  absl::StatusOr<Numbers> NumbersIn(const ArrayMap& state) const;
  absl::StatusOr<std::vector<std::vector<Array>>> StatesIn(const ArrayMap& state) const;
  void Assign(const Numbers& numbers);

  const OptimizerDef& def_;
  const OptimizerRule& rule_;
  std::vector<Parameter> params_;
  std::vector<std::pair<std::string, Hook>> hooks_;
  int64_t t_ = 0;
  double initial_alpha_ = 0;
  const std::shared_ptr<Optimizer*> self_ = std::make_shared<Optimizer*>(this);  // for programs
};

}  // namespace optimizers
}  // namespace chx

#endif  // CHX_CLIENT_OPTIMIZER_H_
