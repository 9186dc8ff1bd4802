#include "server/options.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace chx::server {
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

TEST(Options, Plugins) {
  const auto plugins = ParsePlugins("example=/lib/a-b.so, my_2=/x=y.so");
  ASSERT_TRUE(plugins.ok());
  ASSERT_EQ(plugins->size(), 2u);
  EXPECT_EQ((*plugins)[0], std::make_pair(std::string("example"), std::string("/lib/a-b.so")));
  EXPECT_EQ((*plugins)[1], std::make_pair(std::string("my_2"), std::string("/x=y.so")));
  EXPECT_TRUE(ParsePlugins("")->empty());
  for (const char* bad : {"x", "x=", "x=lib.so", "=/lib.so", "X=/lib.so", "x:0=/lib.so",
                          "native=/lib.so", "x=/a.so,x=/b.so"}) {
    EXPECT_FALSE(ParsePlugins(bad).ok()) << bad;
  }
}

TEST(Options, OffLoopbackNeedsTlsAndToken) {
  const auto allowed = [](const char* listen, bool tls, bool token, bool open) {
    return CheckListeners(*ParseListen(listen), {tls, token, open}).ok();
  };
  for (const char* listen : {"0.0.0.0:7000", "127.evil.example:7000", "[::]:7000"}) {
    for (const bool open : {false, true}) {
      EXPECT_FALSE(allowed(listen, false, false, open));
      EXPECT_FALSE(allowed(listen, true, false, open));
      EXPECT_FALSE(allowed(listen, false, true, open));
      EXPECT_TRUE(allowed(listen, true, true, open));
    }
  }
}

TEST(Options, LoopbackNeedsATokenOrTheWordThatItIsOpen) {
  for (const char* listen :
       {"127.0.0.1:7000", "localhost:0", "[::1]:0", "unix:/tmp/a,127.0.0.1:0"}) {
    EXPECT_FALSE(CheckListeners(*ParseListen(listen), {}).ok()) << listen;
    EXPECT_FALSE(CheckListeners(*ParseListen(listen), {true, false, false}).ok()) << listen;
    EXPECT_TRUE(CheckListeners(*ParseListen(listen), {false, true, false}).ok()) << listen;
    EXPECT_TRUE(CheckListeners(*ParseListen(listen), {false, false, true}).ok()) << listen;
  }
  EXPECT_TRUE(CheckListeners(*ParseListen("unix:/tmp/a"), {}).ok());
}

TEST(Options, PeersAreEncryptedOrNot) {
  Flags flags;
  flags.peer_listen = "127.0.0.1:0";
  flags.peer_secret_file = "/dev/null";
  flags.peer_encryption = "ssl";
  flags.allow_unauthenticated_loopback = true;
  const auto refused = OptionsFromFlags(flags);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(), "--peer-encryption expects tls or none, got ssl");
}

TEST(Options, NcclBetweenDaemonsHasANetwork) {
  Flags flags;
  flags.listen = "unix:/tmp/a.sock";
  flags.peer_nccl = true;
  absl::Status refused = OptionsFromFlags(flags).status();
  EXPECT_TRUE(absl::StrContains(refused.message(), "--peer-nccl expect --peer-listen")) << refused;
  flags.peer_listen = "127.0.0.1:0";
  flags.peer_secret_file = "/dev/null";
  unsetenv("NCCL_SOCKET_IFNAME");
  refused = OptionsFromFlags(flags).status();
  EXPECT_TRUE(absl::StrContains(refused.message(), "expects NCCL_SOCKET_IFNAME")) << refused;
  setenv("NCCL_SOCKET_IFNAME", "eth1", 1);
  refused = OptionsFromFlags(flags).status();  // for another reason, if at all
  EXPECT_FALSE(absl::StrContains(refused.message(), "NCCL")) << refused;
  unsetenv("NCCL_SOCKET_IFNAME");
}

TEST(Options, LeasesThatClocksCannotHoldAreRefused) {
  const auto lease = [](absl::Duration duration) {
    Flags flags;
    flags.listen = "unix:/tmp/a.sock";
    flags.lease = duration;
    return OptionsFromFlags(flags);
  };
  EXPECT_EQ(lease(absl::Seconds(90))->lease, std::chrono::milliseconds(90000));
  EXPECT_FALSE(lease(absl::InfiniteDuration()).ok());
  EXPECT_FALSE(lease(-absl::Seconds(1)).ok());
  EXPECT_EQ(lease(absl::Seconds(1))->function_deadline, std::chrono::hours(1));
}

TEST(Options, SnapshotsThatStay) {
  const auto keep = [](int count, const std::string& folder) {
    Flags flags;
    flags.listen = "unix:/tmp/a.sock";
    flags.state_dir = folder;
    flags.state_keep = count;
    return OptionsFromFlags(flags);
  };
  EXPECT_EQ(keep(1, "")->state_keep, 1);
  EXPECT_EQ(keep(100, "/tmp/state")->state_keep, 100);
  EXPECT_EQ(keep(2, "").status().message(), "--state-keep expects --state-dir, got none");
  for (const int wrong : {-1, 0, 101}) {
    EXPECT_EQ(keep(wrong, "/tmp/state").status().message(),
              absl::StrCat("--state-keep expects 1 to 100, got ", wrong));
  }
}

TEST(Options, TheLogOfAPrivateDaemonIsQuiet) {
  Flags flags;
  flags.listen = "unix:/tmp/a.sock";
  EXPECT_EQ(OptionsFromFlags(flags)->log.level, LogLevel::kInfo);
  flags.lifeline_fd = 5;
  EXPECT_EQ(OptionsFromFlags(flags)->log.level, LogLevel::kWarning);
  flags.log_level = "debug";
  flags.log_format = "json";
  EXPECT_EQ(OptionsFromFlags(flags)->log.level, LogLevel::kDebug);
  EXPECT_EQ(OptionsFromFlags(flags)->log.format, LogFormat::kJson);
  flags.log_level = "loud";
  EXPECT_EQ(OptionsFromFlags(flags).status().message(),
            "--log-level expects debug, info, warning, error or off, got loud");
  flags.log_level = absl::nullopt;
  flags.log_format = "xml";
  EXPECT_EQ(OptionsFromFlags(flags).status().message(),
            "--log-format expects text or json, got xml");
}

}  // namespace
}  // namespace chx::server
