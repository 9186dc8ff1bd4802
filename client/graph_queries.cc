#include "client/graph_queries.h"

#include <algorithm>
#include <utility>

#include "client/waiting.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr size_t kAtOnce = 128;  // handles of one question: answers are small values

}  // namespace

absl::StatusOr<std::vector<GraphState>> GraphQueries::States(absl::Span<const Handle> pairs,
                                                             BackpropId id) {
  std::vector<GraphState> states;
  for (; !pairs.empty(); pairs.remove_prefix(std::min(kAtOnce, pairs.size()))) {
    const absl::Span<const Handle> part = pairs.subspan(0, kAtOnce);
    command::QueryGraphs question;
    question.backprop_id = id;
    question.handles.assign(part.begin(), part.end());
    CHX_RETURN_IF_ERROR(queue_.CheckUsable());
    const Waiting waiting;
    CHX_ASSIGN_OR_RETURN(const std::string answer,
                         queue_.AnswerAboutGraphs(queue_.AppendRequest(std::move(question))));
    CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> some, DecodeGraphStates(answer));
    if (2 * some.size() != part.size()) {
      return ChainerxError("chxd sent ", some.size(), " graph states for ", part.size() / 2);
    }
    states.insert(states.end(), some.begin(), some.end());
  }
  return states;
}

absl::StatusOr<GraphState> GraphQueries::StateOf(const ArrayBody& array, BackpropId id) {
  const Handle pair[] = {array.handle, 0};
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> states, States(pair, id));
  return states[0];
}

absl::StatusOr<std::string> GraphQueries::Dump(const ArrayBody& array, BackpropId id) {
  command::DumpGraph question;
  question.handle = array.handle;
  question.backprop_id = id;
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  const Waiting waiting;
  return queue_.AnswerTo(queue_.AppendRequest(question), true);
}

}  // namespace chx
