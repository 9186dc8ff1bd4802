// Sessions that share arrays: capabilities, names, rights, ends and locks.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "proto/shared_names.h"
#include "server/session/session_manager.h"
#include "server/sharing/shared_store.h"
#include "tests/session/session_fixture.h"
#include "tests/session/sharing_client.h"

namespace chx::server {
namespace {

std::string Text(const absl::Status& status) { return std::string(status.message()); }

bool Says(const absl::Status& status, const std::string& text) {
  return !status.ok() && Text(status).find(text) != std::string::npos;
}

class SharingTest : public SessionTest {
 protected:
  std::unique_ptr<Client> New(TenantPtr tenant = NewTenant("lab")) {
    return std::make_unique<Client>(&devices_, &store_, std::move(tenant));
  }

  SharedStore store_;
};

TEST_F(SharingTest, HoldersSeeWhatTheOwnerWrites) {
  auto owner = New(), holder = New();
  owner->Fill(1, 1000, 2);
  const absl::StatusOr<std::string> capability = owner->Share(1);
  ASSERT_TRUE(capability.ok()) << capability.status();
  ASSERT_TRUE(holder->Open(*capability, 5).ok());
  EXPECT_EQ(holder->Read(5)->front(), 2);
  ASSERT_TRUE(owner->AddOne(1).ok());
  EXPECT_EQ(holder->Read(5)->back(), 3);
  // Without the owner's handle the memory is there, too.
  ASSERT_TRUE(owner->Do(command::Release{Handles{1}}).ok());
  EXPECT_EQ(holder->Read(5)->back(), 3);
}

TEST_F(SharingTest, MemoryIsCountedOnceAndShownAtHolders) {
  auto owner = New(), holder = New();
  constexpr int64_t kBytes = 4 << 20;
  owner->Fill(1, kBytes / 4, 1);
  const std::string capability = *owner->Share(1);
  ASSERT_TRUE(holder->Open(capability, 5).ok());
  ASSERT_TRUE(holder->Open(capability, 6).ok());
  EXPECT_GE(owner->memory(), kBytes);
  EXPECT_LT(holder->memory(), kBytes / 4);
  EXPECT_EQ(holder->session().stats().shared_bytes, 2 * kBytes);
  ASSERT_TRUE(holder->Do(command::Release{Handles{5, 6}}).ok());
  EXPECT_EQ(holder->session().stats().shared_bytes, 0);
  // A second share does not move it again.
  const int64_t before = owner->memory();
  ASSERT_TRUE(owner->Share(1).ok());
  EXPECT_EQ(owner->memory(), before);
}

TEST_F(SharingTest, MemoryIsFreedWithItsLastUser) {
  auto owner = New(), holder = New();
  owner->Fill(1, 1 << 20, 1);
  const int64_t used = devices_.slot(0).used_bytes;
  const std::string capability = *owner->Share(1, false, /*keep=*/true);
  ASSERT_TRUE(holder->Open(capability, 5).ok());
  owner->End();
  EXPECT_EQ(holder->Read(5)->back(), 1);
  EXPECT_GE(devices_.slot(0).used_bytes, 4 << 20);
  ASSERT_TRUE(holder->Ask(command::Revoke{0, capability}).ok());  // its owner has gone
  holder->End();
  EXPECT_LT(devices_.slot(0).used_bytes, used - (3 << 20));
}

TEST_F(SharingTest, ReadRightsRefuseWritesOfAllKinds) {
  auto owner = New(), holder = New();
  owner->Fill(1, 100, 2);
  ASSERT_TRUE(holder->Open(*owner->Share(1), 5).ok());
  const absl::Status refused = holder->AddOne(5);
  EXPECT_TRUE(Says(refused, "[add_] expects an array that it may write to")) << refused;
  // Nor through a view, by a list, or as the memory of a result.
  command::ApplyOp view = Op("reshape", {A(5)}, {6}, {AttrValue::FromInts({10, 10})});
  ASSERT_TRUE(holder->Do(view).ok());
  EXPECT_TRUE(Says(holder->AddOne(6), "expects an array that it may write to"));
  holder->Fill(7, 100, 1);
  ASSERT_TRUE(holder->Do(Op("copyto", {A(5), A(7)}, {})).ok() == false);
  // The window of commands releases the input: its memory must not become the output's.
  SessionOutput output;
  const std::vector<Command> window = {Op("negative", {A(5)}, {8}), ReleaseOf({5, 6})};
  holder->session().Execute(window, &output);
  EXPECT_EQ(holder->Read(8)->front(), -2);
  EXPECT_EQ(owner->Read(1)->front(), 2);
}

TEST_F(SharingTest, WriteRightsWrite) {
  auto owner = New(), holder = New();
  owner->Fill(1, 100, 2);
  ASSERT_TRUE(holder->Open(*owner->Share(1, /*write=*/true), 5).ok());
  ASSERT_TRUE(holder->AddOne(5).ok());
  EXPECT_EQ(owner->Read(1)->front(), 3);
}

TEST_F(SharingTest, ACopyBecomesPrivateAtItsFirstWrite) {
  auto owner = New(), holder = New();
  owner->Fill(1, 1 << 20, 2);
  ASSERT_TRUE(holder->Open(*owner->Share(1), 5, /*copy=*/true).ok());
  ASSERT_TRUE(holder->Do(Op("reshape", {A(5)}, {6}, {AttrValue::FromInts({-1, 16})})).ok());
  EXPECT_LT(holder->memory(), 1 << 20);
  ASSERT_TRUE(owner->AddOne(1).ok());
  EXPECT_EQ(holder->Read(5)->front(), 3);
  ASSERT_TRUE(holder->AddOne(6).ok());  // through a view: all views have the copy
  EXPECT_EQ(holder->Read(5)->front(), 4);
  EXPECT_EQ(owner->Read(1)->front(), 3);
  EXPECT_GE(holder->memory(), 4 << 20);
  EXPECT_EQ(holder->session().stats().shared_bytes, 0);
  ASSERT_TRUE(holder->Share(5).ok());  // it is the holder's own now
}

TEST_F(SharingTest, RightsAreNotPassedOn) {
  auto owner = New(), holder = New();
  owner->Fill(1, 100, 2);
  ASSERT_TRUE(holder->Open(*owner->Share(1, true), 5).ok());
  EXPECT_TRUE(Says(holder->Share(5).status(), "[share] expects an array of this session's own"));
  EXPECT_TRUE(Says(holder->Publish("x", Handles{5}).status(), "of this session's own"));
}

TEST_F(SharingTest, RevokedIsGoneForHoldersAndItsMemoryIsFreed) {
  auto owner = New(), holder = New();
  owner->Fill(1, 1 << 20, 2);
  const std::string capability = *owner->Share(1);
  ASSERT_TRUE(holder->Open(capability, 5).ok());
  ASSERT_TRUE(owner->Do(command::Release{Handles{1}}).ok());
  EXPECT_TRUE(Says(holder->Ask(command::Revoke{0, capability}).status(), "this session has given"));
  EXPECT_EQ(holder->Read(5)->front(), 2);
  const int64_t used = devices_.slot(0).used_bytes;
  ASSERT_TRUE(owner->Ask(command::Revoke{0, capability}).ok());
  EXPECT_LE(devices_.slot(0).used_bytes, used - (4 << 20));  // although the holder has its handle
  EXPECT_TRUE(Says(holder->Read(5).status(), "the capability was revoked"));
  EXPECT_TRUE(
      Says(holder->Do(Op("negative", {A(5)}, {6})), "[negative] the capability was revoked"));
  EXPECT_TRUE(Says(holder->Read(6).status(), "the capability was revoked"));
  EXPECT_TRUE(Says(holder->Open(capability, 7), "has been revoked"));
  EXPECT_TRUE(Says(holder->Read(7).status(), "has been revoked"));  // the promised result
  EXPECT_EQ(KindOf(holder->Read(5).status()), ErrorKind::kContext);
}

TEST_F(SharingTest, CapabilitiesExpire) {
  auto owner = New(), holder = New();
  owner->Fill(1, 100, 2);
  command::GrantAccess grant;
  grant.handle = 1;
  grant.expires_ms = 300;
  const absl::Time end = absl::Now() + absl::Milliseconds(300);
  const std::string capability = *owner->Ask(grant);
  const absl::Time expired = absl::Now() + absl::Milliseconds(320);
  const absl::Status opened = holder->Open(capability, 5);
  if (absl::Now() < end) {
    EXPECT_TRUE(opened.ok()) << opened;
  }
  absl::SleepFor(expired - absl::Now());
  EXPECT_FALSE(holder->Read(5).ok());
  EXPECT_TRUE(Says(holder->Open(capability, 6), "has expired"));
  grant.expires_ms = -1;
  EXPECT_TRUE(Says(owner->Ask(grant).status(), "expects expires in the future"));
}

// The manager looks after it, while neither session does anything.
TEST_F(SharingTest, MemoryIsBackWhenACapabilityHasExpired) {
  ManagerOptions options;
  options.sharing = &store_;
  const SessionManager manager(&devices_, options);
  constexpr int64_t kBytes = 4 << 20;
  auto owner = New(), holder = New();
  owner->Fill(1, kBytes / 4, 2);
  command::GrantAccess grant;
  grant.handle = 1;
  grant.keep = true;
  grant.expires_ms = 300;
  const std::string capability = *owner->Ask(grant);
  holder->Open(capability, 5).IgnoreError();  // on a slow machine it may have expired
  const int64_t memory = owner->memory();
  ASSERT_GE(memory, kBytes);
  ASSERT_TRUE(owner->Do(command::Release{Handles{1}}).ok());
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (owner->memory() > memory - kBytes && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_LE(owner->memory(), memory - kBytes);
  EXPECT_EQ(store_.capabilities().size(), 0u);
  EXPECT_EQ(holder->session().stats().shared_bytes, 0);
}

TEST_F(SharingTest, OnlyTheTenantOpensUnlessAnotherIsNamed) {
  auto owner = New(), other = New(NewTenant("vision"));
  owner->Fill(1, 100, 2);
  EXPECT_TRUE(Says(other->Open(*owner->Share(1), 5), "or is for another tenant"));
  EXPECT_TRUE(other->Open(*owner->Share(1, false, false, "vision"), 6).ok());
  EXPECT_TRUE(other->Open(*owner->Share(1, false, false, "*"), 7).ok());
  auto barred = New(NewTenant("guests", /*may_share=*/false));
  barred->Fill(1, 10, 1);
  EXPECT_TRUE(Says(barred->Open(*owner->Share(1, false, false, "*"), 5), "lack shared-names"));
  EXPECT_TRUE(Says(barred->Share(1).status(), "lack shared-names"));
  EXPECT_TRUE(Says(barred->Publish("x", Handles{1}).status(), "lack shared-names"));
  EXPECT_TRUE(Says(barred->Ask(command::ListNames{0, ""}).status(), "lack shared-names"));
}

TEST_F(SharingTest, CapabilitiesAreNotGuessed) {
  auto owner = New(), holder = New();
  owner->Fill(1, 100, 2);
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string capability = *owner->Share(1);
    EXPECT_EQ(capability.size(), 8u + 22u);  // 128 bits
    EXPECT_TRUE(seen.insert(capability).second);
  }
  std::string changed = *seen.begin();
  changed[10] = changed[10] == 'A' ? 'B' : 'A';
  EXPECT_TRUE(Says(holder->Open(changed, 5), "one that never was"));
  EXPECT_TRUE(Says(holder->Open("", 6), "begins with chx-cap:"));
  EXPECT_TRUE(Says(holder->Open(std::string(1 << 16, '\xff'), 7), "begins with chx-cap:"));
}

TEST_F(SharingTest, TheOwnersEndIsAsItChose) {
  auto owner = New(), holder = New();
  owner->Fill(1, 100, 2);
  owner->Fill(2, 100, 3);
  ASSERT_TRUE(holder->Open(*owner->Share(1), 5).ok());
  ASSERT_TRUE(holder->Open(*owner->Share(2, false, /*keep=*/true), 6).ok());
  owner->End();
  EXPECT_TRUE(Says(holder->Read(5).status(), "the session that shared this array has ended"));
  EXPECT_EQ(holder->Read(6)->front(), 3);
}

TEST_F(SharingTest, NamesHaveVersionsAndReaders) {
  auto owner = New(), holder = New(), other = New(NewTenant("vision"));
  owner->Fill(1, 100, 2);
  owner->Fill(2, 100, 3);
  EXPECT_TRUE(owner->Publish("resnet50/weights", Handles{1, 2}).ok());
  EXPECT_TRUE(owner->Publish("resnet50/weights", Handles{2}, false, "vision").ok());
  command::Lookup lookup;
  lookup.name = "resnet50/weights";
  SharedTree tree = *DecodeSharedTree(*holder->Ask(lookup));
  EXPECT_EQ(tree.version, 2u);
  EXPECT_EQ(tree.structure, "{}");
  EXPECT_EQ(tree.arrays[0].first, "layers/2");
  lookup.version = 1;
  lookup.results = Handles{5};
  EXPECT_TRUE(Says(holder->Ask(lookup).status(), "a result for each of 2 arrays, got 1"));
  EXPECT_TRUE(Says(holder->Read(5).status(), "a result for each"));
  lookup.results = Handles{6, 7};
  ASSERT_TRUE(holder->Ask(lookup).ok());
  EXPECT_EQ(holder->Read(6)->front(), 2);
  EXPECT_EQ(holder->Read(7)->front(), 3);
  EXPECT_TRUE(Says(holder->AddOne(6), "may write to"));
  lookup.results.clear();
  lookup.tenant = "lab";
  EXPECT_TRUE(Says(other->Ask(lookup).status(), "got resnet50/weights in version 1"));
  lookup.version = 0;
  EXPECT_EQ(DecodeSharedTree(*other->Ask(lookup))->version, 2u);
  const auto listed = *DecodeSharedNames(*other->Ask(command::ListNames{0, "res"}));
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].tenant, "lab");
  EXPECT_EQ(listed[0].bytes, 400u);
  EXPECT_EQ(DecodeSharedNames(*holder->Ask(command::ListNames{0, ""}))->size(), 2u);
  EXPECT_FALSE(other->Ask(command::Unpublish{0, "resnet50/weights", 0}).ok());
  // Another session of the tenant may take it back; its holders hear of it.
  ASSERT_TRUE(holder->Ask(command::Unpublish{0, "resnet50/weights", 1}).ok());
  EXPECT_TRUE(Says(holder->Read(6).status(), "not published any more"));
  owner->End();
  EXPECT_TRUE(DecodeSharedNames(*holder->Ask(command::ListNames{0, ""}))->empty());
}

TEST_F(SharingTest, HostileNamesAndListsAreRefused) {
  auto owner = New();
  owner->Fill(1, 100, 2);
  for (const std::string& name : {std::string(), std::string("A"), std::string("a b"),
                                  std::string("a\n"), std::string(201, 'a'), std::string("\xff")}) {
    EXPECT_TRUE(Says(owner->Publish(name, Handles{1}).status(), "[publish] expects a name"));
  }
  EXPECT_TRUE(Says(owner->Publish("x", Handles{}).status(), "expects arrays, got none"));
  EXPECT_TRUE(Says(owner->Publish("x", Handles{99}).status(), "expects a handle of this session"));
  command::Publish publish;
  publish.name = "x";
  publish.paths = "a\nb\nc";
  publish.handles = Handles{1};
  EXPECT_TRUE(Says(owner->Ask(publish).status(), "expects at most 1 lines"));
  for (size_t i = 0; i < Names::kMaxVersions; ++i) {
    ASSERT_TRUE(owner->Publish("x", Handles{1}).ok());
  }
  EXPECT_TRUE(Says(owner->Publish("x", Handles{1}).status(), "which is the limit"));
}

TEST_F(SharingTest, ShareFailsWhereTheClientSeesTheMemory) {
  auto owner = New();
  owner->Fill(1, 100, 2);
  ASSERT_TRUE(owner->Ask(command::ShareArray{0, 1}).ok());
  EXPECT_TRUE(Says(owner->Share(1).status(), "share a copy of it"));
}

TEST_F(SharingTest, MappedIsForReadingOnly) {
  auto owner = New(), holder = New();
  owner->Fill(1, 1 << 16, 2);
  ASSERT_TRUE(holder->Open(*owner->Share(1, /*write=*/true), 5).ok());
  const SharedBlock block = *DecodeSharedBlock(*holder->Ask(command::ShareArray{0, 5}));
  int64_t bytes = 0;
  const int fd = *holder->session().segments().Duplicate(block.segment, &bytes);
  EXPECT_EQ(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_LT(pwrite(fd, "x", 1, 0), 0);
  EXPECT_LT(ftruncate(fd, 0), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int again = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (again >= 0) {
    EXPECT_EQ(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
    EXPECT_LT(pwrite(again, "x", 1, 0), 0);
    EXPECT_LT(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    close(again);
  }
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_NE(mprotect(mapped, bytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(static_cast<const float*>(mapped)[7], 2);
  ASSERT_TRUE(owner->AddOne(1).ok());
  EXPECT_EQ(static_cast<const float*>(mapped)[7], 3);
  munmap(mapped, bytes);
  close(fd);
}

// Two write in place, one reads: a value that is not the same everywhere is half an update.
TEST_F(SharingTest, NobodySeesHalfAnUpdate) {
  constexpr int kUpdates = 150;
  constexpr int64_t kSize = 1 << 16;
  auto owner = New(), writer = New(), reader = New();
  owner->Fill(1, kSize, 0);
  const std::string capability = *owner->Share(1, /*write=*/true);
  ASSERT_TRUE(writer->Open(capability, 5).ok());
  ASSERT_TRUE(reader->Open(capability, 5).ok());
  std::atomic<int> writing{2};
  const auto update = [&](Client* client, Handle handle) {
    for (int i = 0; i < kUpdates; ++i) EXPECT_TRUE(client->AddOne(handle).ok());
    --writing;
  };
  std::thread first(update, owner.get(), 1);
  std::thread second(update, writer.get(), 5);
  float last = 0;
  while (writing > 0) {
    const std::vector<float> values = *reader->Read(5);
    for (float value : values) ASSERT_EQ(value, values[0]);
    EXPECT_GE(values[0], last);
    last = values[0];
  }
  first.join();
  second.join();
  EXPECT_EQ(reader->Read(5)->front(), 2 * kUpdates);
}

// Commands that lock the same two arrays in opposite orders.
TEST_F(SharingTest, CommandsDoNotWaitInACircle) {
  auto owner = New(), writer = New();
  for (Handle handle : {1, 2}) owner->Fill(handle, 1 << 14, 1);
  for (Handle handle : {1, 2}) {
    ASSERT_TRUE(writer->Open(*owner->Share(handle, true), handle).ok());
  }
  const auto update = [](Client* client, Handle target, Handle source) {
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(client->Do(Op("copyto", {A(target), A(source)}, {})).ok());
    }
  };
  std::thread first(update, owner.get(), 1, 2);
  std::thread second(update, writer.get(), 2, 1);
  first.join();
  second.join();
  EXPECT_EQ(owner->Read(1)->front(), 1);
}

// Whoever writes may be killed at any time.
TEST_F(SharingTest, AWriteThatHasBegunIsFinished) {
  constexpr int64_t kSize = 3 << 20;
  auto owner = New();
  owner->Fill(1, kSize, 0);
  const std::string capability = *owner->Share(1, /*write=*/true);
  for (int round = 0; round < 8; ++round) {
    auto writer = New();
    ASSERT_TRUE(writer->Open(capability, 5).ok());
    std::atomic<int> written{0};
    std::thread thread([&] {
      // Once the session has ended, nothing is run and nothing fails.
      while (!writer->session().stop().session_ended()) {
        writer->AddOne(5).IgnoreError();
        ++written;
      }
    });
    while (written < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(137 * round));
    writer->session().stop().EndSession();
    thread.join();
    writer->End();
    const std::vector<float> values = *owner->Read(1);
    EXPECT_EQ(std::count(values.begin(), values.end(), values[0]), kSize);
  }
}

TEST_F(SharingTest, RevokingMeetsARunningReader) {
  auto owner = New(), reader = New();
  owner->Fill(1, 1 << 18, 1);
  const std::string capability = *owner->Share(1);
  ASSERT_TRUE(reader->Open(capability, 5).ok());
  ASSERT_TRUE(owner->Do(command::Release{Handles{1}}).ok());
  std::atomic<int> read{0};
  std::thread thread([&] {
    for (;;) {
      const auto values = reader->Read(5);
      if (!values.ok()) break;
      for (float value : *values) ASSERT_EQ(value, 1);
      ++read;
    }
  });
  while (read < 3) std::this_thread::yield();
  ASSERT_TRUE(owner->Ask(command::Revoke{0, capability}).ok());
  thread.join();
  EXPECT_TRUE(Says(reader->Read(5).status(), "revoked"));
}

TEST_F(SharingTest, GradientsFlowFromSharedWeights) {
  auto owner = New(), holder = New();
  owner->Fill(1, 4, 3);
  ASSERT_TRUE(holder->Open(*owner->Share(1), 5).ok());
  holder->Fill(6, 4, 2);
  ASSERT_TRUE(holder->Do(command::RequireGrad{6, 0}).ok());
  ASSERT_TRUE(holder->Do(Op("multiply", {A(5), A(6)}, {7})).ok());
  ASSERT_TRUE(holder->Do(BackwardOf({7})).ok());
  ASSERT_TRUE(holder->Do(command::GetGrad{6, 0, 8}).ok());
  EXPECT_EQ(holder->Read(8)->front(), 3);
}

}  // namespace
}  // namespace chx::server
