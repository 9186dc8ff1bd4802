// Snapshots that are not what was written.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/state/session_reader.h"
#include "server/state/session_writer.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

class DamageTest : public SessionTest {
 protected:
  // A small session with some of everything.
  std::string Snapshot() {
    Upload(1, {1, 2, 3, 4}, {2, 2});
    Run({command::RequireGrad{1, 0}, OpByDefault("multiply", {A(1), A(1)}, {2}),
         OpByDefault("sum", {A(2)}, {3}), BackwardOf({3}),
         OpByDefault("matmul", {A(1), A(999)}, {4}), command::DefineLocation{1, "model.py:3"},
         command::SaveArrays{5, "w", "tree", List({1, 2})}, command::NoteGenerator{"counter 1 2"}});
    const OwnedFd fd(memfd_create("snapshot", 0));
    PartWriter writer(fd.get());
    absl::Status status;
    session_->Inspect([&](SessionState& state) {
      state::Head head;
      head.set_name("exp-42");
      status = WriteSession(&state, head, &writer);
    });
    EXPECT_TRUE(status.ok()) << status;
    std::string data(writer.bytes(), '\0');
    EXPECT_EQ(pread(fd.get(), &data[0], data.size(), 0), static_cast<ssize_t>(data.size()));
    return data;
  }

  absl::Status Read(const std::string& data) {
    const OwnedFd fd(memfd_create("snapshot", 0));
    EXPECT_EQ(write(fd.get(), data.data(), data.size()), static_cast<ssize_t>(data.size()));
    EXPECT_EQ(lseek(fd.get(), 0, SEEK_SET), 0);
    PartReader reader(fd.get());
    CHX_ASSIGN_OR_RETURN(const state::Head head, ReadHead(&reader));
    Session session(&devices_, SessionLimits());
    absl::Status status;
    session.Inspect([&](SessionState& state) { status = ReadSession(head, &reader, &state); });
    return status;
  }
};

TEST_F(DamageTest, AnyChangedByteIsRefused) {
  const std::string data = Snapshot();
  ASSERT_TRUE(Read(data).ok()) << Read(data);
  for (size_t i = 0; i < data.size(); ++i) {
    std::string damaged = data;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
    const absl::Status status = Read(damaged);
    ASSERT_FALSE(status.ok()) << "byte " << i << " of " << data.size();
    ASSERT_FALSE(status.message().empty());
  }
}

TEST_F(DamageTest, AnyTruncatedFileIsRefused) {
  const std::string data = Snapshot();
  for (size_t size = 0; size < data.size(); size += 1 + size / 200) {
    ASSERT_FALSE(Read(data.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(Read(data.substr(0, data.size() - 1)).ok());
  EXPECT_FALSE(Read(data + "x").ok());
  EXPECT_FALSE(Read(data + data).ok());
}

}  // namespace
}  // namespace chx::server
