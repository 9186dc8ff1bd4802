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
  a.tokens = {{HashToken("old"), kNow - absl::Hours(1)}, {HashToken("new"), kNow + absl::Hours(1)}};
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
  EXPECT_EQ((*tenants.Identify(peer, kNow)).tenant->name, "a");
  peer.tls_subject = "CN=nobody";
  EXPECT_EQ((*tenants.Identify(peer, kNow)).tenant->name, "a");
  peer.service_account = "space:b";
  EXPECT_EQ((*tenants.Identify(peer, kNow)).tenant->name, "b");
  peer.token = "new";
  EXPECT_EQ((*tenants.Identify(peer, kNow)).tenant->name, "a");
  peer = Identity();
  peer.tls_subject = "CN=a";
  EXPECT_EQ((*tenants.Identify(peer, kNow)).tenant->name, "a");
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
  EXPECT_TRUE(tenants.Identify(WithToken("old"), kNow - absl::Hours(2)).ok());
  EXPECT_TRUE(tenants.Identify(WithToken("new"), kNow).ok());
}

TEST(TenantsTest, AReplacementDecidesFromThenOn) {
  Tenants tenants(Two());
  const TenantPtr before = tenants.Identify(WithToken("b"), kNow)->tenant;
  Tenant c = Named("c");
  c.tokens = {{HashToken("b"), absl::InfiniteFuture()}};
  tenants.Replace({c}, kNow);
  EXPECT_EQ((*tenants.Identify(WithToken("b"), kNow)).tenant->name, "c");
  EXPECT_FALSE(tenants.Identify(WithToken("b"), kNow)->former);
  EXPECT_EQ(before->name, "b");
  EXPECT_EQ(tenants.List().size(), 1);
}

TEST(TenantsTest, WhatIsNoLongerNamedLeadsToSessionsOfBefore) {
  Tenants tenants(Two());
  Identity user;
  user.uid = 1000;
  Tenant a = Named("a");
  a.tokens = {{HashToken("newer"), absl::InfiniteFuture()}};
  tenants.Replace({a}, kNow);
  for (const Identity& peer : {WithToken("new"), user}) {
    const auto found = tenants.Identify(peer, kNow);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(found->former);
    EXPECT_EQ(found->tenant->name, "a");
  }
  EXPECT_FALSE(tenants.Identify(WithToken("newer"), kNow)->former);
  // Until no session needs it.
  const auto until = [](absl::string_view needed) {
    return [needed](const std::string& tenant, absl::Time ended) {
      EXPECT_LE(ended, kNow);
      return tenant == needed;
    };
  };
  EXPECT_TRUE(tenants.Forget(until("a"), kNow));  // those of b
  EXPECT_TRUE(tenants.Identify(WithToken("new"), kNow).ok());
  EXPECT_FALSE(tenants.Identify(WithToken("b"), kNow).ok());
  EXPECT_FALSE(tenants.Forget(until("a"), kNow));
  EXPECT_TRUE(tenants.Forget(until("nobody"), kNow));
  EXPECT_FALSE(tenants.Identify(WithToken("new"), kNow).ok());
  EXPECT_FALSE(tenants.Identify(user, kNow).ok());
  EXPECT_EQ(tenants.Tokens().size(), 1);
}

TEST(TenantsTest, AnExpiredTokenLeadsToSessionsOfBefore) {
  Tenants tenants(Two());
  const absl::Time late = kNow + absl::Hours(2);  // one hour after "new" has expired
  EXPECT_TRUE(tenants.Identify(WithToken("new"), kNow + absl::Hours(1))->former);
  EXPECT_FALSE(tenants.Identify(WithToken("new"), late).ok());
  EXPECT_TRUE(
      tenants.Forget([](const std::string& tenant, absl::Time) { return tenant == "a"; }, late));
  EXPECT_TRUE(tenants.Identify(WithToken("new"), late)->former);
  EXPECT_TRUE(tenants.Forget([](const std::string&, absl::Time) { return false; }, late));
  EXPECT_FALSE(tenants.Identify(WithToken("new"), late).ok());
}

TEST(TenantsTest, AServiceAccountThatNobodyHasIsRefusedWhoeverTheUserIs) {
  const Tenants tenants(Two());
  Identity peer;
  peer.uid = 1000;
  peer.service_account = "space:nobody";
  EXPECT_THAT(std::string(tenants.Identify(peer, kNow).status().message()),
              HasSubstr("the service account space:nobody"));
}

}  // namespace
}  // namespace chx::server
