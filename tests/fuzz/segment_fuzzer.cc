// Packets to the socket for descriptors, some with descriptors along, by several connections. An
// input is a list of packets: a byte of flags, a byte of length, that many bytes.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/descriptors.h"
#include "proto/segment_socket.h"
#include "proto/shared_block.h"
#include "server/engine/devices.h"
#include "server/native/native_backend.h"
#include "server/rpc/segment_server.h"
#include "server/session/session_manager.h"
#include "tests/fuzz/target.h"

namespace chx {
namespace {

using server::Backend;
using server::Devices;
using server::ManagerOptions;
using server::SegmentServer;
using server::SessionManager;
using server::SessionOutput;
using server::SessionRecordPtr;

constexpr char kSessionId[] = "the session's id";  // as long as one
constexpr uint8_t kSendDescriptor = 1;
constexpr uint8_t kDoNotRead = 2;
constexpr uint8_t kSendAgain = 4;

struct Counts {
  uint64_t packets = 0;
  uint64_t answers = 0;
  uint64_t descriptors = 0;
  uint64_t closed = 0;
} counts;

// For the life of the process: a session whose segment 0 is a memfd.
struct World {
  std::unique_ptr<Backend> backend = server::CreateNativeBackend({1});
  Devices devices;
  std::unique_ptr<SessionManager> manager;
  std::unique_ptr<SegmentServer> server;
  SessionRecordPtr record;
  std::string path;
  uint32_t segment = 0;

  World() {
    std::string directory = "/tmp/chxd-fuzz-XXXXXX";
    if (mkdtemp(&directory[0]) == nullptr) std::abort();
    path = directory + "/chxd.sock";
    if (!devices.Open("native:0", {backend.get()}).ok()) std::abort();
    manager = std::make_unique<SessionManager>(&devices, ManagerOptions());
    auto started = SegmentServer::Start({path}, manager.get());
    if (!started.ok()) std::abort();
    server = *std::move(started);
    record = *manager->Open({"fuzz", "", "", true});
    manager->Attach(record, {});
    command::ShareNew share;
    share.dtype = Dtype::kUint8;
    share.shape = {4096};
    share.result = 1;
    SessionOutput output;
    record->session->Execute({Command(share)}, &output);
    const auto block = DecodeSharedBlock(output.values.at(0).data);
    if (!block.ok()) std::abort();
    segment = block->segment;
  }

  int Connect() const {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string place = SegmentSocketOf(path);
    std::memcpy(address.sun_path, place.data(), place.size());
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      std::abort();
    const timeval timeout = {20, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    return fd;
  }
};

void SendPacket(int fd, const std::string& packet, bool with_descriptor) {
  SendWithDescriptors(fd, packet, absl::MakeConstSpan(&fd, with_descriptor ? 1 : 0), MSG_DONTWAIT);
}

// Whether a descriptor came; the packet must be an answer, or nothing.
bool ReadAnswer(int fd) {
  SegmentReply reply = {};
  iovec data = {&reply, sizeof(reply)};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size = 0;
  do {
    size = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);                                     // libFuzzer's alarm
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) std::abort();  // no end, no answer
  if (size <= 0) {
    ++counts.closed;
    return false;
  }
  if (size != sizeof(reply) || reply.magic != kSegmentMagic) std::abort();
  ++counts.answers;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if ((header != nullptr) != (reply.found == 1)) std::abort();
  if (header == nullptr) return false;
  int segment = -1;
  std::memcpy(&segment, CMSG_DATA(header), sizeof(segment));
  close(segment);
  ++counts.descriptors;
  return true;
}

std::string RequestFor(const std::string& id, uint32_t segment) {
  SegmentRequest request = {kSegmentMagic, segment, {}};
  std::memcpy(request.session_id, id.data(), sizeof(request.session_id));
  return std::string(reinterpret_cast<const char*>(&request), sizeof(request));
}

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static chx::World* const world = new chx::World;
  while (size >= 2) {
    const uint8_t flags = data[0];
    const size_t length = std::min<size_t>(data[1], size - 2);
    std::string packet(reinterpret_cast<const char*>(data) + 2, length);
    data += 2 + length;
    size -= 2 + length;
    if (packet.empty()) continue;
    const size_t place = packet.find(chx::kSessionId);
    if (place != std::string::npos) {
      packet.replace(place, world->record->id.size(), world->record->id);
    }
    // Also where libFuzzer has seen it: it is shown what memcmp compares.
    const bool knows_id = packet.find(world->record->id) != std::string::npos;
    const int fd = world->Connect();
    ++chx::counts.packets;
    chx::SendPacket(fd, packet, (flags & chx::kSendDescriptor) != 0);
    if ((flags & chx::kSendAgain) != 0) chx::SendPacket(fd, packet, false);
    if ((flags & chx::kDoNotRead) == 0 && chx::ReadAnswer(fd) && !knows_id) std::abort();
    close(fd);
  }
  const int fd = world->Connect();
  chx::SendPacket(fd, chx::RequestFor(world->record->id, world->segment), false);
  if (!chx::ReadAnswer(fd)) std::abort();
  close(fd);
  return 0;
}

namespace chx {

std::string FuzzCounts() {
  return absl::StrCat("  packets ", counts.packets, ", answers ", counts.answers, ", descriptors ",
                      counts.descriptors, ", closed without ", counts.closed, "\n");
}

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  std::string all;
  for (char flags = 0; flags < 8; ++flags) {
    const std::string request = RequestFor(kSessionId, static_cast<uint32_t>(flags) / 2);
    seeds.push_back(std::string(1, flags) + static_cast<char>(request.size()) + request);
    all += seeds.back();
  }
  seeds.push_back(all);
  return seeds;
}

}  // namespace chx
