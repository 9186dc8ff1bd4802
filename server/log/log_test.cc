#include "server/log/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace chx::server {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
    fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
  }
  ~LogTest() override {
    ConfigureLog({});
    close(pipe_[0]);
    close(pipe_[1]);
  }
  void Use(LogLevel level, LogFormat format) const {
    LogOptions options;
    options.level = level;
    options.format = format;
    options.process = "chxd-test";
    options.fd = pipe_[1];
    ConfigureLog(options);
  }
  std::vector<std::string> Lines() const {
    std::string text;
    char buffer[4096];
    for (ssize_t size; (size = read(pipe_[0], buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(size));
    }
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }
  std::string Line() const {
    const std::vector<std::string> lines = Lines();
    EXPECT_EQ(lines.size(), 1u);
    return lines.empty() ? "" : lines[0];
  }

  int pipe_[2] = {-1, -1};
};

TEST_F(LogTest, Text) {
  Use(LogLevel::kInfo, LogFormat::kText);
  Log(LogLevel::kInfo, "session opened",
      {{"session", 7}, {"peer", "uid 1000"}, {"client", "a"}, {"share", true}, {"seconds", 0.5}});
  const std::regex expected(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info chxd-test: session opened session=7 )"
      R"(peer="uid 1000" client=a share=true seconds=0\.5)");
  const std::string line = Line();
  EXPECT_TRUE(std::regex_match(line, expected)) << line;
}

TEST_F(LogTest, Json) {
  Use(LogLevel::kInfo, LogFormat::kJson);
  Log(LogLevel::kError, "it \"failed\"", {{"session", 7}, {"reason", "a\\b"}, {"tls", false}});
  const std::regex expected(
      R"(\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","level":"error",)"
      R"("process":"chxd-test","pid":\d+,"message":"it \\"failed\\"","session":7,)"
      R"("reason":"a\\\\\\\\b","tls":false\})");
  const std::string line = Line();
  EXPECT_TRUE(std::regex_match(line, expected)) << line;
}

TEST_F(LogTest, LevelsBelowAreLeftOut) {
  Use(LogLevel::kWarning, LogFormat::kText);
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    Log(level, "message");
  }
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(absl::StrContains(lines[0], " warning "));
  EXPECT_TRUE(absl::StrContains(lines[1], " error "));
  Use(LogLevel::kOff, LogFormat::kText);
  Log(LogLevel::kError, "message");
  EXPECT_TRUE(Lines().empty());
}

// What a client names itself stays one value of one line.
TEST_F(LogTest, TextOfClientsAddsNothing) {
  const std::string evil =
      "x\n2026-01-01T00:00:00.000Z info chxd: session opened \x1b[2J\r \"} peer=root {fmt} %v \xff";
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    Use(LogLevel::kInfo, format);
    Log(LogLevel::kInfo, evil, {{"client", evil}});
    const std::string line = Line();
    for (const char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << line;
    EXPECT_TRUE(absl::StrContains(line, format == LogFormat::kText ? "\\x1b[2J" : "\\\\x1b[2J"))
        << line;
    EXPECT_TRUE(absl::StrContains(line, "{fmt} %v")) << line;
    const std::string quoted =
        format == LogFormat::kText ? R"(client="x\x0a)" : R"("client":"x\\x0a)";
    EXPECT_TRUE(absl::StrContains(line, quoted)) << line;
    EXPECT_TRUE(absl::StrContains(line, R"(\"} peer=root)")) << line;
  }
}

TEST_F(LogTest, LongTextIsCutBetweenCharacters) {
  Use(LogLevel::kInfo, LogFormat::kJson);
  std::string text = "a";
  for (int i = 0; i < 5000; ++i) text += "\u00e9";
  Log(LogLevel::kInfo, text, {{"a", text}, {"b", std::string(5000, '\\')}, {"c", text}});
  const std::string line = Line();
  EXPECT_LE(line.size(), 4096u);
  EXPECT_TRUE(absl::StrContains(line, "\u00e9...\",\"a\":\"a\u00e9")) << line;
  EXPECT_EQ(line.find("\\\\x"), std::string::npos) << line;
  EXPECT_EQ(line.back(), '}');
}

TEST(LogLimit, AdmitsABurstAndThenOnePerPeriod) {
  using std::chrono::seconds;
  LogLimit limit(3, seconds(10));
  LogLimit::Clock::time_point now(seconds(1000));
  int64_t left_out = -1;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(limit.Admit(now, &left_out));
    EXPECT_EQ(left_out, 0);
  }
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limit.Admit(now, &left_out));
  EXPECT_FALSE(limit.Admit(now + seconds(9), &left_out));
  EXPECT_TRUE(limit.Admit(now + seconds(10), &left_out));
  EXPECT_EQ(left_out, 6);
  EXPECT_FALSE(limit.Admit(now + seconds(11), &left_out));
  now += seconds(1000);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.Admit(now, &left_out));
  EXPECT_FALSE(limit.Admit(now, &left_out));
}

TEST_F(LogTest, WhatClientsCauseIsLimited) {
  Use(LogLevel::kInfo, LogFormat::kText);
  LogLimit limit(5, std::chrono::hours(1));
  for (int i = 0; i < 1000; ++i) Log(&limit, LogLevel::kWarning, "client refused");
  EXPECT_EQ(Lines().size(), 5u);
  LogLimit other(5, std::chrono::hours(1));
  int64_t left_out = 0;
  for (int i = 0; i < 7; ++i)
    other.Admit(LogLimit::Clock::now() - std::chrono::hours(9), &left_out);
  Log(&other, LogLevel::kWarning, "client refused");
  EXPECT_TRUE(absl::StrContains(Line(), "client refused left_out=2"));
}

// A reader that has stopped, such as a pipe that nobody drains, holds nobody up.
TEST_F(LogTest, NobodyWaitsForAReader) {
  Use(LogLevel::kInfo, LogFormat::kText);
  const std::string text(200, 'x');
  for (int i = 0; i < 2000; ++i) Log(LogLevel::kInfo, text, {{"i", i}});  // 64 KiB have room
  EXPECT_EQ(fcntl(pipe_[1], F_GETFL) & O_NONBLOCK, 0) << "others write there, too";
  const size_t before = Lines().size();
  EXPECT_GT(before, 100u);
  EXPECT_LT(before, 2000u);
  Log(LogLevel::kInfo, "again");
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(absl::StrContains(
      lines[0], absl::StrCat("warning chxd-test: log lines were lost lines=", 2000 - before)))
      << lines[0];
  EXPECT_TRUE(absl::StrContains(lines[1], "again"));
}

TEST_F(LogTest, ThreadsWriteWholeLines) {
  Use(LogLevel::kInfo, LogFormat::kText);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 50; ++j) Log(LogLevel::kInfo, "line", {{"text", std::string(100, 'y')}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> lines = Lines();
  EXPECT_EQ(lines.size(), 200u);
  for (const std::string& line : lines) EXPECT_TRUE(absl::EndsWith(line, "yyy")) << line;
}

TEST_F(LogTest, HelpersAreToldByTheEnvironment) {
  Use(LogLevel::kError, LogFormat::kJson);
  const std::vector<std::string> variables = LogEnvironment();
  EXPECT_EQ(variables, (std::vector<std::string>{"CHXD_LOG_LEVEL=error", "CHXD_LOG_FORMAT=json"}));
  ConfigureLog({});
  for (const std::string& variable : variables) {
    const std::vector<std::string> parts = absl::StrSplit(variable, '=');
    setenv(parts[0].c_str(), parts[1].c_str(), 1);
  }
  ConfigureLogFromEnvironment("chxd-front");
  EXPECT_EQ(CurrentLogOptions().level, LogLevel::kError);
  EXPECT_EQ(CurrentLogOptions().format, LogFormat::kJson);
  EXPECT_EQ(CurrentLogOptions().process, "chxd-front");
}

TEST_F(LogTest, NamesOfLevelsAndFormats) {
  LogLevel level = LogLevel::kInfo;
  EXPECT_TRUE(ParseLogLevel("off", &level).ok());
  EXPECT_EQ(level, LogLevel::kOff);
  EXPECT_FALSE(ParseLogLevel("loud", &level).ok());
  LogFormat format = LogFormat::kText;
  EXPECT_TRUE(ParseLogFormat("json", &format).ok());
  EXPECT_EQ(format, LogFormat::kJson);
  EXPECT_FALSE(ParseLogFormat("xml", &format).ok());
}

}  // namespace
}  // namespace chx::server
