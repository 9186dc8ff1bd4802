// The shipped binary: how it starts, answers and ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/rpc/rpc_client.h"

namespace chx {
namespace {

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
  // Where it says that it is ready.
  std::string Address() const {
    const std::string line = ReadLine();
    const std::string prefix = "chxd ready ";
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
  Process daemon({"--listen=127.0.0.1:0", "--drain-timeout=2s"});
  const std::string address = daemon.Address();
  Process healthy({"--health=" + address});
  EXPECT_EQ(healthy.ReadLine(), "SERVING");
  EXPECT_EQ(healthy.Wait(), 0);
  const auto channel = ChannelTo(address);
  std::string services;  // linked statically, too, reflection is there
  EXPECT_TRUE(CallRaw(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "",
                      std::string("\x3a\x00", 2), &services)
                  .ok());
  EXPECT_NE(services.find("chx.v1.SessionService"), std::string::npos);
  RpcClient client(channel);
  EXPECT_TRUE(client.Open().ok());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  Process gone({"--health=" + address});
  EXPECT_EQ(gone.Wait(), 1);
}

TEST(Process, EndsWithItsLifeline) {
  int lifeline[2];
  ASSERT_EQ(pipe2(lifeline, O_CLOEXEC), 0);
  Process daemon({"--listen=127.0.0.1:0", "--lifeline-fd=" + std::to_string(lifeline[0])},
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
  says({"--devices=native:7", "--listen=127.0.0.1:0"}, "native");
  says({"--devices=tpu:0", "--listen=127.0.0.1:0"}, "tpu");
  says({"--devices=cuda:0", "--listen=127.0.0.1:0", "--plugin-dir=/nonexistent"},
       "/nonexistent/libchxd_cuda.so");
  says({"--session-memory=lots"}, "lots");
  says({"--token-file=/nonexistent"}, "cannot read /nonexistent");
}

TEST(Process, ReplacesTheSocketOfAKilledDaemon) {
  const SocketDirectory directory;
  const std::string path = directory.Socket();
  {
    Process daemon({"--listen=unix:" + path});
    EXPECT_EQ(daemon.Address(), "unix:" + path);
    Process second({"--listen=unix:" + path});
    EXPECT_NE(second.ReadLine().find("somebody already listens on " + path), std::string::npos);
    EXPECT_EQ(second.Wait(), 1);
  }  // SIGKILL: the socket stays behind
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  Process daemon({"--listen=unix:" + path});
  EXPECT_EQ(daemon.Address(), "unix:" + path);
  RpcClient client(ChannelTo("unix:" + path));
  EXPECT_TRUE(client.Open().ok());
}

}  // namespace
}  // namespace chx
