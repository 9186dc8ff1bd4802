// Commands of a session that are encoded and not yet sent, and handles that are to be released.
//
// Bookkeeping only: no socket, no thread, no lock. A CommandQueue owns it and guards it with its
// mutex.
#ifndef CHX_CLIENT_PENDING_COMMANDS_H_
#define CHX_CLIENT_PENDING_COMMANDS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "proto/command_codec.h"

namespace chx {

// Not thread-safe.
class PendingCommands {
 public:
  // What the daemon accepts in one batch.
  PendingCommands(size_t max_batch_bytes, size_t max_batch_commands)
      : max_batch_bytes_(max_batch_bytes), max_batch_commands_(max_batch_commands) {}

  // Appends one command, by one call of the writer; then Count() is called.
  CommandWriter writer() { return CommandWriter(&records_); }
  void Count() {
    ++commands_;
    ++total_commands_;
  }
  // Ends the batch before it grows beyond what the daemon accepts. For commands after which
  // nothing flushes: nothing else bounds the batch then.
  void SealIfLarge();
  // Where a step of the client ends: whether the open batch is worth a message to a daemon that has
  // nothing to do. EndStep ends it there.
  bool StepIsDue() const;
  void EndStep();

  // Remembers an array of `bytes` to release. True if AppendReleases is to be called now: what
  // frees much goes before the next operator, whose result then takes the same memory, which is
  // still in the daemon's caches.
  bool Release(Handle handle, int64_t bytes) {
    released_.push_back(handle);
    released_bytes_ += bytes;
    return released_.size() >= kReleasesAtOnce || released_bytes_ >= kReleasedBytes;
  }
  // Turns the remembered releases into a command. True if there were any.
  bool AppendReleases();

  // Whether a batch has ended, or the open one is worth a message.
  bool due() const {
    return !sealed_.empty() || records_.size() >= kDueBytes || commands_ >= kDueCommands;
  }
  bool has_ended() const { return !sealed_.empty(); }
  bool empty() const { return commands_ == 0 && released_.empty() && sealed_.empty(); }
  // Moves the oldest batch to `records`, which is empty, and returns its number of commands.
  // *more: whether there is another batch.
  uint32_t Take(std::string* records, bool* more);

  // Since the session began.
  int64_t total_commands() const { return total_commands_; }
  int64_t total_batches() const { return total_batches_; }  // taken

 private:
  static constexpr size_t kDueBytes = 16 << 10;
  static constexpr uint32_t kDueCommands = 512;
  static constexpr size_t kReleasesAtOnce = 32;
  static constexpr int64_t kReleasedBytes = 128 << 10;  // a part of what a core's own cache holds

  struct Batch {
    std::string records;
    uint32_t commands;
  };

  void Seal();

  const size_t max_batch_bytes_;
  const size_t max_batch_commands_;
  std::deque<Batch> sealed_;  // older than records_
  std::string records_;       // the open batch
  uint32_t commands_ = 0;     // in records_
  std::vector<Handle> released_;
  int64_t released_bytes_ = 0;
  int64_t total_commands_ = 0;
  int64_t total_batches_ = 0;
};

}  // namespace chx

#endif  // CHX_CLIENT_PENDING_COMMANDS_H_
