#include "client/segments.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/local_socket.h"
#include "client/log.h"
#include "ops/error.h"
#include "proto/segment_socket.h"

namespace chx {
namespace {

constexpr size_t kMaxIdle = 64;

// Sends the request and receives the reply and the descriptor, or -1.
int Ask(int socket, const SegmentRequest& request, SegmentReply* reply) {
  const timeval timeout = {5, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  if (send(socket, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request)) return -1;
  iovec data = {reply, sizeof(*reply)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(*reply)) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  }
  return fd;
}

// What lies beyond a file's end would be a bus error: its size is looked at, not believed.
MappingPtr MapFile(int fd, uint64_t bytes, bool populate) {
  struct stat info = {};
  if (bytes == 0 || fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return nullptr;
  }
  const int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0);
  for (const bool writable : {true, false}) {
    const int rights = PROT_READ | (writable ? PROT_WRITE : 0);
    void* const data = mmap(nullptr, bytes, rights, flags, fd, 0);
    if (data != MAP_FAILED) {
      return std::make_shared<Mapping>(static_cast<char*>(data), bytes, writable);
    }
    if (errno != EPERM) break;  // else it is sealed: other sessions have it, too
  }
  return nullptr;
}

}  // namespace

Mapping::~Mapping() { munmap(data_, bytes_); }

std::unique_ptr<SegmentMap> SegmentMap::For(const std::string& address, std::string session_id,
                                            const absl::optional<uid_t>& daemon) {
  const std::string path = SocketPathOf(address);
  if (path.empty() || session_id.size() != 16 || !daemon.has_value()) return nullptr;
  return std::unique_ptr<SegmentMap>(
      new SegmentMap(SegmentSocketOf(path), std::move(session_id), *daemon));
}

absl::StatusOr<MappingPtr> SegmentMap::Get(uint32_t number, bool populate) {
  MutexLock lock(&mutex_);
  if (retired_) return MemoryError("[share] the daemon that shared segment ", number, " has ended");
  auto it = mappings_.find(number);
  if (it != mappings_.end()) return it->second;
  CHX_ASSIGN_OR_RETURN(MappingPtr mapping, Map(number, populate));
  if (mappings_.size() >= kMaxIdle) {
    for (auto idle = mappings_.begin(); idle != mappings_.end();) {
      const auto here = idle++;
      if (here->second.use_count() == 1) mappings_.erase(here);
    }
  }
  mappings_.emplace(number, mapping);
  return mapping;
}

void SegmentMap::Retire() {
  retired_ = true;
  usable_ = false;
  Clear();
}

void SegmentMap::Clear() {
  MutexLock lock(&mutex_);
  mappings_.clear();
}

absl::StatusOr<MappingPtr> SegmentMap::Map(uint32_t number, bool populate) {
  // Anybody who can make a file there would else be shown the session's id. The user whom the
  // session is with knows it already.
  const int connection = ConnectLocally(path_, SOCK_SEQPACKET, daemon_);
  if (connection < 0) {
    if (usable_.exchange(false)) {
      internal::Log(LogLevel::kInfo,
                    absl::StrCat("cannot connect to ", path_,
                                 ": arrays are copied through the connection, not shared memory"));
    }
    return MemoryError("[share] cannot connect to ", path_);
  }
  SegmentRequest request = {kSegmentMagic, number, {}};
  std::memcpy(request.session_id, session_id_.data(), sizeof(request.session_id));
  SegmentReply reply = {};
  const int fd = Ask(connection, request, &reply);
  close(connection);
  MappingPtr mapping = fd < 0 ? nullptr : MapFile(fd, reply.bytes, populate);
  if (fd >= 0) close(fd);
  if (mapping == nullptr) return MemoryError("[share] cannot map segment ", number);
  return mapping;
}

}  // namespace chx
