#include "server/state/state_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
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

// Three daemons one after the other: the second and the third have room for one session.
TEST_F(StateStoreTest, ASessionWithoutRoomIsRestoredWhenItIsAskedForAndThereIsSome) {
  constexpr int64_t kMiB = 1 << 20;
  constexpr int64_t kElements = 8 * kMiB / 4;
  const auto named = [](const std::string& name) {
    SessionOwner owner;
    owner.name = name;
    return owner;
  };
  const auto files = [this] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      count += entry.path().extension() == ".session" ? 1 : 0;
    }
    return count;
  };
  std::map<std::string, std::string> names;  // by id
  {
    auto store = *Open();
    SessionManager manager(&devices_, {});
    store->Start(&manager);
    for (const char* name : {"a", "b"}) {
      const SessionRecordPtr record = *manager.Open(named(name));
      names[record->id] = name;
      SessionOutput output;
      const Command full = OpByDefault(
          "full", {}, {1}, {Ints{kElements}, Scalar(name[0] == 'a' ? 1 : 2), Dtype::kFloat32});
      record->session->Execute({&full, 1}, &output);
      ASSERT_TRUE(output.errors.empty()) << output.errors[0].error->status;
    }
    EXPECT_EQ(store->SnapshotAll(std::chrono::seconds(1)).sessions, 2);
  }
  for (const bool last : {false, true}) {
    SCOPED_TRACE(last);
    auto store = *Open();
    MemoryBudget budget(14 * kMiB);
    ManagerOptions options;
    options.budget = &budget;
    options.on_ended = [&store](const std::string& key) { store->Forget(key); };
    SessionManager manager(&devices_, options);
    store->Start(&manager);
    ASSERT_EQ(manager.List().size(), 1u);
    const std::string there = manager.List()[0]->id;
    std::string waiting;
    for (const auto& [id, name] : names) waiting = id == there ? waiting : id;
    for (const absl::Status& refused : {manager.FindOrRestore(waiting, *DefaultTenant()).status(),
                                        manager.Open(named(names[waiting])).status()}) {
      EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
      EXPECT_TRUE(absl::StrContains(refused.message(), "it is kept there, and restored when"));
      EXPECT_TRUE(absl::StrContains(refused.message(), "try again in 30 s")) << refused;
    }
    // To another tenant it does not exist.
    Tenant other;
    other.name = "other";
    EXPECT_EQ(*manager.FindOrRestore(waiting, other), nullptr);
    EXPECT_EQ(store->SnapshotAll(std::chrono::seconds(1)).sessions, 1);
    EXPECT_EQ(files(), 2u);
    if (!last) continue;  // as if killed
    ASSERT_TRUE(manager.Close(there).ok());
    absl::StatusOr<SessionRecordPtr> record;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      record = manager.FindOrRestore(waiting, *DefaultTenant());
    } while (absl::IsResourceExhausted(record.status()));
    ASSERT_TRUE(record.ok()) << record.status();
    ASSERT_NE(*record, nullptr);
    EXPECT_EQ((*record)->owner.name, names[waiting]);
    float value = 0;
    (*record)->session->Inspect([&](SessionState& session) {
      const Array& array = session.handles.Find(1)->variable.array;
      ASSERT_EQ(array.spec.nbytes(), 4 * kElements);
      std::memcpy(&value, array.data() + 4 * (kElements - 1), sizeof(value));
    });
    EXPECT_EQ(value, names[waiting] == "a" ? 1.0F : 2.0F);
    EXPECT_EQ(files(), 1u);
    EXPECT_EQ((*manager.Open(named(names[waiting])))->session, (*record)->session);
    // What it has become is nobody else's, by its former id.
    EXPECT_EQ(*manager.FindOrRestore(waiting, *DefaultTenant()), nullptr);
  }
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
