// Connections for calls beside the op stream: opened when needed, and used again.
#ifndef CHX_CLIENT_CHANNEL_POOL_H_
#define CHX_CLIENT_CHANNEL_POOL_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/call_channel.h"
#include "client/dialer.h"

namespace chx {

// Thread-safe. Keeps one connection; threads that call at once have more.
class ChannelPool {
 public:
  // `token_file`: empty: there is just the token.
  ChannelPool(const Dialer* dialer, std::string token, std::string token_file)
      : dialer_(dialer), token_file_(std::move(token_file)), token_(std::move(token)) {}

  // `fresh`: not one that may have been cut meanwhile.
  absl::StatusOr<std::unique_ptr<CallChannel>> Take(Dialer::TimePoint deadline, bool fresh);
  // Only one that has done all that it was asked for.
  void Return(std::unique_ptr<CallChannel> channel);
  // Closes the one that is kept, and keeps none from now on.
  void Close();

 private:
  // What to show now. A file that cannot be read just now changes nothing.
  absl::StatusOr<std::string> Token() ABSL_LOCKS_EXCLUDED(mutex_);

  const Dialer* const dialer_;
  const std::string token_file_;
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<CallChannel> idle_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chx

#endif  // CHX_CLIENT_CHANNEL_POOL_H_
