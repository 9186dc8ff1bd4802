// The shipped binary: how it starts, answers and ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/rpc/grpc_client.h"
#include "tests/rpc/rpc_client.h"

namespace chx::server {
namespace {

constexpr char kOpen[] = "--allow-unauthenticated-loopback";

class Process {
 public:
  // `lifeline` is inherited as this descriptor if it isn't negative.
  explicit Process(std::vector<std::string> flags, int lifeline = -1) {
    int out[2];
    EXPECT_EQ(pipe(out), 0);
    flags.insert(flags.begin(), std::getenv("CHXD"));
    std::vector<char*> argv;
    for (std::string& flag : flags) argv.push_back(&flag[0]);
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(out[1], STDERR_FILENO);
      close(out[0]);
      close(out[1]);
      if (lifeline >= 0) fcntl(lifeline, F_SETFD, 0);
      execv(argv[0], argv.data());
      _exit(126);
    }
    close(out[1]);
    out_ = out[0];
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
  }
  void Signal(int signal) const { kill(pid_, signal); }
  std::string ReadLine() const {
    std::string line;
    char c = 0;
    while (read(out_, &c, 1) == 1 && c != '\n') line.push_back(c);
    return line;
  }
  // To the end.
  std::string ReadAll() const {
    std::string text;
    char c = 0;
    while (read(out_, &c, 1) == 1) text.push_back(c);
    return text;
  }
  // Where it says that it is ready.
  std::string Address() const {
    const std::string prefix = "chxd ready ";
    std::string line = ReadLine();
    while (!line.empty() && !absl::StartsWith(line, prefix)) line = ReadLine();  // the log
    EXPECT_EQ(line.substr(0, prefix.size()), prefix) << line;
    return line.size() > prefix.size() ? line.substr(prefix.size()) : "";
  }
  // The exit status; 128 and the signal if it was killed.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

TEST(Process, ServesAndEndsOnSigterm) {
  const SocketDirectory directory;
  Process daemon({"--listen=127.0.0.1:0,unix:" + directory.Socket(), kOpen, "--drain-timeout=2s"});
  const std::vector<std::string> addresses = absl::StrSplit(daemon.Address(), ' ');
  const std::string& address = addresses[0];
  Process healthy({"--health=" + address});
  EXPECT_EQ(healthy.ReadLine(), "SERVING");
  EXPECT_EQ(healthy.Wait(), 0);
  const auto channel = ChannelTo("unix:" + directory.Socket());
  std::string services;  // linked statically, too, reflection is there
  EXPECT_TRUE(CallRaw(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "",
                      std::string("\x3a\x00", 2), &services)
                  .ok());
  EXPECT_NE(services.find("chx.v1.AdminService"), std::string::npos);
  RpcClient client(address);
  EXPECT_TRUE(client.Open().ok());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  Process gone({"--health=" + address});
  EXPECT_EQ(gone.Wait(), 1);
}

TEST(Process, EndsWithItsLifeline) {
  int lifeline[2];
  ASSERT_EQ(pipe2(lifeline, O_CLOEXEC), 0);
  Process daemon({"--listen=127.0.0.1:0", kOpen, "--lifeline-fd=" + std::to_string(lifeline[0])},
                 lifeline[0]);
  close(lifeline[0]);
  EXPECT_NE(daemon.Address(), "");
  close(lifeline[1]);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST(Process, SaysWhatIsWrongWithItsFlags) {
  const auto says = [](std::vector<std::string> flags, const std::string& what) {
    Process daemon(std::move(flags));
    const std::string line = daemon.ReadLine();
    EXPECT_NE(line.find(what), std::string::npos) << line;
    EXPECT_EQ(daemon.Wait(), 1);
  };
  says({"--listen=0.0.0.0:0"}, "needs --tls-cert, --tls-key and --token-file");
  says({"--listen=127.0.0.1:0"}, "--allow-unauthenticated-loopback");
  says({"--max-sessions=0"}, "--max-sessions expects 1 to 1000000");
  says({"--devices=native:7", "--listen=127.0.0.1:0", kOpen}, "native");
  says({"--devices=tpu:0", "--listen=127.0.0.1:0", kOpen}, "tpu");
  says({"--devices=cuda:0", "--listen=127.0.0.1:0", kOpen, "--plugin-dir=/nonexistent"},
       "/nonexistent/libchxd_cuda.so");
  says({"--session-memory=lots"}, "--session-memory expects a number of bytes");
  says({"--memory=1.5"}, "--memory expects a number of bytes");
  says({"--memory=1MiB"}, "--memory expects at least 128 MiB, got 1MiB");
  says({"--threads=-3"}, "--threads expects 0 to 1024, got -3");
  says({"--threads=1025"}, "--threads expects 0 to 1024, got 1025");
  says({"serve"}, "expects flags only, got 'serve'");
  says({"--token-file=/nonexistent"}, "got /nonexistent: No such file");
}

// The names of flags on lines that begin with so many spaces, in order.
std::vector<std::string> FlagsIn(const std::string& text, const std::string& indent) {
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, indent + "--")) continue;
    names.push_back(absl::StrReplaceAll(line.substr(0, line.find_first_of(" =")), {{"_", "-"}}));
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Process, Help) {
  for (const char* const flag : {"--help", "-h"}) {
    Process help({flag});
    const std::string text = help.ReadAll();
    EXPECT_EQ(help.Wait(), 0);
    EXPECT_GT(FlagsIn(text, "  ").size(), 20u) << text;
    EXPECT_NE(text.find("\nLimits:\n"), std::string::npos) << text;
    EXPECT_NE(text.find("--max-sessions=2048\n"), std::string::npos) << text;
  }
}

TEST(Process, ReplacesTheSocketOfAKilledDaemon) {
  const SocketDirectory directory;
  const std::string path = directory.Socket();
  {
    Process daemon({"--listen=unix:" + path});
    EXPECT_EQ(daemon.Address(), "unix:" + path);
    Process second({"--listen=unix:" + path});
    EXPECT_NE(second.ReadLine().find("another chxd listens there"), std::string::npos);
    EXPECT_EQ(second.Wait(), 1);
  }  // SIGKILL: the socket stays behind
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  Process daemon({"--listen=unix:" + path});
  EXPECT_EQ(daemon.Address(), "unix:" + path);
  RpcClient client("unix:" + path);
  EXPECT_TRUE(client.Open().ok());
}

}  // namespace
}  // namespace chx::server
