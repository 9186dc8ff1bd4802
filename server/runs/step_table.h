// Numbers of each step of a run, in an array of its session's.
#ifndef CHX_SERVER_RUNS_STEP_TABLE_H_
#define CHX_SERVER_RUNS_STEP_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/session/session.h"

namespace chx::server {

// An array int64(rows, columns) under a handle. Used by one thread; reads many rows at once, so
// that the session is seldom asked.
class StepTable {
 public:
  // Empty: its rows have no numbers.
  StepTable() = default;
  StepTable(Handle handle, int64_t rows, int64_t columns)
      : handle_(handle), rows_(rows), columns_(columns) {}

  Handle handle() const { return handle_; }
  // What is read at once.
  static int64_t BlockBytes(int64_t columns);
  // The numbers of a row, until the next call. Takes the session's lock now and then.
  absl::StatusOr<absl::Span<const int64_t>> Row(int64_t row, Session* session);

 private:
  Handle handle_ = 0;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t begin_ = 0;  // the first row of the block
  std::vector<int64_t> block_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RUNS_STEP_TABLE_H_
