// The graphs of one session: which are open, their names, and in which order backward passes may
// run.
//
// An operator whose inputs are in several graphs ties these together: the gradients of one may be
// part of another. Graphs made later are inner ones. A backward pass of a graph does not record in
// its inner graphs, so that the pass of an inner graph must come before those of the outer ones
// that it is tied to.
#ifndef CHX_CLIENT_BACKPROP_IDS_H_
#define CHX_CLIENT_BACKPROP_IDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "proto/ids.h"

namespace chx {

// Owned by a GraphMirror. Thread-safe. Id 0, the default graph, is always open.
class BackpropIds {
 public:
  BackpropIds() { graphs_[0].name = "<default>"; }

  // Numbers grow, and never come again in this process: an id of another session is not open here.
  BackpropId New(std::string name);
  // An error for the default graph and for what is not open.
  absl::Status Release(BackpropId id);
  bool IsOpen(BackpropId id) const;
  absl::Status CheckOpen(BackpropId id) const;
  // The open graphs that were made after this one.
  std::vector<BackpropId> OpenAbove(BackpropId id) const;
  // "<expired>" if it is not open.
  std::string Name(BackpropId id) const;

  void Connect(absl::Span<const BackpropId> ids);
  // An error if an outer graph that this one is tied to has had its backward pass.
  absl::Status CheckAllowed(BackpropId id) const;
  void SetBackpropped(BackpropId id);
  bool IsTiedToOuter(BackpropId id) const;

  // The version of the graph's gradients. It grows whenever they may have changed in a way that
  // only the daemon knows.
  uint64_t GradVersion(BackpropId id) const;
  uint64_t IncrementGradVersion(BackpropId id);

 private:
  struct Graph {
    std::string name;
    std::vector<BackpropId> inner;  // that it is tied to
    int outer = 0;                  // number of those
    bool refused = false;
    std::string refused_for;  // the graph whose pass came too early
    uint64_t grad_version = 0;
  };

  mutable Mutex mutex_;
  absl::flat_hash_map<BackpropId, Graph> graphs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx

#endif  // CHX_CLIENT_BACKPROP_IDS_H_
