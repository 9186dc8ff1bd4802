// Finds out that a stream of commands repeats itself.
#ifndef CHX_SERVER_SESSION_WINDOW_SEARCH_H_
#define CHX_SERVER_SESSION_WINDOW_SEARCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/command.h"

namespace chx::server {

// Looks at what commands are, not at what they work on: a period that it finds has to be compared.
class WindowSearch {
 public:
  static constexpr size_t kMinPeriod = 4;    // steps
  static constexpr size_t kMaxPeriod = 512;  // commands

  // Notes a command, no Release. Gives the period with which the stream has just repeated itself,
  // or 0. That is looked for where a step is likely to end: at backward passes, and at commands
  // that are no part of windows.
  size_t Add(const Command& command);

 private:
  static constexpr size_t kKept = 2 * kMaxPeriod;
  struct Anchor {
    uint32_t hash = 0;
    size_t end = 0;  // commands up to it
  };

  bool Repeats(size_t period) const;

  std::vector<uint32_t> hashes_;  // a ring
  size_t count_ = 0;
  std::array<Anchor, 8> anchors_;  // a ring
  size_t num_anchors_ = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_WINDOW_SEARCH_H_
