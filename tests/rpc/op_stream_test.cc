#include "server/rpc/op_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ops/error.h"
#include "proto/command_codec.h"
#include "proto/messages.h"
#include "server/native/native_backend.h"
#include "server/rpc/limits.h"
#include "server/session/programs.h"

namespace chx::server {
namespace {

std::string Uploaded(Handle handle, size_t floats) {
  std::string batch;
  const std::string data(floats * sizeof(float), 'x');
  const Ints shape = {static_cast<int64_t>(floats)};
  CommandWriter(&batch).Write(command::Upload{handle, Dtype::kFloat32, 0, shape, data});
  return batch;
}

std::string Fetched(Handle handle, int times = 1) {
  std::string batch;
  CommandWriter writer(&batch);
  for (int i = 0; i < times; ++i) writer.Write(command::Fetch{static_cast<uint64_t>(i), handle});
  return batch;
}

// Commands that have nothing to answer.
std::string Quiet(int count) {
  std::string batch;
  CommandWriter writer(&batch);
  for (int i = 0; i < count; ++i) writer.Write(command::DefineLocation{1, "a.py:1"});
  return batch;
}

class OpStreamTest : public ::testing::Test {
 protected:
  // One stream and what came out of it.
  struct Peer {
    std::unique_ptr<OpStream> stream;
    std::vector<v1::Event> events;
    bool cut = false;
  };

  OpStreamTest() : backend_(CreateNativeBackend({})) {
    EXPECT_TRUE(devices_.Open("native:0", {backend_.get()}).ok());
    manager_ = std::make_unique<SessionManager>(&devices_, ManagerOptions());
    record_ = *manager_->Open({"test"});
  }

  std::unique_ptr<Peer> NewPeer() {
    auto peer = std::make_unique<Peer>();
    Peer* p = peer.get();
    peer->stream = std::make_unique<OpStream>(record_.get(), manager_->Attach(record_, {}),
                                              [p](const v1::Event& event) {
                                                if (!p->cut) p->events.push_back(event);
                                                return !p->cut;
                                              });
    return peer;
  }
  std::unique_ptr<Peer> Resumed(uint64_t acked_event_seq = 0) {
    auto peer = NewPeer();
    EXPECT_TRUE(peer->stream->Resume(acked_event_seq).ok());
    return peer;
  }

  static absl::Status Apply(Peer* peer, uint64_t seq, std::string commands, uint64_t acked = 0) {
    v1::Submit submit;
    submit.set_batch_seq(seq);
    submit.set_acked_event_seq(acked);
    submit.set_commands(std::move(commands));
    return peer->stream->Apply(submit);
  }

  std::unique_ptr<Backend> backend_;
  Devices devices_;
  std::unique_ptr<SessionManager> manager_;
  SessionRecordPtr record_;
};

TEST_F(OpStreamTest, ValuesComeAtOnce) {
  auto peer = Resumed();
  ASSERT_TRUE(Apply(peer.get(), 1, Uploaded(5, 3)).ok());
  EXPECT_TRUE(peer->events.empty());
  ASSERT_TRUE(Apply(peer.get(), 2, Fetched(5)).ok());
  ASSERT_EQ(peer->events.size(), 1u);
  const v1::Event& event = peer->events[0];
  EXPECT_EQ(event.event_seq(), 1u);
  EXPECT_EQ(event.acked_batch_seq(), 2u);
  ASSERT_EQ(event.values_size(), 1);
  EXPECT_EQ(event.values(0).data(), std::string(12, 'x'));
  EXPECT_EQ(event.values(0).shape(0), 3);
}

// Arrays of those who have published programs are there, too.
TEST_F(OpStreamTest, AHandleOfProgramsIsNotForClientsWhateverTheRequestsNumber) {
  auto peer = Resumed();
  std::string batch;
  CommandWriter(&batch).Write(command::Fetch{kFirstProgramHandle, kFirstProgramHandle});
  EXPECT_EQ(Apply(peer.get(), 1, batch).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(peer->events.empty());
}

TEST_F(OpStreamTest, AcknowledgesAtAQuarterOfTheCredits) {
  auto peer = Resumed();
  constexpr int kBatch = kMaxInflightCommands / 16;
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    ASSERT_TRUE(Apply(peer.get(), seq, Quiet(kBatch)).ok());
    EXPECT_TRUE(peer->events.empty());
  }
  ASSERT_TRUE(Apply(peer.get(), 4, Quiet(kBatch)).ok());
  ASSERT_EQ(peer->events.size(), 1u);
  EXPECT_EQ(peer->events[0].acked_batch_seq(), 4u);
  EXPECT_EQ(peer->events[0].event_seq(), 0u);
}

TEST_F(OpStreamTest, ABatchIsAppliedOnce) {
  auto peer = Resumed();
  ASSERT_TRUE(Apply(peer.get(), 1, Quiet(1)).ok());
  ASSERT_TRUE(Apply(peer.get(), 1, Quiet(1)).ok());
  EXPECT_EQ(record_->session->stats().commands, 1);
  // Its acknowledgement was lost, so it comes again.
  ASSERT_EQ(peer->events.size(), 1u);
  EXPECT_EQ(peer->events[0].acked_batch_seq(), 1u);
}

TEST_F(OpStreamTest, AGapEndsTheStreamOnly) {
  auto peer = Resumed();
  EXPECT_EQ(Apply(peer.get(), 2, Quiet(1)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(record_->session->stats().commands, 0);
  EXPECT_TRUE(Apply(Resumed().get(), 1, Quiet(1)).ok());
}

TEST_F(OpStreamTest, WhatTheClientHasNotSeenComesAgain) {
  auto peer = Resumed();
  ASSERT_TRUE(Apply(peer.get(), 1, Uploaded(5, 1)).ok());
  ASSERT_TRUE(Apply(peer.get(), 2, Fetched(5)).ok());
  peer->cut = true;
  EXPECT_FALSE(Apply(peer.get(), 3, Fetched(5)).ok());
  auto second = Resumed();
  ASSERT_EQ(second->events.size(), 2u);
  EXPECT_EQ(second->events[0].event_seq(), 1u);
  EXPECT_EQ(second->events[1].event_seq(), 2u);
  EXPECT_EQ(second->events[1].acked_batch_seq(), 3u);
  EXPECT_EQ(Resumed(1)->events.size(), 1u);
  EXPECT_EQ(Resumed(2)->events.size(), 0u);
}

TEST_F(OpStreamTest, AnOlderStreamCannotChangeTheSession) {
  auto older = Resumed();
  auto newer = NewPeer();
  EXPECT_TRUE(Apply(older.get(), 1, Quiet(1)).ok());
  EXPECT_TRUE(newer->stream->Resume(0).ok());
  EXPECT_EQ(Apply(older.get(), 2, Quiet(1)).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(older->stream->Resume(0).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(record_->last_batch_seq, 1u);
  EXPECT_TRUE(Apply(newer.get(), 2, Quiet(1)).ok());
}

TEST_F(OpStreamTest, WhatCannotBeReadIsInvalid) {
  const auto code = [this](std::string commands) {
    record_ = *manager_->Open({"test"});
    return Apply(Resumed().get(), 1, std::move(commands)).code();
  };
  EXPECT_EQ(code("nonsense"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(std::string(kMaxBatchBytes + 8, '\0')), absl::StatusCode::kInvalidArgument);
  std::string many;
  CommandWriter writer(&many);
  for (uint32_t i = 0; i <= kMaxInflightCommands; ++i) writer.ApplyOp({1, 0, 0, 0, {}, {}, {}});
  ASSERT_LT(many.size(), kMaxBatchBytes);
  EXPECT_EQ(code(many), absl::StatusCode::kInvalidArgument);
}

TEST_F(OpStreamTest, ReportsOfErrorsDoNotPileUp) {
  auto peer = Resumed();
  for (uint64_t seq = 1; seq <= 20; ++seq) {
    ASSERT_TRUE(Apply(peer.get(), seq,
                      [] {
                        std::string batch;
                        for (int i = 0; i < 1000; ++i)
                          CommandWriter(&batch).Release({{Handle{77}}});
                        return batch;
                      }())
                    .ok());
  }
  size_t bytes = 0;
  for (const v1::Event& event : peer->events) bytes += event.ByteSizeLong();
  EXPECT_GT(bytes, kMaxUnackedErrorBytes / 4);
  EXPECT_LT(bytes, 2 * kMaxUnackedErrorBytes);
  EXPECT_EQ(record_->session->stats().errors, 20000);
  // Reading makes room.
  uint64_t read = 0;
  for (const v1::Event& event : peer->events) read = std::max(read, event.event_seq());
  peer->events.clear();
  std::string batch;
  CommandWriter(&batch).Release({{Handle{77}}});
  ASSERT_TRUE(Apply(peer.get(), 21, batch, read).ok());
  ASSERT_EQ(peer->events.size(), 1u);
  EXPECT_EQ(peer->events[0].errors_size(), 1);
}

TEST_F(OpStreamTest, ValuesNobodyReadsBecomeErrors) {
  auto peer = Resumed();
  ASSERT_TRUE(Apply(peer.get(), 1, Uploaded(5, 16 << 10)).ok());  // 64 KiB
  ASSERT_TRUE(Apply(peer.get(), 2, Fetched(5, 1000)).ok());
  size_t bytes = 0;
  int values = 0, errors = 0;
  for (const v1::Event& event : peer->events) {
    EXPECT_LT(event.ByteSizeLong(), kEventBytes + (80 << 10));
    for (const v1::FetchedValue& value : event.values()) {
      bytes += value.data().size();
      ++values;
      if (!value.has_error()) continue;
      ++errors;
      EXPECT_EQ(value.error().kind(), static_cast<uint32_t>(ErrorKind::kMemory));
    }
  }
  EXPECT_EQ(values, 1000);
  EXPECT_GT(errors, 400);
  EXPECT_LE(bytes, kMaxUnackedValueBytes);
  const uint64_t acked = peer->events.back().event_seq();
  peer->events.clear();
  ASSERT_TRUE(Apply(peer.get(), 3, Fetched(5), acked).ok());
  ASSERT_EQ(peer->events.size(), 1u);
  EXPECT_FALSE(peer->events[0].values(0).has_error());
}

TEST_F(OpStreamTest, AClientThatNeverAcknowledgesLosesItsStream) {
  auto peer = Resumed();
  ASSERT_TRUE(Apply(peer.get(), 1, Uploaded(5, 16)).ok());
  absl::Status status;
  uint64_t seq = 2;
  for (; status.ok() && seq < 100; ++seq) {
    status = Apply(peer.get(), seq, Fetched(5, 50000));
    peer->events.clear();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(seq, 50u);
}

}  // namespace
}  // namespace chx::server
