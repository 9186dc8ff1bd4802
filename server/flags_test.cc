#include "server/flags.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace chx::server {
namespace {

Flags Parsed(const std::vector<std::string>& args) {
  Flags flags;
  const absl::Status status = ParseFlags(args, &flags);
  EXPECT_TRUE(status.ok()) << status;
  return flags;
}

std::string Refusal(const std::vector<std::string>& args) {
  Flags flags;
  return std::string(ParseFlags(args, &flags).message());
}

std::string FileWith(const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/chxd.toml");
  std::ofstream(path) << text;
  return path;
}

TEST(Flags, Defaults) {
  const Flags flags = Parsed({});
  EXPECT_EQ(flags.devices, "native:0");
  EXPECT_EQ(flags.session_memory, "4GiB");
  EXPECT_EQ(flags.max_sessions_per_peer, 1024);
  EXPECT_EQ(flags.lease, absl::Seconds(30));
  EXPECT_EQ(flags.slow_command, absl::Seconds(1));
  EXPECT_TRUE(flags.recognize_windows);
  EXPECT_EQ(flags.max_command_time, absl::nullopt);
  EXPECT_EQ(flags.log_level, absl::nullopt);
  EXPECT_EQ(flags.lifeline_fd, -1);
  EXPECT_EQ(flags.text, "");
}

TEST(Flags, WaysToWriteThem) {
  const Flags flags =
      Parsed({"--devices=native:0,cuda:0", "--listen", "unix:/a=b,[::1]:5", "--max_sessions=7",
              "--lease=1m30s", "--max-command-time", "0s", "--threads=-3", "--lifeline-fd", "-1",
              "--memory=1GiB", "--memory=2GiB"});
  EXPECT_EQ(flags.devices, "native:0,cuda:0");
  EXPECT_EQ(flags.listen, "unix:/a=b,[::1]:5");
  EXPECT_EQ(flags.max_sessions, 7);
  EXPECT_EQ(flags.lease, absl::Seconds(90));
  EXPECT_EQ(flags.max_command_time, absl::ZeroDuration());
  EXPECT_EQ(flags.threads, -3);  // for options.h to refuse
  EXPECT_EQ(flags.lifeline_fd, -1);
  EXPECT_EQ(flags.memory, "2GiB") << "the last one counts";
  EXPECT_TRUE(Parsed({"--allow-unauthenticated-loopback"}).allow_unauthenticated_loopback);
  EXPECT_TRUE(Parsed({"--allow-unauthenticated-loopback=true"}).allow_unauthenticated_loopback);
  EXPECT_FALSE(Parsed({"--allow-unauthenticated-loopback=false"}).allow_unauthenticated_loopback);
}

// As service managers write them whose variables are empty.
TEST(Flags, AnEmptyValueTakesNoOtherFlag) {
  const Flags flags = Parsed({"--plugins=", "--token-file=", "--threads=2"});
  EXPECT_EQ(flags.plugins, "");
  EXPECT_EQ(flags.token_file, "");
  EXPECT_EQ(flags.threads, 2);
}

TEST(Flags, WhatIsWrongIsSaid) {
  EXPECT_EQ(Refusal({"serve"}), "expects flags only, got 'serve'; chxd --help lists the flags");
  EXPECT_EQ(Refusal({"--thread=3"}), "there is no flag --thread; chxd --help lists the flags");
  EXPECT_EQ(Refusal({"--undefok=x"}), "there is no flag --undefok; chxd --help lists the flags");
  EXPECT_TRUE(absl::StrContains(Refusal({"--lease=soon"}),
                                "--lease: expects a duration such as 30s, 10m or 1h, got soon"));
  for (const char* const flag :
       {"--threads=many", "--threads", "--max-sessions=99999999999",
        "--allow-unauthenticated-loopback=maybe", "--config=/nonexistent/chxd.toml"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find('='));
    const std::string said = Refusal({flag});
    EXPECT_TRUE(absl::StrContains(said, name) || absl::StrContains(said, "/nonexistent/chxd.toml"))
        << flag << ": " << said;
  }
}

TEST(Flags, HelpNamesEachOnceInLinesThatFit) {
  const std::string text = Parsed({"--help"}).text;
  EXPECT_EQ(text, Parsed({"-h"}).text);
  std::vector<std::string> titles;
  std::vector<std::string> names;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    EXPECT_LE(line.size(), 100u) << line;
    if (absl::StartsWith(line, "  --")) names.push_back(line.substr(4, line.find('=') - 4));
    if (!line.empty() && line[0] != ' ' && line.back() == ':') titles.push_back(line);
  }
  EXPECT_EQ(titles,
            (std::vector<std::string>{"Devices:", "Where it listens, and who may come in:",
                                      "Process groups of several daemons:", "Limits:",
                                      "What it shows of itself, over HTTP:",
                                      "Log, on standard error:", "Sessions on disk:", "Data:",
                                      "Its end:", "Instead of a daemon:", "About all of these:"}));
  EXPECT_EQ(names.size(), 47u) << text;
  EXPECT_TRUE(absl::StrContains(text, "  --max-sessions=2048\n")) << text;
  EXPECT_TRUE(absl::StrContains(text, "  --lease=30s\n")) << text;
  EXPECT_TRUE(absl::StrContains(text, "  --allow-unauthenticated-loopback\n")) << text;
  EXPECT_FALSE(absl::StrContains(text, "undefok")) << text;
}

TEST(Flags, Version) {
  const std::string text = Parsed({"--version"}).text;
  EXPECT_TRUE(absl::StartsWith(text, "chxd ")) << text;
  EXPECT_EQ(text.back(), '\n');
}

TEST(Flags, AFileAndTheEnvironment) {
  const std::string path = FileWith(
      "# how we run it\n"
      "devices = [\"native:0\", \"cuda:0\"]\nthreads = 4\nlease = \"45s\"\n"
      "allow-unauthenticated-loopback = true\n");
  setenv("CHXD_LEASE", "10s", 1);
  setenv("CHXD_SESSION_MEMORY", "1GiB", 1);
  setenv("CHXD_HEALTH", "unix:/x", 1);
  const Flags flags = Parsed({"--config", path, "--threads=2"});
  EXPECT_EQ(flags.devices, "native:0,cuda:0");
  EXPECT_EQ(flags.threads, 2) << "the command line goes before the file";
  EXPECT_EQ(flags.lease, absl::Seconds(45)) << "the file goes before the environment";
  EXPECT_EQ(flags.session_memory, "1GiB");
  EXPECT_EQ(flags.health, "") << "is no setting";
  EXPECT_TRUE(flags.allow_unauthenticated_loopback);
  EXPECT_EQ(Parsed({"--lifeline-fd=5"}).session_memory, "4GiB") << "a private daemon's are its own";
  setenv("CHXD_LEASE", "soon", 1);
  EXPECT_TRUE(absl::StrContains(Refusal({}), "--lease"));
  for (const char* name : {"CHXD_LEASE", "CHXD_SESSION_MEMORY", "CHXD_HEALTH"}) unsetenv(name);
}

TEST(Flags, AFileThatIsWrongIsRefused) {
  const auto says = [](const std::string& text) { return Refusal({"--config", FileWith(text)}); };
  EXPECT_TRUE(absl::StrContains(says("lease = \"10s\nthreads = 4\n"), "line 1"));
  EXPECT_TRUE(absl::StrContains(says("threads = 1\nthreads = 2\n"), "line 2"));
  EXPECT_TRUE(absl::StrContains(says("thread = 1\n"), "thread"));
  EXPECT_TRUE(absl::StrContains(says("[limits]\nthreads = 1\n"), "limits expects a text"));
  EXPECT_TRUE(absl::StrContains(says("threads = \"many\"\n"), "--threads"));
  EXPECT_NE(says("lifeline-fd = 5\n"), "");
}

}  // namespace
}  // namespace chx::server
