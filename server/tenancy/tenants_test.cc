#include "server/tenancy/tenants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/escaping.h"

namespace chx::server {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

Tenant Named(std::string name) {
  Tenant tenant;
  tenant.name = std::move(name);
  return tenant;
}

std::vector<Tenant> Two() {
  Tenant a = Named("a");
  a.tokens = {{HashToken("old"), kNow}, {HashToken("new"), kNow + absl::Hours(1)}};
  a.uids = {1000};
  a.tls_subjects = {"CN=a"};
  Tenant b = Named("b");
  b.tokens = {{HashToken("b"), absl::InfiniteFuture()}};
  b.service_accounts = {"space:b"};
  return {a, b};
}

Identity WithToken(std::string token) {
  Identity identity;
  identity.token = std::move(token);
  return identity;
}

TEST(TenantsTest, HashIsSha256) {
  EXPECT_EQ(absl::BytesToHexString(HashToken("abc")),  // FIPS 180-2, appendix B.1
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TenantsTest, EachIdentity) {
  const Tenants tenants(Two());
  Identity peer;
  peer.uid = 1000;
  EXPECT_EQ((*tenants.Identify(peer, kNow))->name, "a");
  peer.tls_subject = "CN=nobody";
  EXPECT_EQ((*tenants.Identify(peer, kNow))->name, "a");
  peer.service_account = "space:b";
  EXPECT_EQ((*tenants.Identify(peer, kNow))->name, "b");
  peer.token = "new";
  EXPECT_EQ((*tenants.Identify(peer, kNow))->name, "a");
  peer = Identity();
  peer.tls_subject = "CN=a";
  EXPECT_EQ((*tenants.Identify(peer, kNow))->name, "a");
}

TEST(TenantsTest, WhoIsNobodyIsRefused) {
  const Tenants tenants(Two());
  EXPECT_EQ(tenants.Identify({}, kNow).status().code(), absl::StatusCode::kUnauthenticated);
  Identity peer;
  peer.uid = 0;
  EXPECT_THAT(std::string(tenants.Identify(peer, kNow).status().message()), HasSubstr("uid 0"));
  peer.uid = 1000;
  peer.token = "wrong";  // a user who would be let in does not try others' tokens
  EXPECT_FALSE(tenants.Identify(peer, kNow).ok());
}

TEST(TenantsTest, TokensExpire) {
  const Tenants tenants(Two());
  EXPECT_THAT(std::string(tenants.Identify(WithToken("old"), kNow).status().message()),
              HasSubstr("expired on 2027-01-15"));
  EXPECT_TRUE(tenants.Identify(WithToken("old"), kNow - absl::Seconds(1)).ok());
  EXPECT_TRUE(tenants.Identify(WithToken("new"), kNow).ok());
}

TEST(TenantsTest, AReplacementDecidesFromThenOn) {
  Tenants tenants(Two());
  const TenantPtr before = *tenants.Identify(WithToken("b"), kNow);
  Tenant c = Named("c");
  c.tokens = {{HashToken("b"), absl::InfiniteFuture()}};
  tenants.Replace({c});
  EXPECT_EQ((*tenants.Identify(WithToken("b"), kNow))->name, "c");
  EXPECT_FALSE(tenants.Identify(WithToken("new"), kNow).ok());
  EXPECT_EQ(before->name, "b");
  EXPECT_EQ(tenants.List().size(), 1);
}

}  // namespace
}  // namespace chx::server
