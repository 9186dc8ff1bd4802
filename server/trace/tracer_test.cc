#include "server/trace/tracer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace chx::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Span Numbered(uint64_t batch) {
  Span span;
  span.begin = span.end = TraceClock::now();
  span.batch = batch;
  span.name = "add";
  return span;
}

TEST(TracerTest, RecordsOnlyWhatWasAskedFor) {
  Tracer tracer(nullptr);
  EXPECT_FALSE(tracer.running());
  EXPECT_EQ(tracer.LogFor(1, {"a"}), nullptr);
  EXPECT_EQ(tracer.Read(10).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(tracer.Start({/*session=*/2, seconds(60)}).ok());
  EXPECT_EQ(tracer.LogFor(1, {"a"}), nullptr);
  ASSERT_NE(tracer.LogFor(2, {"b"}), nullptr);
  tracer.LogFor(2, {"b"})->Add(Numbered(7));
  const TracePart part = *tracer.Read(10);
  EXPECT_FALSE(tracer.running());
  EXPECT_FALSE(part.more);
  ASSERT_EQ(part.sessions.size(), 1u);
  EXPECT_EQ(part.sessions[0].name.client, "b");
  ASSERT_EQ(part.sessions[0].spans.size(), 1u);
  EXPECT_EQ(part.sessions[0].spans[0].batch, 7u);
  EXPECT_EQ(tracer.Read(10).status().code(), absl::StatusCode::kNotFound);
}

TEST(TracerTest, ChecksItsLengthAndIsTheOnlyOne) {
  Tracer tracer(nullptr);
  EXPECT_FALSE(tracer.Start({0, milliseconds(0)}).ok());
  EXPECT_FALSE(tracer.Start({0, milliseconds(60001)}).ok());
  ASSERT_TRUE(tracer.Start({0, milliseconds(60000)}).ok());
  EXPECT_EQ(tracer.Start({0, seconds(1)}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TracerTest, EndsWithItsTime) {
  Tracer tracer(nullptr);
  ASSERT_TRUE(tracer.Start({0, milliseconds(1)}).ok());
  const auto end = TraceClock::now() + milliseconds(2);
  while (TraceClock::now() < end) std::this_thread::yield();
  EXPECT_EQ(tracer.LogFor(1, {"a"}), nullptr);
  EXPECT_FALSE(tracer.running());
  EXPECT_TRUE(tracer.Start({0, seconds(1)}).ok());
}

TEST(TracerTest, PartsComeInOrderAndWhatDoesNotFitIsCounted) {
  Tracer tracer(nullptr);
  ASSERT_TRUE(tracer.Start({0, seconds(60)}).ok());
  const SpanLogPtr first = tracer.LogFor(1, {"a"});
  for (size_t i = 0; i < SpanLog::kMaxSpans + 5; ++i) first->Add(Numbered(i + 1));
  tracer.LogFor(2, {"b"})->Add(Numbered(1));
  size_t spans = 0;
  uint64_t last = 0;
  for (;;) {
    const TracePart part = *tracer.Read(10000);
    for (const TracePart::Session& session : part.sessions) {
      spans += session.spans.size();
      if (session.number != 1) continue;
      EXPECT_EQ(session.dropped, 5u);
      for (const Span& span : session.spans) EXPECT_EQ(span.batch, ++last);
    }
    if (!part.more) break;
  }
  EXPECT_EQ(spans, SpanLog::kMaxSpans + 1);
}

TEST(TracerTest, MemoryIsBoundedAndGivenBack) {
  MemoryBudget budget(int64_t{1} << 40);
  Tracer tracer(&budget);
  ASSERT_TRUE(tracer.Start({0, seconds(60)}).ok());
  uint64_t dropped = 0;
  for (uint64_t session = 1; session <= 64; ++session) {
    const SpanLogPtr log = tracer.LogFor(session, {"a"});
    for (size_t i = 0; i < SpanLog::kMaxSpans; ++i) log->Add(Numbered(1));
    dropped += log->dropped();
  }
  EXPECT_GT(dropped, 0u);
  EXPECT_GT(budget.used(), 0);
  EXPECT_LE(budget.used(), static_cast<int64_t>(Tracer::kMaxBytes));
  while (tracer.Read(1 << 20)->more) {
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(TracerTest, WithoutMemoryNothingIsRecorded) {
  MemoryBudget budget(100);
  Tracer tracer(&budget);
  ASSERT_TRUE(tracer.Start({0, seconds(60)}).ok());
  tracer.LogFor(1, {"a"})->Add(Numbered(1));
  const TracePart part = *tracer.Read(10);
  ASSERT_EQ(part.sessions.size(), 1u);
  EXPECT_TRUE(part.sessions[0].spans.empty());
  EXPECT_EQ(part.sessions[0].dropped, 1u);
  EXPECT_EQ(budget.used(), 0);
}

TEST(TracerTest, SessionsMayAddWhileItIsRead) {
  Tracer tracer(nullptr);
  ASSERT_TRUE(tracer.Start({0, seconds(60)}).ok());
  std::atomic<bool> stop{false};
  const TraceRow row{&tracer, 1, "a"};
  row.Log()->Add(Numbered(1));
  std::thread writer([&] {
    while (!stop) {
      if (const SpanLogPtr log = row.Log()) log->Add(Numbered(1));
    }
  });
  for (int i = 0; i < 10; ++i) {
    while (tracer.Read(1000)->more) {
    }
    ASSERT_TRUE(tracer.Start({0, seconds(60)}).ok());
    while (tracer.LogFor(1, {"a"})->size() == 0) std::this_thread::yield();
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace chx::server
