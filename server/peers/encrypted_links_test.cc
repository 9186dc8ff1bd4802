#include "server/peers/encrypted_links.h"

#include <gtest/gtest.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

namespace chx::server {
namespace {

using Side = EncryptedLinks::Side;

const std::string kKey(32, 'k');

std::pair<OwnedFd, OwnedFd> SocketPair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {OwnedFd(ends[0]), OwnedFd(ends[1])};
}

void SendAll(int socket, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

// What comes until there are `size` bytes, or the end.
std::string Receive(int socket, size_t size) {
  std::string bytes(size, '\0');
  size_t received = 0;
  while (received < size) {
    const ssize_t n = recv(socket, &bytes[received], size - received, 0);
    if (n <= 0) break;
    received += static_cast<size_t>(n);
  }
  bytes.resize(received);
  return bytes;
}

// Hands on what two sockets send, as `change` leaves it, until one of them ends.
class Middle {
 public:
  using Change = std::function<void(std::string* bytes)>;

  Middle(OwnedFd a, OwnedFd b, Change change)
      : a_(std::move(a)), b_(std::move(b)), change_(std::move(change)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Middle() {
    shutdown(a_.get(), SHUT_RDWR);
    shutdown(b_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  void Run() {
    pollfd ready[] = {{a_.get(), POLLIN, 0}, {b_.get(), POLLIN, 0}};
    while (poll(ready, 2, -1) > 0) {
      for (int i = 0; i < 2; ++i) {
        if (ready[i].revents == 0) continue;
        char block[4096];
        const ssize_t n = recv(ready[i].fd, block, sizeof(block), 0);
        if (n <= 0) return;
        std::string bytes(block, static_cast<size_t>(n));
        change_(&bytes);
        SendAll(ready[1 - i].fd, bytes);
      }
    }
  }

  const OwnedFd a_;
  const OwnedFd b_;
  const Change change_;
  std::thread thread_;
};

class EncryptedLinksTest : public ::testing::Test {
 protected:
  // The plain ends of a connection.
  std::pair<OwnedFd, OwnedFd> Connect(const std::string& key, const std::string& other_key) {
    auto [a, b] = SocketPair();
    return {*one_.Encrypt(std::move(a), Side::kConnects, key),
            *other_.Encrypt(std::move(b), Side::kAccepts, other_key)};
  }

  EncryptedLinks one_;
  EncryptedLinks other_;
};

TEST_F(EncryptedLinksTest, MuchAtOnceBothWays) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 random(seed);
  std::string there(10000000 + random() % 1000, '\0');
  std::string back(10000000 + random() % 1000, '\0');
  std::generate(there.begin(), there.end(), random);
  std::generate(back.begin(), back.end(), random);
  const auto [a, b] = Connect(kKey, kKey);
  std::thread sends_there([&, fd = a.get()] { SendAll(fd, there); });
  std::thread sends_back([&, fd = b.get()] { SendAll(fd, back); });
  std::string came_back;
  std::thread receives_back([&, fd = a.get()] { came_back = Receive(fd, back.size()); });
  const std::string came_there = Receive(b.get(), there.size());
  for (std::thread* thread : {&sends_there, &sends_back, &receives_back}) thread->join();
  EXPECT_TRUE(came_there == there);
  EXPECT_TRUE(came_back == back);
}

TEST_F(EncryptedLinksTest, WhatWasSentBeforeTheEndArrives) {
  auto [a, b] = Connect(kKey, kKey);
  SendAll(a.get(), "the last words");
  { const OwnedFd ended = std::move(a); }
  EXPECT_EQ(Receive(b.get(), 100), "the last words");
}

TEST_F(EncryptedLinksTest, AlsoBeforeTheEndOfThemAll) {
  std::string much(3000000, 'm');
  much += "the end";
  auto [a, b] = SocketPair();
  auto ending = std::make_unique<EncryptedLinks>();
  OwnedFd plain_a = *ending->Encrypt(std::move(a), Side::kConnects, kKey);
  const OwnedFd plain_b = *other_.Encrypt(std::move(b), Side::kAccepts, kKey);
  std::string got;
  std::thread receives([&] { got = Receive(plain_b.get(), much.size()); });
  SendAll(plain_a.get(), much);
  { const OwnedFd ended = std::move(plain_a); }
  ending = nullptr;
  receives.join();
  EXPECT_TRUE(got == much) << got.size();
}

// What has come is read, though the other side does not take what is sent to it any more.
TEST_F(EncryptedLinksTest, AndByWhoGoesOnSending) {
  auto [a, b] = Connect(kKey, kKey);
  SendAll(a.get(), "the last words");
  { const OwnedFd ended = std::move(a); }
  SendAll(b.get(), std::string(1000000, 'x'));
  EXPECT_EQ(Receive(b.get(), 100), "the last words");
}

TEST_F(EncryptedLinksTest, KeysAreChanged) {
  EncryptedLinks often(100000);
  auto [a, b] = SocketPair();
  const OwnedFd plain_a = *often.Encrypt(std::move(a), Side::kConnects, kKey);
  const OwnedFd plain_b = *other_.Encrypt(std::move(b), Side::kAccepts, kKey);
  const std::string much(5000000, 'm');
  std::thread sends([&] { SendAll(plain_a.get(), much); });
  EXPECT_TRUE(Receive(plain_b.get(), much.size()) == much);
  sends.join();
  SendAll(plain_b.get(), "and back");
  EXPECT_EQ(Receive(plain_a.get(), 8), "and back");
}

// TLS by a certificate of its own, from somebody between the two.
TEST_F(EncryptedLinksTest, WhoeverHasNoKeyIsCut) {
  for (const Side side : {Side::kConnects, Side::kAccepts}) {
    auto [a, stranger] = SocketPair();
    const OwnedFd plain = *one_.Encrypt(std::move(a), side, kKey);
    SendAll(plain.get(), "a secret");
    SSL_CTX* const context = SSL_CTX_new(TLS_method());
    EVP_PKEY* const key = EVP_RSA_gen(2048);
    X509* const certificate = X509_new();
    X509_set_pubkey(certificate, key);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_sign(certificate, key, EVP_sha256());
    ASSERT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
    ASSERT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
    SSL* const ssl = SSL_new(context);
    SSL_set_fd(ssl, stranger.get());
    const int done = side == Side::kConnects ? SSL_accept(ssl) : SSL_connect(ssl);
    char heard[100];
    EXPECT_LE(done == 1 ? SSL_read(ssl, heard, sizeof(heard)) : 0, 0);
    EXPECT_EQ(Receive(plain.get(), 1), "");
    SSL_free(ssl);
    X509_free(certificate);
    EVP_PKEY_free(key);
    SSL_CTX_free(context);
  }
}

TEST_F(EncryptedLinksTest, AnotherKeyIsCut) {
  const auto [a, b] = Connect(kKey, std::string(32, 'l'));
  SendAll(a.get(), "a secret");
  EXPECT_EQ(Receive(b.get(), 1), "");
  EXPECT_EQ(Receive(a.get(), 1), "");
}

TEST_F(EncryptedLinksTest, NobodyBetweenThemReadsIt) {
  auto [a, left] = SocketPair();
  auto [right, b] = SocketPair();
  std::string seen;
  std::string got;
  const std::string text = "what is not for others";
  {
    const Middle middle(std::move(left), std::move(right),
                        [&](std::string* bytes) { seen += *bytes; });
    const auto plain_a = one_.Encrypt(std::move(a), Side::kConnects, kKey);
    const auto plain_b = other_.Encrypt(std::move(b), Side::kAccepts, kKey);
    SendAll(plain_a->get(), text);
    got = Receive(plain_b->get(), text.size());
  }
  EXPECT_EQ(got, text);
  EXPECT_GT(seen.size(), text.size());
  EXPECT_EQ(seen.find(text), std::string::npos);
  EXPECT_EQ(seen.find(kKey), std::string::npos);
}

TEST_F(EncryptedLinksTest, NorChangesIt) {
  auto [a, left] = SocketPair();
  auto [right, b] = SocketPair();
  std::atomic<bool> begun{false};
  const Middle middle(std::move(left), std::move(right), [&](std::string* bytes) {
    if (begun) bytes->back() ^= 1;
  });
  const auto plain_a = one_.Encrypt(std::move(a), Side::kConnects, kKey);
  const auto plain_b = other_.Encrypt(std::move(b), Side::kAccepts, kKey);
  SendAll(plain_a->get(), "hello");
  EXPECT_EQ(Receive(plain_b->get(), 5), "hello");
  begun = true;
  SendAll(plain_a->get(), "pay 1");
  EXPECT_EQ(Receive(plain_b->get(), 5), "");
  EXPECT_EQ(Receive(plain_a->get(), 5), "");
}

TEST_F(EncryptedLinksTest, EndsWithItsConnections) {
  auto [a, b] = SocketPair();
  OwnedFd plain;
  {
    EncryptedLinks ending;
    plain = *ending.Encrypt(std::move(a), Side::kConnects, kKey);
  }
  EXPECT_EQ(Receive(plain.get(), 1), "");
}

}  // namespace
}  // namespace chx::server
