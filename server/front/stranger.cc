#include "server/front/stranger.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "proto/refusal.h"
#include "server/front/hello.h"
#include "server/front/would_block.h"
#include "server/log/log.h"

namespace chx::server {
namespace {

// Below a record's size nothing is left behind in OpenSSL that epoll would not tell of.
constexpr size_t kReadBytes = 16 << 10;
// A client sends its Hello in one.
constexpr int kMaxRecords = 64;

void LogRefusal(const std::string& address, HelloCheck why) {
  static auto* const limit = new LogLimit;
  const bool denied = why == HelloCheck::kDenied;
  const char* const reason = denied                      ? "no valid token"
                             : why == HelloCheck::kPlain ? "no TLS"
                                                         : "no client of chxd";
  Log(limit, denied ? LogLevel::kWarning : LogLevel::kInfo, "client refused",
      {{"peer", address}, {"reason", reason}});
}

void LogNoTls(const std::string& address) {
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kInfo, "client refused",
      {{"peer", address}, {"reason", "the TLS handshake failed"}});
}

}  // namespace

Stranger::Stranger(uint64_t id, int socket, std::string address, std::shared_ptr<FrontTls> tls)
    : id(id), address(std::move(address)), socket_(socket), tls_(std::move(tls)) {}

Stranger::~Stranger() {
  stream_ = nullptr;
  if (socket_ >= 0) close(socket_);
}

Stranger::Step Stranger::Advance(const Guests& guests) {
  return tls_ == nullptr ? AdvancePlain(guests) : AdvanceTls(guests);
}

void Stranger::SendRefusal(HelloCheck why) const {
  const std::string refusal = RefusalFrame(why);
  static_cast<void>(send(socket_, refusal.data(), refusal.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  DiscardUnread(socket_);
}

Stranger::Step Stranger::AdvancePlain(const Guests& guests) {
  std::array<char, kMaxHelloFrame> buffer;
  const ssize_t size = recv(socket_, buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size < 0 && WouldBlock()) return Step::kWait;
  if (size <= 0) return Step::kGone;
  spoken_ = true;
  const HelloCheck check = CheckHello({buffer.data(), static_cast<size_t>(size)}, guests, &proof_);
  if (check == HelloCheck::kPartial) return Step::kWait;
  if (check == HelloCheck::kGood) return Step::kGood;
  LogRefusal(address, check);
  SendRefusal(check);
  return Step::kGone;
}

Stranger::Step Stranger::AdvanceTls(const Guests& guests) {
  if (stream_ == nullptr) {
    char first;
    const ssize_t size = recv(socket_, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (size < 0 && WouldBlock()) return Step::kWait;
    if (size <= 0) return Step::kGone;
    if (first != 22) {  // how every TLS connection begins: a handshake's record
      LogRefusal(address, HelloCheck::kPlain);
      SendRefusal(HelloCheck::kPlain);
      return Step::kGone;
    }
    spoken_ = true;
    stream_ = std::make_unique<FrontTlsStream>(*tls_, socket_);
  }
  if (!secure_) {
    const IoResult done = stream_->Handshake();
    if (done == IoResult::kWait) return Step::kWait;
    if (done != IoResult::kDone) {
      LogNoTls(address);
      return Step::kGone;
    }
    secure_ = true;
    proof_.tls_subject = stream_->VerifiedSubject();
  }
  for (int round = 0; round < kMaxRecords; ++round) {
    std::array<char, kReadBytes> buffer;
    size_t size = 0;
    const IoResult read = stream_->Read(buffer.data(), buffer.size(), &size);
    if (read == IoResult::kWait) return Step::kWait;
    if (read == IoResult::kAgain) continue;
    if (read != IoResult::kDone) return Step::kGone;
    received_.append(buffer.data(), size);
    const HelloCheck check = CheckHello(received_, guests, &proof_);
    if (check == HelloCheck::kPartial) continue;
    if (check == HelloCheck::kGood) return Step::kGood;
    LogRefusal(address, check);
    const std::string refusal = RefusalFrame(check);
    if (stream_->Write(refusal.data(), refusal.size()) == IoResult::kDone) stream_->End();
    DiscardUnread(socket_);
    return Step::kGone;
  }
  return Step::kGone;
}

}  // namespace chx::server
