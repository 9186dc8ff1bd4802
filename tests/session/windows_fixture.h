// The same stream of commands to a session that recognises windows and to one that does not.
#ifndef CHX_TESTS_SESSION_WINDOWS_FIXTURE_H_
#define CHX_TESTS_SESSION_WINDOWS_FIXTURE_H_

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "tests/session/session_fixture.h"

namespace chx::server {

class RepeatedWindowsTest : public SessionTest {
 protected:
  // What a client sees of a stream.
  struct Seen {
    std::vector<std::string> values;
    std::vector<std::string> errors;
    int64_t windows = 0;
    bool operator==(const Seen& other) const {
      return values == other.values && errors == other.errors;
    }
  };

  static SessionLimits WithWindows(SessionLimits limits, bool recognize = true) {
    limits.recognize_windows = recognize;
    limits.longest_window = std::chrono::hours(1);  // also where others use the processor
    return limits;
  }

  // As batches bring it: in parts, and what a session leaves is given again.
  Seen Send(const std::vector<Command>& commands, bool recognize, uint32_t seed,
            SessionLimits limits = {}) {
    Reset(WithWindows(limits, recognize));
    std::mt19937 random(seed);
    size_t done = 0;
    for (size_t end = 0; end < commands.size();) {
      end = std::min(commands.size(), end + 1 + random() % 90);
      const bool more = end < commands.size() && random() % 4 != 0;
      done += session_->Execute(absl::MakeConstSpan(commands).subspan(done, end - done), &output_,
                                1, more);
      EXPECT_TRUE(more || done == end);
    }
    return Result();
  }

  // Batches of these many commands each.
  Seen SendBatches(const std::vector<Command>& commands, bool recognize, size_t size) {
    Reset(WithWindows({}, recognize));
    uint64_t batch = 0;
    for (size_t begin = 0; begin < commands.size(); begin += size) {
      const auto window = absl::MakeConstSpan(commands).subspan(begin, size);
      EXPECT_EQ(session_->Execute(window, &output_, ++batch, false), window.size());
    }
    return Result();
  }

  Seen Result() {
    Seen seen;
    for (const SessionOutput::Value& value : output_.values) {
      seen.values.push_back(value.error == nullptr ? value.data
                                                   : std::string(value.error->status.message()));
    }
    for (const SessionOutput::Error& error : output_.errors) {
      seen.errors.push_back(std::string(error.error->status.message()));
    }
    seen.windows = session_->counters().repeated_windows.value();
    return seen;
  }

  // Both sessions see the same; how often windows have run.
  int64_t Compare(const std::vector<Command>& commands, uint32_t seed) {
    const Seen eager = Send(commands, false, seed);
    const Seen windows = Send(commands, true, seed);
    EXPECT_EQ(eager.windows, 0);
    EXPECT_EQ(eager.errors, windows.errors) << "seed " << seed;
    EXPECT_EQ(eager.values.size(), windows.values.size()) << "seed " << seed;
    EXPECT_TRUE(eager.values == windows.values) << "seed " << seed;
    return windows.windows;
  }

  command::Upload UploadOf(Handle handle, absl::Span<const float> values,
                           std::vector<int64_t> shape) {
    data_.push_back(
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    command::Upload upload;
    upload.result = handle;
    upload.shape.assign(shape.begin(), shape.end());
    upload.data = data_.back();
    return upload;
  }

  std::deque<std::string> data_;  // of uploads
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_WINDOWS_FIXTURE_H_
