#include "proto/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "proto/chxd.pb.h"

namespace chx {
namespace {

// Gives what it holds in pieces, then says that there is nothing yet, or an end.
class Pieces final : public ByteStream {
 public:
  Pieces(std::string bytes, size_t most, bool ends)
      : bytes_(std::move(bytes)), most_(most), ends_(ends) {}
  ssize_t Receive(char* out, size_t bytes, bool wait) override {
    const size_t size = std::min({bytes, most_, bytes_.size() - at_});
    if (size == 0) {
      errno = ends_ ? 0 : EAGAIN;
      return ends_ ? 0 : -1;
    }
    std::memcpy(out, &bytes_[at_], size);
    at_ += size;
    return static_cast<ssize_t>(size);
  }
  ssize_t Send(const char* data, size_t bytes, bool wait, bool more) override {
    const size_t size = std::min(bytes, most_);
    bytes_.append(data, size);
    return static_cast<ssize_t>(size);
  }
  const std::string& bytes() const { return bytes_; }
  void Add(const std::string& bytes) { bytes_ += bytes; }

 private:
  std::string bytes_;
  const size_t most_;
  const bool ends_;
  size_t at_ = 0;
};

class Budget final : public FrameBudget {
 public:
  explicit Budget(size_t most) : most_(most) {}
  bool Reserve(size_t bytes, const void* /*reader*/) override {
    if (held + bytes > most_) return false;
    held += bytes;
    return true;
  }
  void Release(size_t bytes, const void* /*reader*/) override { held -= bytes; }
  size_t held = 0;

 private:
  const size_t most_;
};

std::string Frame(uint32_t kind, const std::string& payload) {
  const uint32_t header[] = {static_cast<uint32_t>(payload.size()), kind};
  return std::string(reinterpret_cast<const char*>(header), sizeof(header)) + payload;
}

TEST(Frame, ComesAsItWasSentInPiecesOfAnySize) {
  std::mt19937 random(7);
  for (const size_t most : {size_t{1}, size_t{7}, size_t{1} << 20}) {
    Pieces stream("", most, true);
    std::string buffer;
    std::vector<std::string> sent;
    for (int i = 0; i < 40; ++i) {
      v1::Submit submit;
      submit.set_commands(std::string(random() % (i % 10 == 0 ? 200000 : 300), 'c'));
      ASSERT_TRUE(WriteFrame(&stream, FrameKind::kMessage, submit, &buffer));
      sent.push_back(submit.SerializeAsString());
      sent.emplace_back(random() % 1000, 'd');
      ASSERT_TRUE(WriteFrame(&stream, FrameKind::kData, sent.back()));
    }
    FrameReader reader(&stream, 1 << 20);
    FrameKind kind;
    for (const std::string& expected : sent) {
      const bool data = (&expected - sent.data()) % 2 == 1;
      if (data && random() % 2 == 0) {
        size_t bytes = 0;
        ASSERT_EQ(reader.Peek(&kind, &bytes), FrameReader::Result::kFrame);
        std::string out(bytes, '\0');
        ASSERT_EQ(reader.TakeInto(&out[0]), FrameReader::Result::kFrame);
        EXPECT_EQ(out, expected);
      } else {
        absl::string_view payload;
        ASSERT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kFrame);
        EXPECT_EQ(payload, expected);
      }
      EXPECT_EQ(kind, data ? FrameKind::kData : FrameKind::kMessage);
    }
    absl::string_view payload;
    EXPECT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kCut);
  }
}

TEST(Frame, StrangeKindsAndLengthsAreBad) {
  FrameKind kind;
  absl::string_view payload;
  for (const uint32_t number : {0u, 7u, 0x20495250u, 0xffffffffu}) {
    Pieces stream(Frame(number, "x"), 100, true);
    EXPECT_EQ(FrameReader(&stream, 100).Next(&kind, &payload), FrameReader::Result::kBad);
  }
  Pieces stream(Frame(1, std::string(101, 'x')), 100, true);
  EXPECT_EQ(FrameReader(&stream, 100).Next(&kind, &payload), FrameReader::Result::kBad);
}

TEST(Frame, WhatIsCutAnywhereIsACut) {
  const std::string whole = Frame(1, "0123456789");
  FrameKind kind;
  absl::string_view payload;
  for (size_t size = 0; size < whole.size(); ++size) {
    Pieces stream(whole.substr(0, size), 3, true);
    EXPECT_EQ(FrameReader(&stream, 100).Next(&kind, &payload), FrameReader::Result::kCut) << size;
  }
}

TEST(Frame, NothingYetLeavesWhatHasCome) {
  const std::string whole = Frame(1, "0123456789");
  Pieces stream("", 100, false);
  FrameReader reader(&stream, 100);
  FrameKind kind;
  absl::string_view payload;
  for (const char byte : whole) {
    ASSERT_EQ(reader.Next(&kind, &payload, FrameReader::OnTimeout::kDoNotWait),
              FrameReader::Result::kNothing);
    stream.Add(std::string(1, byte));
    EXPECT_TRUE(reader.Receive());
  }
  ASSERT_EQ(reader.Next(&kind, &payload, FrameReader::OnTimeout::kDoNotWait),
            FrameReader::Result::kFrame);
  EXPECT_EQ(payload, "0123456789");
}

// Every second read is ended by a signal.
class Signalled final : public ByteStream {
 public:
  explicit Signalled(std::string bytes) : pieces_(std::move(bytes), 1, true) {}
  ssize_t Receive(char* out, size_t bytes, bool wait) override {
    signalled_ = !signalled_;
    if (!signalled_) return pieces_.Receive(out, bytes, wait);
    errno = EINTR;
    return -1;
  }
  ssize_t Send(const char*, size_t, bool, bool) override { return -1; }

 private:
  Pieces pieces_;
  bool signalled_ = false;
};

TEST(Frame, ASignalIsNoCut) {
  Signalled stream(Frame(1, "0123456789"));
  FrameReader reader(&stream, 100);
  FrameKind kind;
  absl::string_view payload;
  ASSERT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kFrame);
  EXPECT_EQ(payload, "0123456789");
  EXPECT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kCut);  // the peer's end
}

TEST(Frame, BytesThatComeTooSlowlyAreACut) {
  Pieces stream(Frame(1, "0123456789"), 1, true);
  FrameReader reader(&stream, 100);
  reader.set_deadline(std::chrono::steady_clock::now() - std::chrono::seconds(1));
  FrameKind kind;
  absl::string_view payload;
  EXPECT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kCut);
}

// 200 connections that each promise 4 MB and send nothing took 1.7 GB.
TEST(Frame, MemoryIsTakenAsBytesArriveAndFromTheBudget) {
  Budget budget(3 << 20);
  const std::string large = Frame(1, std::string(4 << 20, 'x'));
  FrameKind kind;
  absl::string_view payload;
  {
    Pieces stream(large.substr(0, 100), 1 << 20, false);
    FrameReader reader(&stream, 8 << 20, &budget);
    EXPECT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kCut);
    EXPECT_EQ(budget.held, 0u);  // a promise costs nothing
  }
  {
    Pieces stream(large.substr(0, 1 << 20), 1 << 20, false);
    FrameReader reader(&stream, 8 << 20, &budget);
    EXPECT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kCut);
    EXPECT_GE(budget.held, size_t{1} << 20);
    EXPECT_LE(budget.held, size_t{2} << 20);
  }
  EXPECT_EQ(budget.held, 0u);
  Pieces stream(large, 1 << 20, false);
  EXPECT_EQ(FrameReader(&stream, 8 << 20, &budget).Next(&kind, &payload),
            FrameReader::Result::kBad);
  EXPECT_EQ(budget.held, 0u);
  // What was taken for one frame is given back for the next ones.
  Pieces two(Frame(1, std::string(2 << 20, 'x')) + Frame(1, "y"), 1 << 20, false);
  FrameReader reader(&two, 8 << 20, &budget);
  ASSERT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kFrame);
  EXPECT_GE(budget.held, size_t{2} << 20);
  ASSERT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kFrame);
  EXPECT_EQ(payload, "y");
  EXPECT_EQ(budget.held, 0u);
}

}  // namespace
}  // namespace chx
