// Functions of the client in a session's graphs.
#ifndef CHX_CLIENT_CLIENT_FUNCTIONS_H_
#define CHX_CLIENT_CLIENT_FUNCTIONS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/array.h"
#include "client/function.h"
#include "client/graph_mirror.h"

namespace chx {

// A function with what a backward pass needs to call it.
struct RecordedFunction {
  std::shared_ptr<Function> function;
  std::vector<ArraySpec> inputs;
  std::vector<ArraySpec> outputs;
  std::vector<int64_t> retained_inputs;
  std::vector<int64_t> retained_outputs;
};

// Records functions and keeps them until no graph refers to them any more.
//
// Owned by a Session. Thread-safe, but for the arrays that are given to Record. Its lock is never
// held together with another one.
class ClientFunctions {
 public:
  ClientFunctions(Connection* connection, CommandQueue* queue, GraphMirror* graphs,
                  const Session* session)
      : connection_(*connection), queue_(*queue), graphs_(*graphs), session_(*session) {}
  ClientFunctions(const ClientFunctions&) = delete;

  // Connects `outputs`, which are in no graph, to the inputs that they were made of (null: none).
  // In a backward pass `function` computes the gradients. It lives until no graph refers to it. The
  // indexes say which arrays it gets then.
  absl::Status Record(std::shared_ptr<Function> function, absl::Span<ArrayBody* const> inputs,
                      absl::Span<ArrayBody* const> outputs,
                      absl::Span<const int64_t> retained_inputs,
                      absl::Span<const int64_t> retained_outputs) ABSL_LOCKS_EXCLUDED(mutex_);

  bool any() ABSL_LOCKS_EXCLUDED(mutex_);
  // Null if there is none of that number.
  std::shared_ptr<RecordedFunction> Find(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called before a backward pass that is recorded itself: the daemon then has graphs that
  // the mirror does not show, and only the daemon knows when functions in them are not needed.
  void ExpectHiddenGraphs() { hidden_graphs_ = true; }
  // Drops those that, as the daemon has said, are in no graph.
  void ForgetFreed() ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops all. What a function holds may hold the session, which would never be deleted otherwise.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status CheckArrays(absl::Span<ArrayBody* const> arrays);
  absl::Status CheckInNoGraph(absl::Span<ArrayBody* const> outputs, const MirrorOps& ops) const;
  // Returns the number, which keeps the function as long as something here holds it.
  std::shared_ptr<const uint64_t> Keep(RecordedFunction function) ABSL_LOCKS_EXCLUDED(mutex_);
  void Unreachable(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);

  Connection& connection_;
  CommandQueue& queue_;
  GraphMirror& graphs_;
  const Session& session_;
  std::atomic<bool> hidden_graphs_{false};
  Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<RecordedFunction>> functions_
      ABSL_GUARDED_BY(mutex_);
  uint64_t next_function_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace chx

#endif  // CHX_CLIENT_CLIENT_FUNCTIONS_H_
