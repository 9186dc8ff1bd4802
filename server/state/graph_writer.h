// Numbers the graphs of a session, inputs before what is made of them.
#ifndef CHX_SERVER_STATE_GRAPH_WRITER_H_
#define CHX_SERVER_STATE_GRAPH_WRITER_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "server/autograd/variable.h"
#include "server/state/snapshot.pb.h"

namespace chx::server {

// The blocks of memory that arrays lie in, by numbers from 1.
class BufferTable {
 public:
  struct Entry {
    Ref<Buffer> buffer;
    DeviceId device = 0;
    int64_t bytes = 0;  // that arrays use
  };
  void Add(const Array& array);
  void Fill(const Array& array, state::Array* message) const;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  absl::flat_hash_map<const Buffer*, uint32_t> numbers_;
  std::vector<Entry> entries_;
};

// Belongs to the one who writes a session, under its lock: nothing changes meanwhile.
class GraphTable {
 public:
  // `whole`: another table, whose Borrows says which gradients to leave out; null: none.
  explicit GraphTable(BufferTable* buffers, const GraphTable* whole = nullptr)
      : buffers_(*buffers), whole_(whole) {}

  // Adds an array with all that its nodes depend on, their gradients and saved values.
  void Add(const Variable& variable);
  // Finds out, after the last Add, what depends on memory of other sessions: these may withdraw it,
  // but not a copy in a file. True if there is any.
  bool FindBorrowed();
  // Whether an array lies in such memory, or its graph has saved some.
  bool Borrows(const Variable& variable) const;
  void Fill(const Variable& variable, state::Variable* message) const;
  // Calls `give` with each node and operation, then with each gradient.
  void Items(absl::FunctionRef<void(state::GraphItem item)> give) const;
  void Gradients(absl::FunctionRef<void(state::Gradient gradient)> give) const;

 private:
  struct Item {
    const ArrayNode* node = nullptr;  // else an operation
    const OpNode* op = nullptr;
  };
  void Visit(const Item& root);
  // What has to come before an item, and the values that it holds.
  void PushInputs(const Item& item, std::vector<Item>* todo);
  bool Known(const Item& item) const;
  void Number(const Item& item);
  void AddArrays(const Variable& variable);
  void Fill(const OpNode& op, state::Operation* message) const;
  bool LeavesOut(const ArrayNode& node) const;  // its gradient
  bool Borrows(const OpNode& op) const;

  BufferTable& buffers_;
  const GraphTable* const whole_;
  absl::flat_hash_map<const ArrayNode*, uint32_t> nodes_;
  absl::flat_hash_map<const OpNode*, uint32_t> ops_;
  std::vector<Item> order_;
  absl::flat_hash_set<const ArrayNode*> borrowed_nodes_;
  absl::flat_hash_set<const OpNode*> borrowed_ops_;
  std::vector<Variable> values_;  // whose nodes are not visited yet
};

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_GRAPH_WRITER_H_
