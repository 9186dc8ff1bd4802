// The answer to command::QueryGraphs.
#ifndef CHX_PROTO_GRAPH_STATE_H_
#define CHX_PROTO_GRAPH_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/ids.h"

namespace chx {

// Of one array: what a client cannot know without the values' history.
struct GraphState {
  enum class Value : uint8_t {
    kArray = 0,
    kError = 1,
    kNoGradient = 2,  // a result of command::Grad on which no output depends
  };
  Value value = Value::kArray;
  bool has_grad = false;                      // in the command's graph
  bool same_grad = false;                     // it is still the one that the command named
  absl::InlinedVector<BackpropId, 2> graphs;  // that the array is in
};
std::string EncodeGraphStates(absl::Span<const GraphState> states);
absl::StatusOr<std::vector<GraphState>> DecodeGraphStates(absl::string_view data);

// The answer to command::Backward, Grad and ResumePass: where a pass is that may call functions of
// the client. It is at its end, or waits for a gradient that the client is to compute.
struct PassState {
  uint64_t function = 0;          // 0: the pass is done
  std::vector<uint32_t> targets;  // the inputs whose gradients are wanted
  // Whether there is an array: a gradient for each output, then the inputs and outputs that the
  // function retained. By command::EnterFunction the client binds those to handles.
  std::vector<bool> output_grads;
  std::vector<bool> retained_inputs;
  std::vector<bool> retained_outputs;
  std::vector<GraphState> graphs;  // of those that are there
};
std::string EncodePassState(const PassState& state);
absl::StatusOr<PassState> DecodePassState(absl::string_view data);

}  // namespace chx

#endif  // CHX_PROTO_GRAPH_STATE_H_
