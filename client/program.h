// Steps that are recorded once, and repeated by the daemon at one command each.
//
//   const auto step = [&](absl::Span<const chx::Array> in) -> chx::Program::Results {
//     const chx::Array loss = chx::sum(chx::square(chx::matmul(in[0], w) - in[1]));
//     ...  // chx::Backward(loss), optimizer.Update(), optimizer.ClearGrads()
//     return std::vector<chx::Array>{loss};
//   };
//   absl::StatusOr<chx::Program> program = chx::Program::Trace(*session, step, {x, t});
//   absl::StatusOr<std::vector<chx::Array>> results = program->Run({x, t}, 100);
#ifndef CHX_CLIENT_PROGRAM_H_
#define CHX_CLIENT_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/array.h"
#include "client/session.h"
#include "client/sharing.h"

namespace chx {

class RecordedProgram;

// A recorded function of arrays. Copies are the same program, which the daemon forgets with the
// last of them. A program belongs to its session. Used by one thread at a time, as arrays are.
class Program {
 public:
  using Results = absl::StatusOr<std::vector<Array>>;
  // Gets the arguments. Operators, gradients, writes in place, optimizers and the session's random
  // numbers are recorded; all else happens only once, while the function is recorded. An error ends
  // the recording, and so does whatever waits for a value.
  using Function = std::function<Results(absl::Span<const Array> arguments)>;

  // Calls the function, which does what it does, and has the daemon keep it. Arrays from elsewhere,
  // such as parameters, are those of the recording, and live as long as the program. Until it
  // returns, calls by other threads in the session are errors.
  //
  // Errors: that of the function; kNotImplemented: it does what cannot be recorded, or the daemon
  // is too old.
  static absl::StatusOr<Program> Trace(Session& session, const Function& function,
                                       absl::Span<const Array> arguments);
  static absl::StatusOr<Program> Trace(Session& session, const Function& function,
                                       std::initializer_list<Array> arguments);

  // What the function has returned while it was recorded. As all results, these are in no graph.
  const std::vector<Array>& first_results() const;

  // Does `times` times what the function does, with arrays of the dtypes, shapes and devices of
  // those it was recorded with. Does not wait. Gives the results of the last time. Hyperparameters
  // and steps of optimizers, and random numbers, are those of each time; an optimizer that it
  // updates by must be there still.
  Results Run(absl::Span<const Array> arguments, int64_t times = 1) const;
  Results Run(std::initializer_list<Array> arguments, int64_t times = 1) const;

  // Why the daemon runs the function's commands one by one, and not by a plan; empty: it does not.
  const std::string& declined() const;
  // What the daemon does in a run, as text: operators in their order, with what was fused, computed
  // once or left out, and the memory of a run. `profile`: runs are measured from now on, and it
  // says how long each part took in those before. Waits.
  absl::StatusOr<std::string> Explain(bool profile = false) const;
  // The same drawn, as SVG.
  absl::StatusOr<std::string> ExplainAsSvg(bool profile = false) const;

  // The parts, for what is built on the client. Their headers are no part of the public API.
  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  friend absl::StatusOr<Program> LookupProgram(Session& session, const std::string& name,
                                               const LookupOptions& options);
  explicit Program(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// Publishes programs of the session under a name: sessions of other processes find them by
// LookupProgram, in any language (docs/programs.md). Several are for arguments of several shapes.
// What they capture stays where it is, and counts for this session alone. The new version's number.
// Waits.
//
// kValue: one of them writes to what it captures, draws random numbers, has numbers that vary, or
// computes gradients of what it captures; or it captures an array whose memory Export has shown.
absl::StatusOr<uint64_t> PublishProgram(Session& session, const std::string& name,
                                        absl::Span<const Program> programs,
                                        const PublishOptions& options = {});
// The same of one program.
absl::StatusOr<uint64_t> PublishProgram(Session& session, const std::string& name,
                                        const Program& program, const PublishOptions& options = {});

// A program that is published, to be run in this session, with its quota and limits, on arrays of
// it. Each time sees the arrays that it captures as they are between two commands of their session.
// Once it is taken back, what Run gives are errors of kind kContext. Waits.
absl::StatusOr<Program> LookupProgram(Session& session, const std::string& name,
                                      const LookupOptions& options = {});

}  // namespace chx

#endif  // CHX_CLIENT_PROGRAM_H_
