// Who gets the descriptors of a session's memory, and what can be done with them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "proto/command_codec.h"
#include "proto/messages.h"
#include "proto/segment_socket.h"
#include "proto/shared_block.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx::server {
namespace {

constexpr uint64_t kRequest = 9;

class SegmentTest : public DaemonTest {
 protected:
  SegmentTest() {
    options.listeners = *ParseListen(absl::StrCat(UnixAddress(), ",127.0.0.1:0"));
    Start();
  }

  std::unique_ptr<RpcClient> Opened(size_t listener = 0) {
    return std::make_unique<RpcClient>(DaemonTest::Opened(listener));
  }

  // What the daemon answers to one command on the client's stream.
  static absl::StatusOr<std::string> Share(RpcClient* client, const Command& command) {
    std::string batch;
    CommandWriter(&batch).Write(command);
    EXPECT_TRUE(client->Send(batch));
    v1::Event event;
    while (event.values_size() == 0) {
      if (!client->Read(&event)) return absl::CancelledError("the stream is cut");
      client->acked_event_seq = event.event_seq();
    }
    const v1::FetchedValue& value = event.values(0);
    EXPECT_EQ(value.request_id(), kRequest);
    if (value.has_error()) return wire::FromMessage(value.error());
    return value.data();
  }
  static absl::StatusOr<SharedBlock> Export(RpcClient* client, uint64_t handle) {
    const absl::StatusOr<std::string> block = Share(client, command::ShareArray{kRequest, handle});
    if (!block.ok()) return block.status();
    return DecodeSharedBlock(*block);
  }

  int Connected() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = SegmentSocketOf(directory_.Socket());
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  // The descriptor, or -1; *answered: whether there was a reply at all.
  int Receive(int connection, bool* answered) const {
    SegmentReply reply = {};
    iovec data = {&reply, sizeof(reply)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    *answered = recvmsg(connection, &message, 0) == sizeof(reply);
    close(connection);
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (!*answered || header == nullptr) return -1;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    EXPECT_EQ(reply.found, 1u);
    return fd;
  }

  int Get(const std::string& session_id, uint32_t segment, uint32_t magic = kSegmentMagic) const {
    SegmentRequest request = {magic, segment, {}};
    std::memcpy(request.session_id, session_id.data(), 16);
    const int connection = Connected();
    EXPECT_EQ(send(connection, &request, sizeof(request), 0),
              static_cast<ssize_t>(sizeof(request)));
    bool answered = false;
    const int fd = Receive(connection, &answered);
    EXPECT_TRUE(answered);
    return fd;
  }
};

TEST_F(SegmentTest, AnArrayIsMappedAndSealed) {
  auto client = Opened();
  EXPECT_TRUE(client->opened.devices(0).shares_memory());
  ASSERT_TRUE(client->Upload(5, {1, 2, 3}, 100).ok());
  const auto place = Export(client.get(), 5);
  ASSERT_TRUE(place.ok()) << place.status();
  const int fd = Get(client->session_id(), place->segment);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_NE(ftruncate(fd, 1 << 30), 0);
  EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  struct stat info = {};
  ASSERT_EQ(fstat(fd, &info), 0);
  ASSERT_GE(static_cast<uint64_t>(info.st_size), place->offset + place->bytes);
  auto* const data = static_cast<char*>(
      mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(data, MAP_FAILED);
  auto* const values = reinterpret_cast<float*>(data + place->offset + place->array_offset);
  EXPECT_EQ(std::vector<float>(values, values + 3), (std::vector<float>{1, 2, 3}));
  values[1] = 7;
  std::vector<float> seen(3);
  ASSERT_TRUE(client->Download(5, &seen).ok());
  EXPECT_EQ(seen, (std::vector<float>{1, 7, 3}));
  // Holes are the client's own loss: the daemon reads zeros.
  EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, info.st_size), 0);
  ASSERT_TRUE(client->Download(5, &seen).ok());
  EXPECT_EQ(seen, (std::vector<float>{0, 0, 0}));
  munmap(data, static_cast<size_t>(info.st_size));
  close(fd);
}

TEST_F(SegmentTest, WrongForeignAndClosedSessionsGetNothing) {
  auto mine = Opened();
  auto other = Opened();
  ASSERT_TRUE(mine->Upload(5, {1}, 100).ok());
  const auto place = Export(mine.get(), 5);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(Get(std::string(16, 'x'), place->segment), -1);
  EXPECT_EQ(Get(std::string(16, '\0'), place->segment), -1);
  EXPECT_EQ(Get(other->session_id(), place->segment), -1);
  EXPECT_EQ(Get(mine->session_id(), place->segment + 1), -1);
  EXPECT_EQ(Get(mine->session_id(), 0), -1);
  EXPECT_EQ(Get(mine->session_id(), place->segment, 0), -1);
  EXPECT_EQ(KindOf(Export(other.get(), 5).status()), ErrorKind::kValue);
  // Both have a segment of the same number: each gets its own.
  ASSERT_TRUE(other->Upload(6, {2}, 100).ok());
  const auto others = Export(other.get(), 6);
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_EQ(others->segment, place->segment);
  struct stat a = {};
  struct stat b = {};
  const int mine_fd = Get(mine->session_id(), place->segment);
  const int other_fd = Get(other->session_id(), place->segment);
  ASSERT_EQ(fstat(mine_fd, &a) | fstat(other_fd, &b), 0);
  EXPECT_NE(a.st_ino, b.st_ino);
  close(mine_fd);
  close(other_fd);
  v1::CloseReply reply;
  ASSERT_TRUE(mine->Close(&reply).ok());
  EXPECT_EQ(Get(mine->session_id(), place->segment), -1);
}

TEST_F(SegmentTest, BadPacketsAndSilentClientsAreNoTrouble) {
  auto client = Opened();
  ASSERT_TRUE(client->Upload(5, {1}, 100).ok());
  const auto place = Export(client.get(), 5);
  ASSERT_TRUE(place.ok()) << place.status();
  for (const size_t size : {1u, 23u, 25u, 4000u}) {
    const int connection = Connected();
    const std::string packet(size, 'x');
    ASSERT_EQ(send(connection, packet.data(), size, 0), static_cast<ssize_t>(size));
    bool answered = true;
    EXPECT_EQ(Receive(connection, &answered), -1);
    EXPECT_FALSE(answered);
  }
  std::vector<int> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(Connected());
  const int fd = Get(client->session_id(), place->segment);
  EXPECT_GE(fd, 0);
  close(fd);
  for (int connection : silent) close(connection);
}

TEST_F(SegmentTest, SessionsOverTcpShareNothing) {
  auto client = Opened(1);
  EXPECT_FALSE(client->opened.devices(0).shares_memory());
  ASSERT_TRUE(client->Upload(5, {1}, 100).ok());
  EXPECT_EQ(KindOf(Export(client.get(), 5).status()), ErrorKind::kMemory);
  EXPECT_EQ(Get(client->session_id(), 1), -1);
}

TEST_F(SegmentTest, RequestsAreChecked) {
  auto client = Opened();
  ASSERT_TRUE(client->Upload(5, std::vector<float>(16, 1), 100).ok());
  ASSERT_TRUE(Export(client.get(), 5).ok());
  command::ShareAlias alias;
  alias.request_id = kRequest;
  alias.handle = 5;
  alias.shape = {4};
  alias.strides = {16};
  alias.result = 6;
  const auto refuses = [&](const Command& command, ErrorKind kind) {
    const absl::Status status = Share(client.get(), command).status();
    return !status.ok() && KindOf(status) == kind;
  };
  const auto refused = [&](auto change, ErrorKind kind = ErrorKind::kValue) {
    command::ShareAlias command = alias;
    change(&command);
    return refuses(command, kind);
  };
  using Alias = command::ShareAlias;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  for (const int64_t stride : {int64_t{24}, int64_t{2}, int64_t{-4}, kMax, kMin, kMax - 3}) {
    EXPECT_TRUE(refused([=](Alias* c) { c->strides[0] = stride; })) << stride;
  }
  for (const int64_t offset : {int64_t{-4}, int64_t{2}, int64_t{20}, kMax - 3, kMin}) {
    EXPECT_TRUE(refused([=](Alias* c) { c->offset = offset; })) << offset;
  }
  EXPECT_TRUE(refused([](Alias* c) { c->shape[0] = 5; }));
  for (const int64_t dim : {int64_t{-1}, kMax, int64_t{1} << 59}) {
    EXPECT_TRUE(refused([=](Alias* c) { c->shape[0] = dim; }, ErrorKind::kDimension) ||
                refused([=](Alias* c) { c->shape[0] = dim; }))
        << dim;
  }
  EXPECT_TRUE(refused([](Alias* c) { c->strides.push_back(4); }));
  EXPECT_TRUE(refused([](Alias* c) { c->strides.clear(); }));
  EXPECT_TRUE(refused([](Alias* c) { c->shape.clear(); }));
  EXPECT_TRUE(refused([](Alias* c) { c->shape.assign(1000, 1); }, ErrorKind::kDimension));
  EXPECT_TRUE(refused([](Alias* c) { c->handle = 77; }));
  EXPECT_TRUE(refused([](Alias* c) { c->result = 5; }));
  EXPECT_TRUE(refused([](Alias* c) { c->result = 0; }));
  EXPECT_TRUE(refuses(command::ShareCopy{kRequest, 5, 0}, ErrorKind::kValue));
  EXPECT_TRUE(refuses(command::ShareCopy{kRequest, 5, 5}, ErrorKind::kValue));
  EXPECT_TRUE(refuses(command::ShareCopy{kRequest, 77, 7}, ErrorKind::kValue));
  EXPECT_TRUE(refuses(command::ShareArray{kRequest, 77}, ErrorKind::kValue));
  const auto new_array = [](int64_t size, uint16_t device, Handle result) {
    return command::ShareNew{kRequest, Dtype::kFloat32, device, {size}, result};
  };
  EXPECT_TRUE(refuses(new_array(4, 0, 0), ErrorKind::kValue));
  EXPECT_TRUE(refuses(new_array(4, 0, 5), ErrorKind::kValue));
  EXPECT_TRUE(refuses(new_array(4, 9, 6), ErrorKind::kDevice));
  // More than the quota is refused before it is allocated.
  EXPECT_TRUE(refuses(new_array(int64_t{1} << 40, 0, 6), ErrorKind::kMemory));
  std::vector<float> seen(4);
  EXPECT_FALSE(client->Download(6, &seen).ok());
  EXPECT_TRUE(Share(client.get(), alias).ok());
  EXPECT_TRUE(client->Download(6, &seen).ok());
  EXPECT_EQ(seen, std::vector<float>(4, 1));
}

}  // namespace
}  // namespace chx::server
