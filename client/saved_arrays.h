// Arrays that a session keeps under names.
#ifndef CHX_CLIENT_SAVED_ARRAYS_H_
#define CHX_CLIENT_SAVED_ARRAYS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/array.h"

namespace chx {

class CommandQueue;
class Connection;
class RandomCounter;
class Session;

// In a named session (ConnectOptions::session) another process that takes the session up loads what
// this one has saved. A name refers to the arrays themselves: what is written to them later is seen
// under the name. Gradients and requires_grad are kept, the graphs of computed arrays are not.
//
// Part of a Session. Thread-safe, but for the arrays. All functions wait for the daemon.
class SavedArrays {
 public:
  // What is under a name.
  struct Tree {
    std::string tree;  // as it was saved: how the arrays belong together
    std::vector<ArrayPtr> arrays;
  };

  // Sets `random` to where the session's former client was.
  SavedArrays(Session* session, Connection* connection, CommandQueue* queue, RandomCounter* random);
  SavedArrays(const SavedArrays&) = delete;

  // Replaces what was under the name. Returns how many of the arrays had been computed in a graph,
  // and come back as values.
  absl::StatusOr<uint64_t> Save(absl::string_view name, absl::string_view tree,
                                absl::Span<ArrayBody* const> arrays);
  // ErrorKind::kValue: nothing is saved under the name.
  absl::StatusOr<Tree> Load(absl::string_view name);
  absl::StatusOr<std::vector<std::string>> Names();
  absl::Status Forget(absl::string_view name);
  // What whoever takes the session up is told of this client's random numbers. Does not wait.
  absl::Status NoteGenerator(absl::string_view state);
  // The same, where nobody else does: where the session's counter is. Save calls it.
  absl::Status NoteCounter();

 private:
  absl::Status Note(absl::string_view state);

  Session& session_;
  Connection& connection_;
  CommandQueue& queue_;
  RandomCounter& random_;
  std::atomic<bool> noted_{false};  // by NoteGenerator
};

}  // namespace chx

#endif  // CHX_CLIENT_SAVED_ARRAYS_H_
