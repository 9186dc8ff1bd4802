#include "server/web/access.h"

#include <gtest/gtest.h>

#include <string>

#include "server/tenancy/token_hash.h"

namespace chx::server {
namespace {

constexpr char kToken[] = "0123456789abcdef";

WebListener Plain(const std::string& host) {
  WebListener listener;
  listener.host = host;
  return listener;
}

TEST(Hosts, OnlyAddressesAndOurNames) {
  for (const char* const host : {"localhost", "localhost:9400", "127.0.0.1:9400", "10.1.2.3",
                                 "[::1]:9400", "[fe80::1]", "node7:9400", "NODE7"}) {
    EXPECT_TRUE(IsOurHost(Plain("node7"), host)) << host;
  }
  for (const char* const host : {"", "evil.example", "evil.example:9400", "node7.evil.example",
                                 "127.0.0.1.evil.example", "[::1", "1.2.3.4.5", "localhost."}) {
    EXPECT_FALSE(IsOurHost(Plain("node7"), host)) << host;
  }
  WebListener tls = Plain("0.0.0.0");
  tls.tls = true;
  EXPECT_TRUE(IsOurHost(tls, "chxd.lab.example:9400")) << "the certificate decides";
  EXPECT_FALSE(IsOurHost(tls, ""));
}

TEST(Origins, OnlyOurOwn) {
  EXPECT_TRUE(IsOurOrigin(Plain("a"), "a:1", ""));
  EXPECT_TRUE(IsOurOrigin(Plain("a"), "a:1", "http://a:1"));
  for (const char* const origin : {"null", "https://a:1", "http://a:2", "http://b:1", "http://a"}) {
    EXPECT_FALSE(IsOurOrigin(Plain("a"), "a:1", origin)) << origin;
  }
}

WebGuests Guests() {
  WebGuests guests;
  guests.token_hashes = {HashToken("another token of sixteen"), HashToken(kToken)};
  return guests;
}

TEST(Access, ByBearerToken) {
  const WebAccess access(Guests());
  WebRequest request;
  EXPECT_FALSE(access.HasToken(request));
  for (const char* const wrong : {"Bearer ", "Bearer 0123456789abcdeg", "0123456789abcdef",
                                  "Basic 0123456789abcdef", "Bearer 0123456789abcdef0"}) {
    request.authorization = wrong;
    EXPECT_FALSE(access.HasToken(request)) << wrong;
  }
  request.authorization = "Bearer 0123456789abcdef";
  EXPECT_TRUE(access.HasToken(request));
  WebGuests all;
  all.everybody = true;
  EXPECT_TRUE(WebAccess(all).HasToken(WebRequest()));
  EXPECT_FALSE(WebAccess(WebGuests()).HasToken(request)) << "without a good token nobody may look";
}

TEST(Access, ByLogin) {
  WebAccess access(Guests());
  const auto now = WebAccess::Clock::now();
  EXPECT_EQ(access.LogIn("wrong", now), "");
  EXPECT_EQ(access.LogIn("", now), "");
  const std::string id = access.LogIn(kToken, now);
  EXPECT_EQ(id.size(), 32u);
  EXPECT_NE(access.LogIn(kToken, now), id);
  WebRequest request;
  EXPECT_FALSE(access.MaySee(request, now));
  request.cookie = "chxd_login=" + std::string(32, '0');
  EXPECT_FALSE(access.MaySee(request, now));
  request.cookie = "chxd_login=";
  EXPECT_FALSE(access.MaySee(request, now));
  request.cookie = "a=b; chxd_login=" + id + "; c=d";
  EXPECT_TRUE(access.MaySee(request, now));
  EXPECT_FALSE(access.MaySee(request, now + WebAccess::kLoginLasts));
  access.LogOut(request);
  EXPECT_FALSE(access.MaySee(request, now));
}

TEST(Access, TheOldestLoginMakesRoom) {
  WebAccess access(Guests());
  const auto now = WebAccess::Clock::now();
  WebRequest first;
  first.cookie = "chxd_login=" + access.LogIn(kToken, now);
  for (size_t i = 1; i < WebAccess::kMaxLogins; ++i) access.LogIn(kToken, now);
  EXPECT_TRUE(access.MaySee(first, now));
  access.LogIn(kToken, now);
  EXPECT_FALSE(access.MaySee(first, now));
}

TEST(Forms, FieldsAreDecoded) {
  EXPECT_EQ(FormField("a=1&token=x%2By+z%3d&b", "token"), "x+y z=");
  EXPECT_EQ(FormField("a=1", "token"), "");
  EXPECT_EQ(FormField("token=%4", "token"), "%4");
  EXPECT_EQ(FormField("token=%zz", "token"), "%zz");
}

}  // namespace
}  // namespace chx::server
