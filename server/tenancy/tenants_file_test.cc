#include "server/tenancy/tenants_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace chx::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int64_t kHost = int64_t{64} << 30;
// Of "secret".
constexpr char kHash[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

TEST(TenantsFileTest, AllKeys) {
  const auto tenants = ParseTenants(absl::StrCat(R"(
# Two tenants.
tenants:
- name: vision
  tokens:
  - sha256: )",
                                                 kHash, R"(
    expires: 2027-01-31T00:00:00Z
  uids: [1001, 1002]
  tls_subjects: ["CN=vision,O=lab"]
  service_accounts: ["research:trainer"]
  weight: 3
  priority: high
  max_sessions: 16
  memory: 25%
  guaranteed_memory: 1GiB
  session_memory: 4GiB
  device_memory: {"cuda:0": 8GiB, "cuda:1": 2GiB}
  features: [shared_names]
  operators: {deny: [svd, qr]}
  admin: true
  idle_limit: 30m
  session_limit: 24h
  named_session_lease: 48h
- name: speech
)"),
                                    kHost);
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  ASSERT_EQ(tenants->size(), 2);
  const Tenant& vision = (*tenants)[0];
  EXPECT_EQ(vision.name, "vision");
  ASSERT_EQ(vision.tokens.size(), 1);
  EXPECT_EQ(absl::BytesToHexString(vision.tokens[0].sha256), kHash);
  EXPECT_EQ(vision.tokens[0].expires,
            absl::FromCivil(absl::CivilSecond(2027, 1, 31), absl::UTCTimeZone()));
  EXPECT_THAT(vision.uids, UnorderedElementsAre(1001, 1002));
  EXPECT_THAT(vision.tls_subjects, ElementsAre("CN=vision,O=lab"));
  EXPECT_THAT(vision.service_accounts, ElementsAre("research:trainer"));
  EXPECT_EQ(vision.weight, 3);
  EXPECT_EQ(vision.priority, Priority::kHigh);
  EXPECT_EQ(vision.max_sessions, 16);
  EXPECT_EQ(vision.memory_bytes, kHost / 4);
  EXPECT_EQ(vision.guaranteed_bytes, int64_t{1} << 30);
  EXPECT_THAT(vision.denied_operators, UnorderedElementsAre("svd", "qr"));
  EXPECT_TRUE(vision.admin);
  EXPECT_TRUE(Allows(vision, Feature::kSharedNames));
  EXPECT_FALSE(Allows(vision, Feature::kSnapshots));
  EXPECT_THAT(std::string(CheckAllowed(vision, Feature::kSnapshots, "snapshot").message()),
              HasSubstr("[snapshot] expects the feature snapshots, which the tenant 'vision'"));
  EXPECT_EQ(vision.session_memory_bytes, int64_t{4} << 30);
  EXPECT_EQ(vision.device_memory.at("cuda:1"), int64_t{2} << 30);
  EXPECT_THAT(vision.features, ElementsAre(Feature::kSharedNames));
  EXPECT_EQ(vision.idle_limit, std::chrono::minutes(30));
  EXPECT_EQ(vision.session_limit, std::chrono::hours(24));
  EXPECT_EQ(vision.named_session_lease, std::chrono::hours(48));
  const Tenant& speech = (*tenants)[1];
  EXPECT_EQ(speech.weight, 1);
  EXPECT_EQ(speech.features.size(), 3);
  EXPECT_EQ(speech.max_sessions, 0);
  EXPECT_FALSE(speech.admin);
  EXPECT_TRUE(MayAdminister(vision, speech));
  EXPECT_FALSE(MayAdminister(speech, vision));
  EXPECT_TRUE(MayAdminister(speech, speech));
}

struct Bad {
  const char* text;
  const char* error;
};

class BadTenantsFileTest : public testing::TestWithParam<Bad> {};

TEST_P(BadTenantsFileTest, SaysWhatAndWhere) {
  const auto tenants = ParseTenants(GetParam().text, kHost);
  ASSERT_FALSE(tenants.ok());
  EXPECT_EQ(tenants.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tenants.status().message()), HasSubstr(GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTenantsFileTest,
    testing::Values(
        Bad{"", "a tenants file with the keys tenants"}, Bad{"tenants: []", "at least one tenant"},
        Bad{"tenants: {name: a}", "line 1: [tenants] expects a list of tenants"},
        Bad{"tenants:\n- name: [", "expects YAML"},
        Bad{"tenants:\n- weight: 1", "line 2: [tenants] expects a name for each tenant"},
        Bad{"tenants:\n- name: A", "line 2: [tenants] expects a name of lower-case"},
        Bad{"tenants:\n- name: a\n  wieght: 2", "line 3: [tenants] expects the keys admin"},
        Bad{"tenants:\n- name: a\n  weight: 1\n  weight: 2",
            "line 4: [tenants] expects 'weight' once"},
        Bad{"tenants:\n- name: a\n  weight: 0", "a weight between 0.001 and 1000, got '0'"},
        Bad{"tenants:\n- name: a\n  weight: nan", "a weight between"},
        Bad{"tenants:\n- name: a\n  priority: urgent", "low, normal or high, got 'urgent'"},
        Bad{"tenants:\n- name: a\n  max_sessions: -1", "a number from 1"},
        Bad{"tenants:\n- name: a\n  memory: lots", "line 3: [tenants] expects"},
        Bad{"tenants:\n- name: a\n  device_memory: 8GiB", "a mapping of devices"},
        Bad{"tenants:\n- name: a\n  device_memory: {'cuda:0': 50%}", "line 3: [tenants]"},
        Bad{"tenants:\n- name: a\n  idle_limit: soon", "a duration from 1s"},
        Bad{"tenants:\n- name: a\n  uids: [root]", "a user's id, got 'root'"},
        Bad{"tenants:\n- name: a\n  admin: maybe", "true or false, got 'maybe'"},
        Bad{"tenants:\n- name: a\n  operators: {deny: [no_such]}", "the name of an operator"},
        Bad{"tenants:\n- name: a\n  operators: [svd]", "operators with the keys deny"},
        Bad{"tenants:\n- name: a\n  memory: 1GiB\n  guaranteed_memory: 2GiB",
            "a guaranteed_memory of at most memory"},
        Bad{"tenants:\n- name: a\n  features: [all]",
            "shared_names, snapshots or data_files, got 'all'"},
        Bad{"tenants:\n- name: a\n  features: [snapshots, user_kernels]",
            "operators: {deny: [...]} refuses those), got 'user_kernels'"},
        Bad{"tenants:\n- name: a\n  tokens: [{expires: 2027-01-31T00:00:00Z}]", "sha256 in each"},
        Bad{"tenants:\n- name: a\n- name: a", "line 3: [tenants] expects the name a in one tenant"},
        Bad{"tenants:\n- name: a\n  uids: [1]\n- name: b\n  uids: [1]", "uid 1 in one tenant"}));

TEST(TenantsFileTest, ATokenInPlaceOfItsHashIsNotRepeated) {
  const auto tenants = ParseTenants("tenants:\n- name: a\n  tokens:\n  - sha256: hunter2", kHost);
  ASSERT_FALSE(tenants.ok());
  EXPECT_THAT(std::string(tenants.status().message()), HasSubstr("line 4"));
  EXPECT_THAT(std::string(tenants.status().message()), testing::Not(HasSubstr("hunter2")));
}

TEST(TenantsFileTest, HostileYaml) {
  // Deep nesting and aliases that double: an error or a quick answer, never the end of the process.
  std::string deep(100000, '[');
  EXPECT_FALSE(ParseTenants(deep, kHost).ok());
  std::string laughs = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 60; ++i) {
    laughs += absl::StrCat("a", i, ": &a", i, " [*a", i - 1, ", *a", i - 1, "]\n");
  }
  EXPECT_FALSE(ParseTenants(laughs, kHost).ok());
  EXPECT_FALSE(ParseTenants("tenants: &t [*t]", kHost).ok());
  EXPECT_FALSE(ParseTenants(std::string(size_t{5} << 20, '#'), kHost).ok());
}

}  // namespace
}  // namespace chx::server
