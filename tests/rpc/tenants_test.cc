// Tenants of a whole daemon: who is let in, and whose sessions are whose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/tenancy/token_hash.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx::server {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr char kVision[] = "the token of vision, made up";
constexpr char kSpeech[] = "the token of speech, made up";
constexpr char kAdmin[] = "the token of the operators";

Tenant Named(const std::string& name, const char* token) {
  Tenant tenant;
  tenant.name = name;
  if (token != nullptr) tenant.tokens = {{HashToken(token), absl::InfiniteFuture()}};
  return tenant;
}

class TenantsDaemonTest : public DaemonTest {
 protected:
  // At "127.0.0.1:PORT" and "unix:PATH".
  void StartWith(std::vector<Tenant> tenants) {
    options.credentials.tenants = std::move(tenants);
    options.listeners = *ParseListen(absl::StrCat("127.0.0.1:0,", UnixAddress()));
    Start();
  }
  void StartWithThree() {
    Tenant admin = Named("operators", kAdmin);
    admin.admin = true;
    StartWith({Named("vision", kVision), Named("speech", kSpeech), admin});
  }
  absl::Status Replace(const std::vector<Tenant>& tenants) {
    Credentials changed = options.credentials;
    changed.tenants = tenants;
    return daemon_->SetCredentials(changed);
  }
  std::vector<std::string> Listed(const std::string& token) {
    std::vector<std::string> tenants;
    const v1::ListSessionsReply reply = SessionsAt(address(), token);
    for (const v1::SessionInfo& each : reply.sessions()) {
      tenants.push_back(each.tenant());
    }
    return tenants;
  }
  absl::Status Kill(uint64_t number, const std::string& token) {
    v1::Call call;
    v1::Reply reply;
    call.mutable_kill_session()->set_number(number);
    return CallOnce(address(), token, call, &reply);
  }
};

TEST_F(TenantsDaemonTest, EachTokenIsItsTenants) {
  StartWithThree();
  RpcClient vision(address(0), kVision);
  RpcClient speech(address(1), kSpeech);
  ASSERT_TRUE(vision.Open().ok());
  ASSERT_TRUE(speech.Open().ok());
  for (const size_t listener : {0, 1}) {
    for (const char* wrong : {"", "the token of nobody", "the token of vision, made uq"}) {
      const absl::Status status = RpcClient(address(listener), wrong).Open();
      EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    }
  }
  EXPECT_THAT(Listed(kVision), UnorderedElementsAre("vision"));
  EXPECT_THAT(Listed(kSpeech), UnorderedElementsAre("speech"));
  EXPECT_THAT(Listed(kAdmin), UnorderedElementsAre("vision", "speech"));
  EXPECT_TRUE(absl::IsNotFound(Kill(vision.opened.session_number(), kSpeech)));
  EXPECT_TRUE(Kill(speech.opened.session_number(), kSpeech).ok());
  EXPECT_TRUE(Kill(vision.opened.session_number(), kAdmin).ok());
  EXPECT_THAT(Listed(kAdmin), UnorderedElementsAre());
}

TEST_F(TenantsDaemonTest, AnotherTenantsSessionIsNoneWhateverIdIsKnown) {
  StartWithThree();
  RpcClient vision(address(), kVision);
  ASSERT_TRUE(vision.Open().ok());
  vision.Connect();
  ASSERT_TRUE(vision.Upload(1, {1, 2}, 100).ok());
  for (const char* token : {kSpeech, kAdmin}) {
    RpcClient thief(address(), token);
    thief.set_session_id(vision.session_id());
    EXPECT_TRUE(absl::IsNotFound(thief.Open()));
    thief.set_session_id(vision.session_id());
    EXPECT_TRUE(absl::IsNotFound(thief.Upload(2, {1}, 100)));
    std::vector<float> values;
    EXPECT_TRUE(absl::IsNotFound(thief.Download(1, &values)));
    v1::Call cancel;
    v1::Reply reply;
    cancel.mutable_cancel()->set_session_id(vision.session_id());
    EXPECT_TRUE(absl::IsNotFound(CallOnce(address(), token, cancel, &reply)));
    v1::CloseReply closed;
    EXPECT_TRUE(absl::IsNotFound(thief.Close(&closed)));
    thief.set_session_id(vision.session_id());
    thief.Connect();
    thief.Send("");
    EXPECT_TRUE(absl::IsNotFound(thief.stream().End()));
  }
  std::vector<float> values;
  EXPECT_TRUE(vision.Download(1, &values).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

TEST_F(TenantsDaemonTest, AUserIsATenantOnTheUnixSocketOnly) {
  Tenant user = Named("user", nullptr);
  user.uids = {geteuid()};
  StartWith({user, Named("vision", kVision)});
  EXPECT_TRUE(RpcClient(address(1)).Open().ok());
  EXPECT_TRUE(absl::IsUnauthenticated(RpcClient(address(0)).Open()));
  // A token decides, whoever shows it.
  RpcClient vision(address(1), kVision);
  ASSERT_TRUE(vision.Open().ok());
  EXPECT_THAT(Listed(kVision), UnorderedElementsAre("vision"));
  EXPECT_TRUE(absl::IsUnauthenticated(RpcClient(address(1), "a wrong one").Open()));
}

TEST_F(TenantsDaemonTest, AUserWhoIsNoTenantIsToldSo) {
  StartWith({Named("vision", kVision)});
  const absl::Status status = RpcClient(address(1)).Open();
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("uid ", geteuid())));
}

TEST_F(TenantsDaemonTest, ARotatedTokenKeepsItsSessionsAndOpensNone) {
  StartWithThree();
  for (const size_t listener : {0, 1}) {
    SCOPED_TRACE(listener);
    RpcClient vision(address(listener), kVision);
    ASSERT_TRUE(vision.Open().ok());
    ASSERT_TRUE(
        Replace({Named("vision", "the next token of vision"), Named("speech", kSpeech)}).ok());
    vision.Connect();
    ASSERT_TRUE(vision.Upload(1, {1}, 100).ok());
    EXPECT_TRUE(absl::IsUnauthenticated(RpcClient(address(listener), kVision).Open()));
    EXPECT_TRUE(RpcClient(address(listener), "the next token of vision").Open().ok());
    daemon_->ForgetFormerTokens();
    ASSERT_TRUE(vision.Upload(2, {1}, 100).ok());
    v1::CloseReply closed;
    ASSERT_TRUE(vision.Close(&closed).ok());
    const v1::ListSessionsReply all = SessionsAt(address(), "the next token of vision");
    for (const v1::SessionInfo& left : all.sessions()) {
      ASSERT_TRUE(Kill(left.number(), "the next token of vision").ok());
    }
    daemon_->ForgetFormerTokens();
    EXPECT_TRUE(absl::IsUnauthenticated(vision.Close(&closed)));
    ASSERT_TRUE(Replace({Named("vision", kVision), Named("speech", kSpeech)}).ok());
  }
}

TEST_F(TenantsDaemonTest, AnExpiredTokenOpensNothing) {
  Tenant vision = Named("vision", nullptr);
  vision.tokens = {{HashToken(kVision), absl::Now() - absl::Hours(1)}};
  StartWith({vision});
  EXPECT_THAT(std::string(RpcClient(address(1), kVision).Open().message()),
              HasSubstr("the token has expired on"));
  EXPECT_TRUE(absl::IsUnauthenticated(RpcClient(address(0), kVision).Open()));
}

TEST_F(TenantsDaemonTest, LimitsForADeviceThatIsNotThereAreRefused) {
  Tenant vision = Named("vision", kVision);
  vision.device_memory["cuda:7"] = 1 << 20;
  options.credentials.tenants = {vision};
  EXPECT_THAT(std::string(TryStart().message()), HasSubstr("got 'cuda:7' in 'vision'"));
  StartWithThree();
  EXPECT_FALSE(Replace({vision}).ok());
  EXPECT_TRUE(RpcClient(address(), kSpeech).Open().ok());  // the former ones
}

TEST_F(TenantsDaemonTest, LimitsAreTheTenants) {
  Tenant vision = Named("vision", kVision);
  vision.memory_bytes = 32 << 20;
  Tenant speech = Named("speech", kSpeech);
  speech.session_memory_bytes = 128 << 20;  // more than others have by --session-memory
  StartWith({vision, speech});
  RpcClient a(address(), kVision);
  RpcClient b(address(), kSpeech);
  ASSERT_TRUE(a.Open().ok());
  ASSERT_TRUE(b.Open().ok());
  EXPECT_EQ(a.opened.limits().session_memory_bytes(), 32u << 20);
  EXPECT_EQ(b.opened.limits().session_memory_bytes(), 128u << 20);
}

}  // namespace
}  // namespace chx::server
