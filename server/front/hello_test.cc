#include "server/front/hello.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "proto/chxd.pb.h"
#include "proto/frame.h"

namespace chx::server {
namespace {

constexpr char kToken[] = "correct horse battery staple";
const std::vector<std::string>& Tokens() {
  static const auto& tokens = *new std::vector<std::string>{"a former one", kToken};
  return tokens;
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
    EXPECT_EQ(CheckHello(frame.substr(0, size), Tokens()), HelloCheck::kPartial) << size;
  }
  EXPECT_EQ(CheckHello(frame, Tokens()), HelloCheck::kGood);
  EXPECT_EQ(CheckHello(frame + "more", Tokens()), HelloCheck::kGood);
  EXPECT_EQ(CheckHello(Frame(FrameKind::kHello, "a former one"), Tokens()), HelloCheck::kGood);
}

TEST(Hello, OnlyTheTokenOpens) {
  for (const char* wrong : {"", "correct", "correct horse battery stapl3"}) {
    EXPECT_EQ(CheckHello(Frame(FrameKind::kHello, wrong), Tokens()), HelloCheck::kDenied) << wrong;
    EXPECT_EQ(CheckHello(Frame(FrameKind::kHello, wrong), {}), HelloCheck::kGood) << wrong;
  }
}

TEST(Hello, WhatIsNoHelloIsSeenAtItsFirstWrongByte) {
  EXPECT_EQ(CheckHello("PRI ", Tokens()), HelloCheck::kBad);
  EXPECT_EQ(CheckHello("GET / HTTP/1.1", Tokens()), HelloCheck::kBad);
  EXPECT_EQ(CheckHello(Frame(FrameKind::kCall, kToken), Tokens()), HelloCheck::kBad);
  EXPECT_EQ(CheckHello(Frame(FrameKind::kCall, kToken).substr(0, 5), Tokens()), HelloCheck::kBad);
  EXPECT_EQ(CheckHello(Frame(FrameKind::kHello, std::string(4096, 'x')).substr(0, 8), Tokens()),
            HelloCheck::kBad);  // too long, and known by its header
  std::string garbled = Frame(FrameKind::kHello, kToken);
  garbled[8] = '\xff';
  EXPECT_EQ(CheckHello(garbled, Tokens()), HelloCheck::kBad);
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
