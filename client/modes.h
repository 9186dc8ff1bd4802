// Which graphs record, for the calling thread: a stack of scopes.
#ifndef CHX_CLIENT_MODES_H_
#define CHX_CLIENT_MODES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "proto/ids.h"

namespace chx {

class Session;

// One state of the stack.
struct ModeState {
  bool record_by_default = true;
  std::vector<std::pair<const Session*, bool>> sessions;  // that differ from it, sorted
  std::vector<std::pair<BackpropId, bool>> exceptions;    // from either, sorted by id

  bool RecordsByDefault(const Session* session) const;
  bool RecordsAny(const Session* session) const {
    return !exceptions.empty() || RecordsByDefault(session);
  }
  // A graph of that session.
  bool Records(const Session* session, BackpropId id) const;
  friend bool operator==(const ModeState& a, const ModeState& b) {
    return a.record_by_default == b.record_by_default && a.sessions == b.sessions &&
           a.exceptions == b.exceptions;
  }
};

// Of the calling thread.
const ModeState& CurrentMode();

// What stands for a state on the wire. Number 0 records everything. Equal states share a number,
// and a number that no thread uses any more may get another state, and a new version with it.
struct ModeNumber {
  uint16_t number = 0;
  uint32_t version = 1;
};
// Of the calling thread.
ModeNumber CurrentModeNumber();

// Pushes: recording on or off for all graphs, for those of one session, or for some (none is
// nothing changed). Every push has its pop. The default graph is one of each session, with the same
// id.
void PushMode(bool record);
void PushMode(bool record, const Session& session);
void PushMode(bool record, absl::Span<const BackpropId> ids);
void PopMode();

// {NoBackpropMode scope; ...} records nothing.
class NoBackpropMode {
 public:
  NoBackpropMode() { PushMode(false); }
  explicit NoBackpropMode(absl::Span<const BackpropId> ids) { PushMode(false, ids); }
  ~NoBackpropMode() { PopMode(); }
  NoBackpropMode(const NoBackpropMode&) = delete;
  NoBackpropMode& operator=(const NoBackpropMode&) = delete;
};

// Records again inside of a NoBackpropMode.
class ForceBackpropMode {
 public:
  ForceBackpropMode() { PushMode(true); }
  explicit ForceBackpropMode(absl::Span<const BackpropId> ids) { PushMode(true, ids); }
  ~ForceBackpropMode() { PopMode(); }
  ForceBackpropMode(const ForceBackpropMode&) = delete;
  ForceBackpropMode& operator=(const ForceBackpropMode&) = delete;
};

}  // namespace chx

#endif  // CHX_CLIENT_MODES_H_
