// Sessions whose newest snapshot is damaged are taken up from the one before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <utility>

#include "server/state/state_store.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kPatience(10);
constexpr int64_t kMiB = 1 << 20;

// A daemon's part that keeps sessions.
struct Keeper {
  Keeper(const std::string& folder, int keep, const Devices* devices, MemoryBudget* budget) {
    StateOptions state;
    state.folder = folder;
    state.keep = keep;
    state.find_tenant = [](const std::string& /*name*/) { return DefaultTenant(); };
    state.read_stream = [](const MemoryAccountPtr& /*account*/, absl::string_view /*data*/)
        -> absl::StatusOr<std::unique_ptr<TransportState>> { return nullptr; };
    store = *StateStore::Open(std::move(state));
    ManagerOptions options;
    options.budget = budget;
    options.on_ended = [this](const std::string& key) { store->Forget(key); };
    manager = std::make_unique<SessionManager>(devices, options);
    store->Start(manager.get());
  }
  ~Keeper() { store->Stop(); }
  Keeper(const Keeper&) = delete;
  absl::StatusOr<SessionRecordPtr> Open() const {
    SessionOwner owner;
    owner.name = "exp";
    owner.client_name = "a client";
    return manager->Open(owner);
  }

  std::unique_ptr<StateStore> store;
  std::unique_ptr<SessionManager> manager;
};

class KeptSnapshotsTest : public SessionTest {
 protected:
  KeptSnapshotsTest() : seed_(std::random_device()()), random_(seed_) {
    std::string pattern = std::string(::testing::TempDir()) + "/keptXXXXXX";
    folder_ = mkdtemp(&pattern[0]);
  }
  ~KeptSnapshotsTest() override {
    if (HasFailure()) std::cerr << "seed " << seed_ << "\n";
  }
  Keeper Start(int keep, MemoryBudget* budget = nullptr) {
    return {folder_, keep, &devices_, budget};
  }
  // Snapshots of a session, in which array 1 has so many bytes, and the batch's number is 1, 2, ...
  std::string WriteSnapshots(const std::vector<int64_t>& sizes) {
    const Keeper keeper = Start(static_cast<int>(sizes.size()));
    const SessionRecordPtr record = *keeper.Open();
    for (int64_t size : sizes) {
      SessionOutput output;
      const std::vector<Command> commands = {
          ReleaseOf({1}), OpByDefault("full", {}, {1}, {Ints{size}, Scalar(1), Dtype::kInt8})};
      record->session->Execute(commands, &output);
      ++record->last_batch_seq;
      EXPECT_EQ(keeper.store->SnapshotAll(kPatience).sessions, 1);
    }
    return record->id;
  }
  static int64_t SizeOf(const SessionRecordPtr& record) {
    int64_t bytes = 0;
    record->session->Inspect([&](SessionState& session) {
      bytes = session.handles.Find(1)->variable.array.spec.nbytes();
    });
    return bytes;
  }
  std::vector<std::string> FilesOf(const std::string& ending) const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() == ending) paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  // Cuts it off, or changes a bit of it.
  void Damage(const std::string& path) {
    const uintmax_t size = std::filesystem::file_size(path);
    if (random_() % 2 == 0) return std::filesystem::resize_file(path, random_() % size);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(random_() % size);
    const int byte = file.seekg(at).get();
    file.seekp(at).put(static_cast<char>(byte ^ (1 << random_() % 8)));
  }

  const uint32_t seed_;
  std::mt19937 random_;
  std::string folder_;
};

TEST_F(KeptSnapshotsTest, TheOneBeforeTakesThePlaceOfADamagedOne) {
  for (int i = 0; i < 40; ++i) {
    const std::string id = WriteSnapshots({100, 200, 300});
    const auto newest = FilesOf(".session");
    ASSERT_EQ(newest.size(), 1u);
    ASSERT_EQ(FilesOf(".older").size(), 2u);
    const uint64_t damaged = 1 + random_() % 2;
    Damage(newest[0]);
    if (damaged == 2) Damage(FilesOf(".older").back());
    absl::Time written;
    for (int later = 0; later < 2; ++later) {
      const Keeper keeper = Start(3);
      const SessionRecordPtr record = keeper.manager->Find(id);
      ASSERT_NE(record, nullptr);
      EXPECT_EQ(record->last_batch_seq, 3 - damaged);
      EXPECT_EQ(SizeOf(record), static_cast<int64_t>(300 - 100 * damaged));
      if (later == 0) written = record->snapshot_time;
      EXPECT_EQ(record->snapshot_time, written);
      // The damaged ones are gone: no later daemon finds them to be whole.
      EXPECT_EQ(FilesOf(".session"), newest);
      EXPECT_EQ(FilesOf(".older").size(), 2 - damaged);
      if (later == 0) continue;
      EXPECT_EQ(keeper.store->SnapshotAll(kPatience).sessions, 1);
      EXPECT_EQ(FilesOf(".older").size(), 3 - damaged);
      ASSERT_TRUE(keeper.manager->Close(id).ok());
      while (!FilesOf(".session").empty()) std::this_thread::yield();
      while (!FilesOf(".older").empty()) std::this_thread::yield();
    }
  }
}

TEST_F(KeptSnapshotsTest, OneWithoutRoomIsNotDamaged) {
  const std::string id = WriteSnapshots({100, 8 * kMiB});
  {
    MemoryBudget budget(4 * kMiB);
    const Keeper keeper = Start(2, &budget);
    EXPECT_EQ(keeper.manager->Find(id), nullptr);
    EXPECT_TRUE(absl::IsResourceExhausted(keeper.Open().status()));
    EXPECT_EQ(keeper.store->SnapshotAll(kPatience).sessions, 0);
  }
  EXPECT_EQ(FilesOf(".older").size(), 1u);
  const Keeper keeper = Start(2);
  const SessionRecordPtr record = keeper.manager->Find(id);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(SizeOf(record), 8 * kMiB);
}

// Also the one before may have no room; it is taken when there is some.
TEST_F(KeptSnapshotsTest, TheOneBeforeWaitsForRoom) {
  const std::string id = WriteSnapshots({8 * kMiB, 100});
  Damage(FilesOf(".session")[0]);
  MemoryBudget budget(10 * kMiB);
  budget.Charge(4 * kMiB);
  const Keeper keeper = Start(2, &budget);
  EXPECT_EQ(keeper.manager->Find(id), nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(keeper.Open().status()));
  EXPECT_EQ(FilesOf(".older").size(), 1u);
  budget.Release(4 * kMiB, /*heap=*/false);
  absl::StatusOr<SessionRecordPtr> record;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    record = keeper.manager->FindOrRestore(id, *DefaultTenant());
  } while (absl::IsResourceExhausted(record.status()));
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_NE(*record, nullptr);
  EXPECT_EQ(SizeOf(*record), 8 * kMiB);
  EXPECT_EQ(FilesOf(".older").size(), 0u);
}

TEST_F(KeptSnapshotsTest, IfAllAreDamagedTheyStay) {
  const std::string id = WriteSnapshots({100, 200});
  Damage(FilesOf(".session")[0]);
  Damage(FilesOf(".older")[0]);
  const Keeper keeper = Start(2);
  EXPECT_EQ(keeper.manager->Find(id), nullptr);
  const absl::Status refused = keeper.Open().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("could not be restored: the snapshot "));
  EXPECT_EQ(FilesOf(".session").size() + FilesOf(".older").size(), 2u);
}

// The one before may be of a former client, and the one that has lost the session is told so.
TEST_F(KeptSnapshotsTest, OfAFormerClient) {
  std::string former;
  std::string id;
  {
    const Keeper keeper = Start(2);
    former = (*keeper.Open())->id;
    EXPECT_EQ(keeper.store->SnapshotAll(kPatience).sessions, 1);
    id = (*keeper.Open())->id;
    ASSERT_NE(id, former);
    EXPECT_EQ(keeper.store->SnapshotAll(kPatience).sessions, 1);
  }
  const std::string newest = FilesOf(".session")[0];
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 1);
  const Keeper keeper = Start(2);
  EXPECT_EQ(keeper.manager->Find(id), nullptr);
  ASSERT_NE(keeper.manager->Find(former), nullptr);
  EXPECT_THAT(std::string(keeper.manager->WhyGone(id).message()),
              HasSubstr("the newest snapshot of the session 'exp' is damaged"));
}

}  // namespace
}  // namespace chx::server
