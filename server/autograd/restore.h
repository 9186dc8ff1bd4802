// Nodes of a graph that was written to a file, and is not trusted more than a client is.
#ifndef CHX_SERVER_AUTOGRAD_RESTORE_H_
#define CHX_SERVER_AUTOGRAD_RESTORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/autograd/variable.h"

namespace chx::server {

// What an OpNode is made of.
struct OpNodeParts {
  const OpDef* op = nullptr;  // null: a function of the client
  std::unique_ptr<ClientFunction> function;
  Attrs attrs;
  int64_t rank = 0;
  std::vector<OpNode::InputRecord> inputs;
  std::vector<OpNode::Output> outputs;
  std::vector<OpNode::Edge> edges;  // without outputs: those are made later
};

// An error unless a call of the operator could have made the node: then its gradient can be
// computed as that of any other.
absl::StatusOr<Ref<OpNode>> RestoreOpNode(OpNodeParts parts, GraphAccount* account);

// The node of an output of `creator` (null: a leaf). An error if there is no such output, or it has
// a node already.
absl::StatusOr<Ref<ArrayNode>> RestoreArrayNode(BackpropId id, const ArraySpec& spec,
                                                OpNode* creator, uint32_t output,
                                                GraphAccount* account);

}  // namespace chx::server

#endif  // CHX_SERVER_AUTOGRAD_RESTORE_H_
