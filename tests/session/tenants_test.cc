// What a tenant's sessions may have, alone and together.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/session/session_manager.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

class SessionTenantsTest : public SessionTest {
 protected:
  SessionTenantsTest() : budget_(256 * kMiB) {
    ManagerOptions options;
    options.lease = std::chrono::minutes(1);
    options.session.memory_bytes = 256 * kMiB;
    options.budget = &budget_;
    manager_ = std::make_unique<SessionManager>(&devices_, options);
  }

  absl::StatusOr<SessionRecordPtr> TryOpen(const Tenant& tenant) {
    SessionOwner owner;
    owner.client_name = "test";
    owner.tenant = std::make_shared<const Tenant>(tenant);
    return manager_->Open(std::move(owner));
  }
  // What a command fails with; OK: it does not.
  static absl::Status Do(const SessionRecordPtr& record, const Command& command) {
    SessionOutput output;
    record->session->Execute({&command, 1}, &output);
    return output.errors.empty() ? absl::OkStatus() : output.errors[0].error->status;
  }
  // An array of so many MiB.
  static absl::Status Hold(const SessionRecordPtr& record, Handle handle, int64_t mib) {
    return Do(record, Op("zeros", {}, {handle}, {Ints{mib * kMiB}, Dtype::kUint8}));
  }
  bool EndsSoon(const SessionRecordPtr& record) {
    for (int i = 0; i < 2000 && manager_->Find(record->id) != nullptr; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return manager_->Find(record->id) == nullptr;
  }

  static Tenant Named(const std::string& name) {
    Tenant tenant;
    tenant.name = name;
    return tenant;
  }

  MemoryBudget budget_;
  std::unique_ptr<SessionManager> manager_;
};

TEST_F(SessionTenantsTest, MemoryInAllIsHard) {
  Tenant tenant = Named("vision");
  tenant.memory_bytes = 64 * kMiB;
  const SessionRecordPtr a = *TryOpen(tenant);
  const SessionRecordPtr b = *TryOpen(tenant);
  EXPECT_EQ(a->session->limits().memory_bytes, 64 * kMiB);
  EXPECT_TRUE(Hold(a, 1, 40).ok());
  const absl::Status refused = Hold(b, 1, 40);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the tenant 'vision' hold"));
  EXPECT_TRUE(Hold(b, 2, 16).ok());
  // Not others'.
  const SessionRecordPtr other = *TryOpen(Named("speech"));
  EXPECT_TRUE(Hold(other, 1, 100).ok());
  // A new limit is for those that there are.
  tenant.memory_bytes = 128 * kMiB;
  manager_->tenants().SetLimits({std::make_shared<const Tenant>(tenant)});
  EXPECT_TRUE(Hold(b, 3, 20).ok());
  const std::vector<TenantUses::Use> uses = manager_->tenants().List();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[1].tenant, "vision");
  EXPECT_EQ(uses[1].sessions, 2);
  EXPECT_GE(uses[1].memory_bytes, 76 * kMiB);
  EXPECT_EQ(uses[1].memory_limit_bytes, 128 * kMiB);
  EXPECT_GE(uses[1].device_bytes.at("native:0"), 76 * kMiB);
}

TEST_F(SessionTenantsTest, MemoryOnADeviceIsHard) {
  Tenant tenant = Named("vision");
  tenant.device_memory["native:0"] = 50 * kMiB;
  const SessionRecordPtr a = *TryOpen(tenant);
  const SessionRecordPtr b = *TryOpen(tenant);
  EXPECT_TRUE(Hold(a, 1, 30).ok());
  EXPECT_THAT(std::string(Hold(b, 1, 30).message()),
              HasSubstr("the tenant 'vision' hold 30 MiB of its limit of 50 MiB on native:0"));
  EXPECT_TRUE(Hold(b, 2, 20).ok());
  EXPECT_TRUE(Do(a, ReleaseOf({1})).ok());
  EXPECT_TRUE(Hold(b, 3, 25).ok());  // from what a has kept for its next arrays
  ASSERT_TRUE(manager_->Close(b->id).ok());
  EXPECT_TRUE(Hold(*TryOpen(Named("speech")), 1, 100).ok());
}

TEST_F(SessionTenantsTest, AFullDaemonTakesBackCachesOfThoseAboveTheirGuarantee) {
  const SessionRecordPtr idle = *TryOpen(Named("idle"));
  ASSERT_TRUE(Hold(idle, 1, 150).ok());
  ASSERT_TRUE(Do(idle, ReleaseOf({1})).ok());
  EXPECT_GE(idle->session->stats().array_bytes, 150 * kMiB);  // for its next array
  const SessionRecordPtr busy = *TryOpen(Named("busy"));
  EXPECT_TRUE(Hold(busy, 1, 200).ok());
  EXPECT_EQ(idle->session->stats().array_bytes, 0);
  // What is used is nobody's to take.
  EXPECT_FALSE(Hold(idle, 2, 100).ok());
  EXPECT_TRUE(Hold(idle, 3, 20).ok());
}

TEST_F(SessionTenantsTest, AGuaranteeIsServedInAFullDaemon) {
  Tenant sure = Named("sure");
  sure.guaranteed_bytes = 100 * kMiB;
  const SessionRecordPtr a = *TryOpen(sure);
  SessionRecordPtr other = *TryOpen(Named("other"));
  EXPECT_FALSE(Hold(other, 1, 200).ok());
  ASSERT_TRUE(Hold(other, 2, 150).ok());
  EXPECT_TRUE(Hold(a, 1, 90).ok());
  // A second one cannot have as much, and is told so.
  const absl::Status refused = TryOpen(sure).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is guaranteed 100 MiB"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("try again in 60 s"));
  ASSERT_TRUE(manager_->Close(other->id).ok());
  other = nullptr;
  bool opened = false;
  for (int i = 0; i < 2000 && !opened; ++i) {
    opened = TryOpen(sure).ok();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(opened);
  EXPECT_TRUE(Hold(a, 2, 5).ok());
}

// Sessions that take memory from each other's caches, each under its own locks.
TEST_F(SessionTenantsTest, CachesGoBackAndForthBetweenThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const SessionRecordPtr record = *TryOpen(Named(i % 2 == 0 ? "even" : "odd"));
      for (int k = 0; k < 6; ++k) {
        if (Hold(record, 1, 60 + (k + i) % 7 * 4).ok()) {
          EXPECT_TRUE(Do(record, ReleaseOf({1})).ok());
        } else {
          Do(record, ReleaseOf({1})).IgnoreError();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SessionTenantsTest, SessionsAreCounted) {
  Tenant tenant = Named("vision");
  tenant.max_sessions = 2;
  SessionRecordPtr a = *TryOpen(tenant);
  const SessionRecordPtr b = *TryOpen(tenant);
  const absl::Status refused = TryOpen(tenant).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the tenant 'vision' has its 2 sessions"));
  EXPECT_TRUE(TryOpen(Named("speech")).ok());
  ASSERT_TRUE(manager_->Close(a->id).ok());
  a = nullptr;
  bool opened = false;
  for (int i = 0; i < 2000 && !opened; ++i) {
    opened = TryOpen(tenant).ok();
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(opened);
}

TEST_F(SessionTenantsTest, IdleSessionsEndAndBusyOnesDoNot) {
  Tenant tenant = Named("vision");
  tenant.idle_limit = seconds(1);
  const SessionRecordPtr idle = *TryOpen(tenant);
  const SessionRecordPtr busy = *TryOpen(tenant);
  const SessionRecordPtr unlimited = *TryOpen(Named("speech"));
  for (const SessionRecordPtr& each : {idle, busy, unlimited}) manager_->Attach(each, {});
  for (int i = 0; i < 2000 && manager_->Find(idle->id) != nullptr; ++i) {
    EXPECT_TRUE(Hold(busy, 1, 0).ok());
    EXPECT_TRUE(Do(busy, ReleaseOf({1})).ok());
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(manager_->Find(idle->id), nullptr);
  EXPECT_NE(manager_->Find(busy->id), nullptr);
  EXPECT_NE(manager_->Find(unlimited->id), nullptr);
  EXPECT_TRUE(EndsSoon(busy));
}

TEST_F(SessionTenantsTest, SessionsHaveAnAgeLimit) {
  Tenant tenant = Named("vision");
  tenant.session_limit = seconds(1);
  const SessionRecordPtr record = *TryOpen(tenant);
  manager_->Attach(record, {});
  for (int i = 0; i < 2000 && manager_->Find(record->id) != nullptr; ++i) {
    Hold(record, 1, 0).IgnoreError();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(manager_->Find(record->id), nullptr);
}

TEST_F(SessionTenantsTest, DeniedOperatorsAreRefused) {
  Tenant tenant = Named("vision");
  tenant.denied_operators = {"zeros"};
  const SessionRecordPtr record = *TryOpen(tenant);
  EXPECT_THAT(std::string(Hold(record, 1, 1).message()),
              HasSubstr("[zeros] expects a tenant that may use it, which 'vision' may not"));
  EXPECT_TRUE(Do(record, Op("ones", {}, {2}, {Ints{4}, Dtype::kUint8})).ok());
}

}  // namespace
}  // namespace chx::server
