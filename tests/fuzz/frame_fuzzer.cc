// The reader of frames with any bytes, in any pieces, with signals and timeouts between them. The
// first bytes say how it is called and how bytes arrive; a plain parser says what must come out.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/byte_stream.h"
#include "proto/frame.h"
#include "tests/fuzz/target.h"

namespace chx {
namespace {

using Result = FrameReader::Result;

constexpr size_t kMostBytes[] = {16, 4096, 1 << 20, 16 << 20};
constexpr size_t kBudget = 256 << 10;
constexpr size_t kSmallBuffer = 64 << 10;  // which costs no budget

struct {
  uint64_t frames = 0;
  uint64_t peeked = 0;
  uint64_t bad = 0;
  uint64_t cut = 0;
  uint64_t nothing = 0;
} counts;

// Gives bytes in pieces by a pattern of bytes: 0 is a signal, 255 a timeout, others a size.
class Pieces final : public ByteStream {
 public:
  Pieces(absl::string_view bytes, absl::string_view pattern)
      : left_(bytes), pattern_(pattern), max_reads_(1000 + bytes.size()) {}
  ssize_t Receive(char* out, size_t bytes, bool wait) override {
    if (++reads_ > max_reads_) std::abort();  // it does not end
    const uint8_t next =
        pattern_.empty() ? 64 : static_cast<uint8_t>(pattern_[reads_ % pattern_.size()]);
    // Never twice, so that a caller who waits on gets somewhere.
    if ((next == 0 || next == 255) && reads_ % 2 == 0) {
      errno = next == 0 ? EINTR : EAGAIN;
      return -1;
    }
    const size_t size = std::min({bytes, left_.size(), std::max<size_t>(next, 1) * 16});
    std::memcpy(out, left_.data(), size);
    left_.remove_prefix(size);
    received_ += size;
    return static_cast<ssize_t>(size);
  }
  ssize_t Send(const char*, size_t, bool, bool) override { std::abort(); }
  size_t received() const { return received_; }

 private:
  absl::string_view left_;
  const absl::string_view pattern_;
  const size_t max_reads_;
  size_t reads_ = 0;
  size_t received_ = 0;
};

class Budget final : public FrameBudget {
 public:
  bool Reserve(size_t bytes, const void* /*reader*/) override {
    if (used_ + bytes > kBudget) return false;
    used_ += bytes;
    return true;
  }
  void Release(size_t bytes, const void* /*reader*/) override {
    if (bytes > used_) std::abort();
    used_ -= bytes;
  }
  size_t used() const { return used_; }

 private:
  size_t used_ = 0;
};

// What frames there are, until the bytes end or are no frame.
class Expected {
 public:
  Expected(absl::string_view bytes, size_t max_bytes) : left_(bytes), max_bytes_(max_bytes) {}
  Result Next(FrameKind* kind, absl::string_view* payload) {
    uint32_t header[2];
    if (left_.size() < sizeof(header)) return Result::kCut;
    std::memcpy(header, left_.data(), sizeof(header));
    if (header[0] > max_bytes_ || header[1] < static_cast<uint32_t>(FrameKind::kMessage) ||
        header[1] > static_cast<uint32_t>(FrameKind::kData)) {
      return Result::kBad;
    }
    if (left_.size() - sizeof(header) < header[0]) return Result::kCut;
    *kind = static_cast<FrameKind>(header[1]);
    *payload = left_.substr(sizeof(header), header[0]);
    left_.remove_prefix(sizeof(header) + header[0]);
    return Result::kFrame;
  }

 private:
  absl::string_view left_;
  const size_t max_bytes_;
};

// Reads a frame, in the way that `how` says, into *copy.
Result Read(FrameReader* reader, uint8_t how, FrameKind* kind, std::string* copy) {
  const FrameReader::OnTimeout on_timeout =
      (how & 1) != 0 ? FrameReader::OnTimeout::kWaitOn : FrameReader::OnTimeout::kReturn;
  size_t bytes = 0;
  Result result;
  if ((how & 2) != 0) {
    while ((result = reader->Peek(kind, &bytes, on_timeout)) == Result::kNothing) ++counts.nothing;
    if (result != Result::kFrame) return result;
    ++counts.peeked;
    if (bytes <= kBudget) {
      copy->resize(bytes);
      return reader->TakeInto(&(*copy)[0], FrameReader::OnTimeout::kWaitOn);
    }
  }
  absl::string_view payload;
  while ((result = reader->Next(kind, &payload, on_timeout)) == Result::kNothing) {
    ++counts.nothing;
    // At the stream's end nothing completes the frame any more.
    if ((how & 4) != 0 && !reader->Receive()) return errno == ENOMEM ? Result::kBad : Result::kCut;
  }
  if (result == Result::kFrame) copy->assign(payload.data(), payload.size());
  return result;
}

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using chx::Result;
  if (size < 3) return 0;
  const uint8_t how = data[0];
  const size_t max_bytes = chx::kMostBytes[data[1] % 4];
  const size_t pattern_bytes = std::min<size_t>(data[2] % 16, size - 3);
  const absl::string_view all(reinterpret_cast<const char*>(data) + 3, size - 3);
  const absl::string_view bytes = all.substr(pattern_bytes);
  chx::Pieces pieces(bytes, all.substr(0, pattern_bytes));
  chx::Expected expected(bytes, max_bytes);
  chx::Budget budget;
  {
    chx::FrameReader reader(&pieces, max_bytes, &budget);
    for (;;) {
      chx::FrameKind kind, wanted_kind;
      std::string payload;
      absl::string_view wanted;
      const Result result = chx::Read(&reader, how, &kind, &payload);
      // As bytes arrive, not as a header promises.
      if (budget.used() > 2 * pieces.received() + chx::kSmallBuffer) std::abort();
      const Result wanted_result = expected.Next(&wanted_kind, &wanted);
      if (result != wanted_result) {
        // There was no memory for a large frame, whole or cut.
        const bool large = wanted_result == Result::kCut ? pieces.received() > chx::kBudget / 2
                                                         : wanted.size() > chx::kBudget / 2;
        if (result == Result::kBad && large) break;
        std::abort();
      }
      if (result != Result::kFrame) {
        ++(result == Result::kBad ? chx::counts.bad : chx::counts.cut);
        break;
      }
      if (kind != wanted_kind || payload != wanted) std::abort();
      ++chx::counts.frames;
    }
  }
  if (budget.used() != 0) std::abort();
  return 0;
}

namespace chx {

std::string FuzzCounts() {
  return absl::StrCat("  frames ", counts.frames, ", looked at first ", counts.peeked, ", bad ",
                      counts.bad, ", cut ", counts.cut, ", waits ended ", counts.nothing, "\n");
}

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  for (char how = 0; how < 8; ++how) {
    for (const uint32_t bytes : {0u, 5u, 4096u, 70000u, 300000u}) {
      std::string seed = {how, static_cast<char>(how % 4), 4, 1, 0, char(255), 100};
      for (uint32_t kind = 1; kind <= 6; ++kind) {
        const uint32_t header[] = {bytes >> (kind % 3), kind};
        seed.append(reinterpret_cast<const char*>(header), sizeof(header));
        seed.append(header[0], static_cast<char>(kind));
      }
      seeds.push_back(seed);
    }
  }
  return seeds;
}

}  // namespace chx
