// Sessions as files hold them.
#ifndef CHX_TESTS_STATE_SNAPSHOTS_H_
#define CHX_TESTS_STATE_SNAPSHOTS_H_

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "server/session/session.h"
#include "server/state/run_messages.h"
#include "server/state/session_reader.h"
#include "server/state/session_writer.h"

namespace chx::server {

inline std::string SnapshotOf(Session* session, state::Head head = {}) {
  const OwnedFd fd(memfd_create("snapshot", 0));
  PartWriter writer(fd.get());
  absl::Status status;
  session->Inspect([&](SessionState& state) {
    AddRuns(session, &head);
    status = WriteSession(&state, head, &writer);
  });
  EXPECT_TRUE(status.ok()) << status;
  std::string data(writer.bytes(), '\0');
  EXPECT_EQ(pread(fd.get(), &data[0], data.size(), 0), static_cast<ssize_t>(data.size()));
  return data;
}

// Into a session that has nothing yet, without its runs, which are in *runs. `edit`: what another
// daemon would have written.
inline absl::Status Restore(const std::string& data, Session* session,
                            std::vector<RunRecord>* runs = nullptr,
                            const std::function<void(state::Head*)>& edit = nullptr) {
  const OwnedFd fd(memfd_create("snapshot", 0));
  EXPECT_EQ(write(fd.get(), data.data(), data.size()), static_cast<ssize_t>(data.size()));
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_SET), 0);
  PartReader reader(fd.get());
  CHX_ASSIGN_OR_RETURN(state::Head head, ReadHead(&reader));
  if (edit != nullptr) edit(&head);
  absl::Status status;
  session->Inspect([&](SessionState& state) { status = ReadSession(head, &reader, &state); });
  for (const state::Run& run : head.runs()) {
    if (runs != nullptr) runs->push_back(RecordFrom(run));
  }
  return status;
}

}  // namespace chx::server

#endif  // CHX_TESTS_STATE_SNAPSHOTS_H_
