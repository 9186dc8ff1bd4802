#include "server/options.h"

#include <gtest/gtest.h>

namespace chx {
namespace {

TEST(Options, Listen) {
  auto listeners = ParseListen("unix:/tmp/a.sock,127.0.0.1:0,0.0.0.0:7000,[::1]:5");
  ASSERT_TRUE(listeners.ok());
  ASSERT_EQ(listeners->size(), 4u);
  EXPECT_EQ((*listeners)[0].Target(), "unix:/tmp/a.sock");
  EXPECT_TRUE((*listeners)[1].loopback);
  EXPECT_FALSE((*listeners)[2].loopback);
  EXPECT_TRUE((*listeners)[3].loopback);
  for (const char* bad : {"nonsense", "host:", ":7000", "host:70000", "unix:", "host:-1"}) {
    EXPECT_FALSE(ParseListen(bad).ok()) << bad;
  }
}

TEST(Options, Bytes) {
  EXPECT_EQ(*ParseBytes("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(*ParseBytes("1000"), 1000);
  for (const char* bad : {"", "-1", "4GB", "0", "9999999TiB"}) EXPECT_FALSE(ParseBytes(bad).ok());
}

TEST(Options, OffLoopbackNeedsTlsAndToken) {
  const auto listeners = ParseListen("0.0.0.0:7000");
  EXPECT_FALSE(CheckListeners(*listeners, false, false).ok());
  EXPECT_FALSE(CheckListeners(*listeners, true, false).ok());
  EXPECT_FALSE(CheckListeners(*listeners, false, true).ok());
  EXPECT_TRUE(CheckListeners(*listeners, true, true).ok());
  EXPECT_TRUE(CheckListeners(*ParseListen("127.0.0.1:7000"), false, false).ok());
  EXPECT_FALSE(CheckListeners(*ParseListen("127.evil.example:7000"), false, false).ok());
}

}  // namespace
}  // namespace chx
