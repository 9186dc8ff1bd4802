#include "server/front/hello.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "proto/chxd.pb.h"
#include "proto/frame.h"
#include "server/tenancy/token_hash.h"

namespace chx::server {
namespace {

constexpr char kToken[] = "correct horse battery staple";

Guests ThatAreKnown() {
  Guests guests;
  for (const char* token : {"a former one", kToken}) {
    guests.tokens[HashToken(token)] = absl::InfiniteFuture();
  }
  guests.tokens[HashToken("an expired one")] = absl::Now() - absl::Seconds(1);
  return guests;
}

Guests Everybody() {
  Guests guests;
  guests.open = true;
  return guests;
}

HelloCheck Check(absl::string_view received, const Guests& guests = ThatAreKnown(),
                 Proof proof = {}) {
  return CheckHello(received, guests, &proof);
}

std::string Frame(FrameKind kind, const std::string& token) {
  v1::Hello hello;
  hello.set_min_protocol(1);
  hello.set_max_protocol(2);
  hello.set_token(token);
  std::string frame;
  EXPECT_TRUE(AppendFrame(kind, hello, &frame));
  return frame;
}

TEST(Hello, EveryPrefixIsPartialAndWhatFollowsIsNotLookedAt) {
  const std::string frame = Frame(FrameKind::kHello, kToken);
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_EQ(Check(frame.substr(0, size)), HelloCheck::kPartial) << size;
  }
  EXPECT_EQ(Check(frame), HelloCheck::kGood);
  EXPECT_EQ(Check(frame + "more"), HelloCheck::kGood);
  EXPECT_EQ(Check(Frame(FrameKind::kHello, "a former one")), HelloCheck::kGood);
}

TEST(Hello, OnlyTheTokenOpens) {
  for (const char* wrong : {"", "correct", "correct horse battery stapl3"}) {
    EXPECT_EQ(Check(Frame(FrameKind::kHello, wrong)), HelloCheck::kDenied) << wrong;
    EXPECT_EQ(Check(Frame(FrameKind::kHello, wrong), Everybody()), HelloCheck::kGood) << wrong;
  }
}

TEST(Hello, AnExpiredTokenDoesNot) {
  EXPECT_EQ(Check(Frame(FrameKind::kHello, "an expired one")), HelloCheck::kDenied);
}

TEST(Hello, AVerifiedCertificateOpensToWhoShowsNothingElse) {
  Proof proof;
  proof.tls_subject = "CN=vision";
  EXPECT_EQ(Check(Frame(FrameKind::kHello, ""), ThatAreKnown(), proof), HelloCheck::kGood);
  EXPECT_EQ(Check(Frame(FrameKind::kHello, "wrong"), ThatAreKnown(), proof), HelloCheck::kDenied);
}

TEST(Hello, WhatIsNoHelloIsSeenAtItsFirstWrongByte) {
  EXPECT_EQ(Check("PRI "), HelloCheck::kBad);
  EXPECT_EQ(Check("GET / HTTP/1.1"), HelloCheck::kBad);
  EXPECT_EQ(Check(Frame(FrameKind::kCall, kToken)), HelloCheck::kBad);
  EXPECT_EQ(Check(Frame(FrameKind::kCall, kToken).substr(0, 5)), HelloCheck::kBad);
  EXPECT_EQ(Check(Frame(FrameKind::kHello, std::string(4096, 'x')).substr(0, 8)),
            HelloCheck::kBad);  // too long, and known by its header
  std::string garbled = Frame(FrameKind::kHello, kToken);
  garbled[8] = '\xff';
  EXPECT_EQ(Check(garbled), HelloCheck::kBad);
}

TEST(Hello, RefusalsAreFramesOfTheirOwn) {
  for (const auto& [why, code] : {std::make_pair(HelloCheck::kBad, 3u),
                                  {HelloCheck::kPlain, 14u},
                                  {HelloCheck::kDenied, 16u}}) {
    const std::string frame = RefusalFrame(why);
    EXPECT_EQ(frame[4], static_cast<char>(FrameKind::kReply));
    v1::Reply reply;
    ASSERT_TRUE(reply.ParseFromString(frame.substr(kFrameHeaderBytes)));
    EXPECT_EQ(reply.status().code(), code);
  }
}

}  // namespace
}  // namespace chx::server
