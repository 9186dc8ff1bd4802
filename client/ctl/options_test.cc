#include "client/ctl/options.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace chx::ctl {
namespace {

Parsed ParseLine(std::vector<const char*> args) {
  args.insert(args.begin(), "chxctl");
  return Parse(static_cast<int>(args.size()), args.data());
}

TEST(OptionsTest, CommandsAndTheirFlags) {
  const Parsed limit = ParseLine({"session", "limit", "7", "--memory", "2GiB", "--output", "json"});
  EXPECT_FALSE(limit.done) << limit.error;
  EXPECT_EQ(limit.options.command, "session limit");
  EXPECT_EQ(limit.options.session, 7u);
  EXPECT_EQ(limit.options.memory, uint64_t{2} << 30);
  EXPECT_TRUE(limit.options.json);
  const Parsed trace = ParseLine({"--address", "unix:/x", "trace", "--seconds", "2.5", "-o", "t"});
  EXPECT_EQ(trace.options.command, "trace");
  EXPECT_EQ(trace.options.address, "unix:/x");
  EXPECT_DOUBLE_EQ(trace.options.seconds, 2.5);
  EXPECT_EQ(trace.options.out, "t");
  EXPECT_EQ(ParseLine({"session", "trace", "3", "-o", "t"}).options.command, "session trace");
}

TEST(OptionsTest, WhatIsWrongIsUsage) {
  const std::vector<std::vector<const char*>> lines = {
      {},
      {"frobnicate"},
      {"session"},
      {"session", "kill"},
      {"session", "kill", "-1"},
      {"session", "kill", "x"},
      {"session", "limit", "1"},
      {"session", "limit", "1", "--memory", "much"},
      {"status", "--output", "xml"},
      {"trace"},
      {"trace", "-o", "t", "--seconds", "61"},
      {"trace", "-o", "t", "--seconds", "0"},
      {"completion", "tcsh"},
      {"top", "--sort", "name"},
  };
  for (const auto& line : lines) {
    const Parsed parsed = ParseLine(line);
    EXPECT_TRUE(parsed.done) << (line.empty() ? "" : line.back());
    EXPECT_EQ(parsed.exit_code, 2) << (line.empty() ? "" : line.back());
    EXPECT_FALSE(parsed.error.empty());
  }
}

TEST(OptionsTest, HelpAndVersionArePrinted) {
  EXPECT_TRUE(absl::StartsWith(ParseLine({"--version"}).text, "chxctl 0.")) << "version";
  const Parsed help = ParseLine({"session", "limit", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(help.text, "--memory")) << help.text;
  EXPECT_TRUE(absl::StrContains(help.text, "chxctl session limit")) << help.text;
  EXPECT_TRUE(absl::StrContains(ParseLine({"--help"}).text, "drain"));
}

TEST(OptionsTest, ScriptsNameAllCommands) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(shell);
    for (const char* word : {"status", "drain", "kill", "--memory", "token-file"}) {
      const absl::string_view text = word;
      EXPECT_TRUE(absl::StrContains(script, absl::StripPrefix(text, "--"))) << shell << word;
    }
  }
  EXPECT_EQ(CompletionScript("tcsh"), "");
}

}  // namespace
}  // namespace chx::ctl
