// Snapshots of sessions that share arrays: each has what is its own, and nothing of others.
#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "server/sharing/shared_store.h"
#include "tests/session/session_fixture.h"
#include "tests/session/sharing_client.h"
#include "tests/state/snapshots.h"

namespace chx::server {
namespace {

constexpr int64_t kSize = 1 << 16;

class SharedStateTest : public SessionTest {
 protected:
  SharedStateTest()
      : owner_(std::make_unique<Client>(&devices_, &store_)),
        holder_(std::make_unique<Client>(&devices_, &store_)) {
    owner_->Fill(1, kSize, 2);
  }

  void OpenAs(Handle handle, int64_t expires_ms = 0) {
    command::GrantAccess grant;
    grant.handle = 1;
    grant.expires_ms = expires_ms;
    const absl::StatusOr<std::string> capability = owner_->Ask(grant);
    ASSERT_TRUE(capability.ok()) << capability.status();
    capability_ = *capability;
    ASSERT_TRUE(holder_->Open(capability_, handle).ok());
  }
  // What another daemon makes of a client's session.
  std::unique_ptr<Client> Next(Client* client) {
    auto next = std::make_unique<Client>(&devices_, &store_);
    const absl::Status restored = Restore(SnapshotOf(&client->session()), &next->session());
    EXPECT_TRUE(restored.ok()) << restored;
    return next;
  }
  static void ExpectLeftOut(Client* client, Handle handle) {
    const absl::Status status = client->Read(handle).status();
    EXPECT_EQ(KindOf(status), ErrorKind::kContext) << status;
    EXPECT_NE(std::string(status.message()).find("look them up again"), std::string::npos)
        << status;
  }

  SharedStore store_;
  std::unique_ptr<Client> owner_;
  std::unique_ptr<Client> holder_;
  std::string capability_;
};

TEST_F(SharedStateTest, TheOwnerHasItAndTheHolderHasNot) {
  OpenAs(5);
  holder_->Fill(6, 3, 7);
  EXPECT_EQ(Next(owner_.get())->Read(1)->back(), 2);
  const std::unique_ptr<Client> next = Next(holder_.get());
  ExpectLeftOut(next.get(), 5);
  EXPECT_EQ(next->Read(6)->front(), 7);
}

TEST_F(SharedStateTest, WhatIsWithdrawnIsNotRead) {
  OpenAs(5);
  ASSERT_TRUE(owner_->Ask(command::Revoke{0, capability_}).ok());
  ASSERT_TRUE(owner_->Do(command::Release{Handles{1}}).ok());
  ExpectLeftOut(Next(holder_.get()).get(), 5);
}

TEST_F(SharedStateTest, WhatHasExpiredIsNotRead) {
  OpenAs(5, 50);
  absl::SleepFor(absl::Milliseconds(80));
  ASSERT_FALSE(holder_->Read(5).ok());
  ASSERT_TRUE(owner_->Do(command::Release{Handles{1}}).ok());
  ExpectLeftOut(Next(holder_.get()).get(), 5);
}

TEST_F(SharedStateTest, WhatEndsWithItsOwnerIsNotRead) {
  OpenAs(5);
  owner_->End();
  ExpectLeftOut(Next(holder_.get()).get(), 5);
}

// x is the holder's, w is not: of y = x w the graph has saved w, of z = x + w nothing.
TEST_F(SharedStateTest, GraphsThatHaveSavedItAreLeftOut) {
  OpenAs(5);
  holder_->Fill(6, kSize, 3);
  ASSERT_TRUE(holder_->Do(command::RequireGrad{6}).ok());
  ASSERT_TRUE(holder_->Do(Op("multiply", {A(6), A(5)}, {7})).ok());
  ASSERT_TRUE(holder_->Do(Op("tanh", {A(7)}, {8})).ok());
  ASSERT_TRUE(holder_->Do(Op("add", {A(6), A(5)}, {9})).ok());
  ASSERT_TRUE(holder_->Do(command::Release{Handles{7}}).ok());
  const std::unique_ptr<Client> next = Next(holder_.get());
  EXPECT_EQ(next->Read(6)->back(), 3);
  ExpectLeftOut(next.get(), 8);
  EXPECT_EQ(next->Read(9)->back(), 5);
  command::Backward backward;
  backward.outputs = {9};
  ASSERT_TRUE(next->Do(backward).ok());
  ASSERT_TRUE(next->Do(command::GetGrad{6, 0, 10}).ok());
  EXPECT_EQ(next->Read(10)->back(), 1);
}

TEST_F(SharedStateTest, AGradientThatIsBorrowedIsLeftOut) {
  OpenAs(5);
  holder_->Fill(6, kSize, 3);
  ASSERT_TRUE(holder_->Do(command::RequireGrad{6}).ok());
  ASSERT_TRUE(holder_->Do(command::SetGrad{6, 5, 0}).ok());
  ASSERT_TRUE(holder_->Do(command::GetGrad{6, 0, 7}).ok());
  ASSERT_EQ(holder_->Read(7)->back(), 2);
  const std::unique_ptr<Client> next = Next(holder_.get());
  EXPECT_EQ(next->Read(6)->back(), 3);
  EXPECT_FALSE(next->Do(command::GetGrad{6, 0, 8}).ok() && next->Read(8).ok());
}

// A snapshot has all of another session's write to what is shared, or nothing.
TEST_F(SharedStateTest, NobodysWriteIsHalfThere) {
  const absl::StatusOr<std::string> capability = owner_->Share(1, /*write=*/true);
  ASSERT_TRUE(capability.ok()) << capability.status();
  ASSERT_TRUE(holder_->Open(*capability, 5).ok());
  std::atomic<bool> done{false};
  std::thread writer([&] {
    while (!done) ASSERT_TRUE(holder_->AddOne(5).ok());
  });
  for (int i = 0; i < 50; ++i) {
    const absl::StatusOr<std::vector<float>> values = Next(owner_.get())->Read(1);
    ASSERT_TRUE(values.ok()) << values.status();
    ASSERT_EQ(values->front(), values->back());
  }
  done = true;
  writer.join();
}

}  // namespace
}  // namespace chx::server
