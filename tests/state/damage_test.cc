// Snapshots that are not what was written.
#include "tests/session/session_fixture.h"
#include "tests/state/snapshots.h"

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
    state::Head head;
    head.set_name("exp-42");
    return SnapshotOf(session_.get(), head);
  }

  absl::Status Read(const std::string& data) {
    Session session(&devices_, SessionLimits());
    return Restore(data, &session);
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
