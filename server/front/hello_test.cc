#include "server/front/hello.h"

#include <gtest/gtest.h>

#include "proto/chxd.pb.h"
#include "proto/frame.h"

namespace chx::server {
namespace {

constexpr char kToken[] = "correct horse battery staple";

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
    EXPECT_EQ(CheckHello(frame.substr(0, size), kToken), HelloCheck::kPartial) << size;
  }
  EXPECT_EQ(CheckHello(frame, kToken), HelloCheck::kGood);
  EXPECT_EQ(CheckHello(frame + "more", kToken), HelloCheck::kGood);
}

TEST(Hello, OnlyTheTokenOpens) {
  for (const char* wrong : {"", "correct", "correct horse battery stapl3"}) {
    EXPECT_EQ(CheckHello(Frame(FrameKind::kHello, wrong), kToken), HelloCheck::kDenied) << wrong;
    EXPECT_EQ(CheckHello(Frame(FrameKind::kHello, wrong), ""), HelloCheck::kGood) << wrong;
  }
}

TEST(Hello, WhatIsNoHelloIsSeenAtItsFirstWrongByte) {
  EXPECT_EQ(CheckHello("PRI ", kToken), HelloCheck::kBad);
  EXPECT_EQ(CheckHello("GET / HTTP/1.1", kToken), HelloCheck::kBad);
  EXPECT_EQ(CheckHello(Frame(FrameKind::kCall, kToken), kToken), HelloCheck::kBad);
  EXPECT_EQ(CheckHello(Frame(FrameKind::kCall, kToken).substr(0, 5), kToken), HelloCheck::kBad);
  EXPECT_EQ(CheckHello(Frame(FrameKind::kHello, std::string(4096, 'x')).substr(0, 8), kToken),
            HelloCheck::kBad);  // too long, and known by its header
  std::string garbled = Frame(FrameKind::kHello, kToken);
  garbled[8] = '\xff';
  EXPECT_EQ(CheckHello(garbled, kToken), HelloCheck::kBad);
}

TEST(Hello, RefusalsAreFramesOfTheirOwn) {
  for (const HelloCheck why : {HelloCheck::kBad, HelloCheck::kDenied}) {
    const std::string frame = RefusalFrame(why);
    EXPECT_EQ(frame[4], static_cast<char>(FrameKind::kReply));
    v1::Reply reply;
    ASSERT_TRUE(reply.ParseFromString(frame.substr(kFrameHeaderBytes)));
    EXPECT_EQ(reply.status().code(), why == HelloCheck::kDenied ? 16u : 3u);
  }
}

}  // namespace
}  // namespace chx::server
