// The encoding of what clients are told about graphs: 32-bit words.
#include "proto/graph_state.h"

#include <cstring>

#include "ops/error.h"

namespace chx {
namespace {

constexpr size_t kWordBytes = sizeof(uint32_t);

void Append(uint32_t word, std::string* data) {
  data->append(reinterpret_cast<const char*>(&word), kWordBytes);
}

// There must be one.
uint32_t Take(absl::string_view* data) {
  uint32_t word = 0;
  std::memcpy(&word, data->data(), kWordBytes);
  data->remove_prefix(kWordBytes);
  return word;
}

}  // namespace

// {value | has_grad << 8 | same_grad << 9, number of graphs, graphs}
std::string EncodeGraphStates(absl::Span<const GraphState> states) {
  std::string data;
  for (const GraphState& state : states) {
    Append(static_cast<uint32_t>(state.value) | (state.has_grad ? 1u << 8 : 0) |
               (state.same_grad ? 1u << 9 : 0),
           &data);
    Append(static_cast<uint32_t>(state.graphs.size()), &data);
    for (BackpropId id : state.graphs) Append(id, &data);
  }
  return data;
}

absl::StatusOr<std::vector<GraphState>> DecodeGraphStates(absl::string_view data) {
  std::vector<GraphState> states;
  while (data.size() >= 2 * kWordBytes) {
    GraphState state;
    const uint32_t flags = Take(&data);
    const uint32_t count = Take(&data);
    if ((flags & 255) > 2 || count > data.size() / kWordBytes) break;
    state.value = static_cast<GraphState::Value>(flags & 255);
    state.has_grad = (flags & (1u << 8)) != 0;
    state.same_grad = (flags & (1u << 9)) != 0;
    for (uint32_t i = 0; i < count; ++i) state.graphs.push_back(Take(&data));
    states.push_back(std::move(state));
    if (data.empty()) return states;
  }
  if (data.empty()) return states;
  return ValueError("[graph_state] expects whole states, got ", data.size(), " bytes more");
}

// {function (low, high), four counts, targets, a word for each array, graph states}
std::string EncodePassState(const PassState& state) {
  std::string data;
  Append(static_cast<uint32_t>(state.function), &data);
  Append(static_cast<uint32_t>(state.function >> 32), &data);
  const std::vector<bool>* const arrays[] = {&state.output_grads, &state.retained_inputs,
                                             &state.retained_outputs};
  Append(static_cast<uint32_t>(state.targets.size()), &data);
  for (const std::vector<bool>* present : arrays) {
    Append(static_cast<uint32_t>(present->size()), &data);
  }
  for (uint32_t target : state.targets) Append(target, &data);
  for (const std::vector<bool>* present : arrays) {
    for (bool is_there : *present) Append(is_there ? 1 : 0, &data);
  }
  return data + EncodeGraphStates(state.graphs);
}

absl::StatusOr<PassState> DecodePassState(absl::string_view data) {
  PassState state;
  const absl::Status cut =
      ValueError("[pass_state] expects a whole state, got ", data.size(), " bytes");
  if (data.size() < 6 * kWordBytes) return cut;
  state.function = Take(&data);
  state.function |= static_cast<uint64_t>(Take(&data)) << 32;
  const size_t targets = Take(&data);
  std::vector<bool>* const arrays[] = {&state.output_grads, &state.retained_inputs,
                                       &state.retained_outputs};
  size_t counts[3];
  size_t words = targets;
  for (size_t& count : counts) words += count = Take(&data);
  if (words > data.size() / kWordBytes) return cut;
  for (size_t i = 0; i < targets; ++i) state.targets.push_back(Take(&data));
  size_t present = 0;
  for (int i = 0; i < 3; ++i) {
    for (size_t j = 0; j < counts[i]; ++j) {
      arrays[i]->push_back(Take(&data) != 0);
      if (arrays[i]->back()) ++present;
    }
  }
  CHX_ASSIGN_OR_RETURN(state.graphs, DecodeGraphStates(data));
  if (state.graphs.size() != present) return cut;
  return state;
}

}  // namespace chx
