#include "client/autograd.h"

#include <utility>

#include "client/gradients.h"
#include "client/graph_mirror.h"

namespace chx {

absl::StatusOr<std::vector<Array>> Grad(absl::Span<const Array> outputs,
                                        absl::Span<const Array> inputs,
                                        absl::Span<const Array> output_grads,
                                        const BackwardArgs& args) {
  if (outputs.empty()) return ValueError("[grad] expects at least one output");
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> ys, internal::BodiesOf(outputs));
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> xs, internal::BodiesOf(inputs));
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> gys, internal::BodiesOf(output_grads));
  CHX_ASSIGN_OR_RETURN(std::vector<ArrayPtr> grads,
                       ys[0]->session->gradients().Grad(ys, xs, gys, args));
  std::vector<Array> arrays;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i]) {
      arrays.emplace_back(std::move(grads[i]));
    } else {
      arrays.emplace_back(GradientError("[grad] the outputs do not depend on input ", i));
    }
  }
  return arrays;
}

BackpropScope::BackpropScope(Session& session, std::string name)
    : session_(&session), id_(session.graphs().NewBackpropId(std::move(name))) {}

BackpropScope::~BackpropScope() {
  if (id_.ok()) session_->graphs().ReleaseBackpropId(*id_).IgnoreError();
}

}  // namespace chx
