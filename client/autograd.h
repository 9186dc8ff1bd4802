// Gradients beyond array.backward(): of chosen inputs, and in graphs of their own.
#ifndef CHX_CLIENT_AUTOGRAD_H_
#define CHX_CLIENT_AUTOGRAD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/array.h"
#include "client/session.h"

namespace chx {

// d(outputs)/d(inputs), without touching the gradients that arrays have. `output_grads`: none, or
// one for each output. An input on which no output depends gives an array that holds a
// GradientError.
absl::StatusOr<std::vector<Array>> Grad(absl::Span<const Array> outputs,
                                        absl::Span<const Array> inputs,
                                        absl::Span<const Array> output_grads = {},
                                        const BackwardArgs& args = {});

// {BackpropScope scope(session, "inner"); x.RequireGrad(scope.id()); ...}: a graph that ends with
// the block. Call Backward in an inner graph before it is called in the outer ones that share
// operators with it.
class BackpropScope {
 public:
  explicit BackpropScope(Session& session, std::string name = "");
  ~BackpropScope();
  BackpropScope(const BackpropScope&) = delete;
  BackpropScope& operator=(const BackpropScope&) = delete;

  // Not OK if the session is lost.
  const absl::Status& status() const { return id_.status(); }
  BackpropId id() const { return *id_; }

 private:
  const Ref<Session> session_;
  const absl::StatusOr<BackpropId> id_;
};

}  // namespace chx

#endif  // CHX_CLIENT_AUTOGRAD_H_
