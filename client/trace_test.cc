#include "client/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/strings/match.h"

namespace chx {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TraceTest, RecordsBetweenStartAndStop) {
  EXPECT_FALSE(StopTrace().ok());
  { const internal::TraceSpan before("call", "before"); }
  ASSERT_TRUE(StartTrace().ok());
  EXPECT_FALSE(StartTrace().ok());
  {
    internal::TraceSpan outer("flush", "outer");
    outer.SetBatch(7, 3);
    outer.SetBytes(10);
    internal::TraceSpan inner("transfer", "inner");
    inner.SetBytes(20);
  }
  std::thread([] { const internal::TraceSpan other("wait", "other"); }).join();
  const std::string trace = *StopTrace();
  { const internal::TraceSpan after("call", "after"); }
  EXPECT_FALSE(StopTrace().ok());
  EXPECT_EQ(Count(trace, R"("ph":"X")"), 3u) << trace;
  EXPECT_TRUE(absl::StrContains(trace, R"("args":{"session":7,"batch":3,"bytes":10}})")) << trace;
  EXPECT_TRUE(absl::StrContains(trace, R"("args":{"bytes":20}})")) << trace;
  EXPECT_TRUE(absl::StrContains(trace, R"("args":{}})")) << trace;
  EXPECT_LT(trace.find("outer"), trace.find("inner"));
  EXPECT_FALSE(absl::StrContains(trace, "before"));
  EXPECT_TRUE(absl::StrContains(trace, R"("dropped_spans":0)"));
}

TEST(TraceTest, ASpanThatBeganBeforeIsNoPartOfIt) {
  ASSERT_TRUE(StartTrace().ok());
  {
    const internal::TraceSpan span("call", "early");
    ASSERT_TRUE(StopTrace().ok());
    ASSERT_TRUE(StartTrace().ok());
  }
  EXPECT_FALSE(absl::StrContains(*StopTrace(), "early"));
}

TEST(TraceTest, WhatDoesNotFitIsCounted) {
  ASSERT_TRUE(StartTrace().ok());
  constexpr size_t kMost = 256 << 10;
  for (size_t i = 0; i < kMost + 3; ++i) const internal::TraceSpan span("call", "one");
  const std::string trace = *StopTrace();
  EXPECT_EQ(Count(trace, R"("name":"one")"), kMost);
  EXPECT_TRUE(absl::StrContains(trace, R"("dropped_spans":3)"));
}

}  // namespace
}  // namespace chx
