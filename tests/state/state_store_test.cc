#include "server/state/state_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

class StateStoreTest : public SessionTest {
 protected:
  StateStoreTest() {
    std::string pattern = std::string(::testing::TempDir()) + "/stateXXXXXX";
    folder_ = mkdtemp(&pattern[0]);
  }
  absl::StatusOr<std::unique_ptr<StateStore>> Open() {
    StateOptions options;
    options.folder = folder_;
    options.find_tenant = [](const std::string& /*name*/) { return DefaultTenant(); };
    options.read_stream = [](const MemoryAccountPtr& /*account*/, absl::string_view /*data*/)
        -> absl::StatusOr<std::unique_ptr<TransportState>> { return nullptr; };
    return StateStore::Open(std::move(options));
  }
  std::string folder_;
};

TEST_F(StateStoreTest, ASessionComesBackWithItsIdAndName) {
  std::string id;
  {
    auto store = *Open();
    SessionManager manager(&devices_, {});
    store->Start(&manager);
    SessionOwner owner;
    owner.name = "exp-42";
    const SessionRecordPtr record = *manager.Open(owner);
    record->last_batch_seq = 7;
    id = record->id;
    EXPECT_EQ(store->SnapshotAll(std::chrono::seconds(1)).sessions, 1);
  }
  auto store = *Open();
  SessionManager manager(&devices_, {});
  store->Start(&manager);
  const SessionRecordPtr record = manager.Find(id);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->last_batch_seq, 7u);
  EXPECT_EQ(record->owner.name, "exp-42");
  // Another client takes it up, and the former one is told so.
  SessionOwner owner;
  owner.name = "exp-42";
  owner.client_name = "another";
  const absl::StatusOr<SessionRecordPtr> taken = manager.Open(owner);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ((*taken)->session, record->session);
  EXPECT_EQ(manager.Find(id), nullptr);
  EXPECT_EQ(manager.WhyGone(id).message(), "its session 'exp-42' was taken over by another ()");
}

TEST_F(StateStoreTest, TenantsDoNotSeeEachOthersNames) {
  SessionManager manager(&devices_, {});
  auto other = std::make_shared<Tenant>();
  other->name = "other";
  SessionOwner owner;
  owner.name = "exp-42";
  const SessionRecordPtr first = *manager.Open(owner);
  owner.tenant = other;
  const SessionRecordPtr second = *manager.Open(owner);
  EXPECT_NE(first->session, second->session);
  EXPECT_FALSE(second->taken_up);
  EXPECT_EQ(manager.Find(first->id), first);
}

TEST_F(StateStoreTest, TheFolderIsForOneDaemonAndItsUserOnly) {
  auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE(absl::IsAlreadyExists(Open().status()));
  store->reset();
  EXPECT_TRUE(Open().ok());
  ASSERT_EQ(chmod(folder_.c_str(), 0770), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(Open().status()));
}

TEST_F(StateStoreTest, AFailedWriteLeavesTheOldFile) {
  auto folder = *StateFolder::Open(folder_);
  const auto say = [&](absl::string_view text, bool fails) {
    return folder->Replace("a.session", [&](int fd) {
      EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
      return fails ? absl::ResourceExhaustedError("full") : absl::OkStatus();
    });
  };
  EXPECT_TRUE(say("old", false).ok());
  EXPECT_FALSE(say("new", true).ok());
  const auto file = folder->OpenFile("a.session");
  ASSERT_TRUE(file.ok()) << file.status();
  char content[8] = {};
  EXPECT_EQ(read(file->get(), content, sizeof(content)), 3);
  EXPECT_EQ(std::string(content), "old");
  EXPECT_TRUE(folder->List(".tmp")->empty());
}

TEST_F(StateStoreTest, NoNameLeadsOutOfTheFolder) {
  auto folder = *StateFolder::Open(folder_);
  for (const char* name : {"../x", "/etc/passwd", ".", "..", "", "a/b", ".hidden", "A"}) {
    EXPECT_FALSE(folder->OpenFile(name).ok()) << name;
    EXPECT_FALSE(folder->Replace(name, [](int) { return absl::OkStatus(); }).ok()) << name;
  }
  ASSERT_EQ(symlink("/etc/passwd", (folder_ + "/link.session").c_str()), 0);
  EXPECT_FALSE(folder->OpenFile("link.session").ok());
}

}  // namespace
}  // namespace chx::server
