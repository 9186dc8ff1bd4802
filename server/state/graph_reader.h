// The graphs of a session that is read from a snapshot.
#ifndef CHX_SERVER_STATE_GRAPH_READER_H_
#define CHX_SERVER_STATE_GRAPH_READER_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/session/session_state.h"
#include "server/state/snapshot.pb.h"

namespace chx::server {

// Arrays and nodes by their numbers in the file. Every number and description is checked.
class GraphReader {
 public:
  explicit GraphReader(SessionState* session) : session_(*session) {}

  void AddBuffer(Ref<Buffer> buffer, DeviceId device) {
    buffers_.push_back({std::move(buffer), device});
  }
  absl::Status Add(const state::GraphItem& item);
  absl::Status Add(const state::Gradient& gradient);
  // When all handles are bound: forgets gradients that none of them leads to.
  void DropUnreachable();
  // An array without a buffer is none, where that is allowed.
  absl::StatusOr<Array> ArrayFrom(const state::Array& message, bool optional = false) const;
  absl::StatusOr<Variable> VariableFrom(const state::Variable& message) const;

 private:
  struct Block {
    Ref<Buffer> buffer;
    DeviceId device;
  };
  absl::StatusOr<Ref<ArrayNode>> NodeOf(uint32_t number) const;
  absl::Status AddNode(const state::Node& node);
  absl::Status AddOperation(const state::Operation& operation);

  SessionState& session_;
  std::vector<Block> buffers_;
  std::vector<Ref<ArrayNode>> nodes_;
  std::vector<Ref<OpNode>> ops_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_GRAPH_READER_H_
