// Who gives a GPU work next, how much of it waits there, and how long the GPU works for whom.
#ifndef CHX_SERVER_CUDA_RUNTIME_WORK_SHARE_H_
#define CHX_SERVER_CUDA_RUNTIME_WORK_SHARE_H_

#include <chrono>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "base/mutex.h"
#include "server/engine/turn_queue.h"

namespace chx::server::cuda {

// A GPU does what it has been given, whatever comes later. So sessions give it pieces of about
// kPiece, and where several do, no piece is begun while more than kMostShared waits there: then a
// TurnQueue says whose piece is next, by the time that the GPU has worked for them.
//
// A session that has had more than others waits for them, also while they do not ask: they have
// pieces on the device and will. But the device has kLeast to do, if anybody has it.
//
// How long a piece takes is known when it is done. Until then it counts with its number of kernels
// times the mean of those that the session has queued before. Thread-safe; without CUDA, for tests.
class WorkShare {
 public:
  using Duration = TurnClock::duration;
  using Time = TurnClock::time_point;
  using Event = void*;  // a mark in a stream: a cudaEvent_t

  static constexpr std::chrono::microseconds kPiece{1000};
  static constexpr std::chrono::microseconds kLeast{500};
  static constexpr std::chrono::milliseconds kMostShared{8};
  static constexpr std::chrono::milliseconds kMostAlone{64};
  // A piece that is open for longer does not count: its session waits for something else.
  static constexpr std::chrono::milliseconds kMostOpen{2};
  static constexpr int kMostKernels = 256;  // of a piece

  // A session on this device, with at most one piece that is open. Used by the session's thread.
  class Client {
   public:
    // Both may be null: whose share it has, which outlives it, and who is told how long the device
    // has worked for it.
    Client(TurnGroup* group, std::function<void(std::chrono::nanoseconds)> worked)
        : worked_(std::move(worked)) {
      account_.group = group;
      waiter_.account = &account_;
      waiter_.client = this;
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    bool is_open() const { return begin_ != nullptr; }
    // A kernel has been queued. True: the piece is long enough.
    bool AddKernel() { return ++kernels_ >= kernels_of_piece_; }

   private:
    friend class WorkShare;
    enum class State { kIdle, kWaiting, kGranted, kOpen };
    struct Waiter : TurnWaiter {
      Client* client = nullptr;
    };

    TurnAccount account_;
    Waiter waiter_;
    const std::function<void(std::chrono::nanoseconds)> worked_;
    State state_ = State::kIdle;
    Time since_;  // of kGranted and kOpen
    Event begin_ = nullptr;
    int kernels_ = 0;
    int kernels_of_piece_ = 1;
    Duration kernel_ = kPiece;  // the mean
    int in_flight_ = 0;         // pieces
  };

  // `elapsed`: the time from one event to another, of any streams; none while the GPU has not come
  // to the second one. It is negative if that was first.
  explicit WorkShare(std::function<absl::optional<Duration>(Event from, Event to)> elapsed)
      : elapsed_(std::move(elapsed)) {}

  // Whether the client's next piece may begin; else it waits, and asks again. `now` does not go
  // back.
  bool TryBegin(Client* client, Time now);
  // It does not begin.
  void GiveUp(Client* client);
  // The piece begins: `begin` has been put into the stream.
  void Open(Client* client, Event begin);
  // It ends: so has `end`.
  void Close(Client* client, Event end);
  // Looks for pieces that are done.
  void Notice();
  // All of the client's work is done, or the device is lost.
  void Forget(Client* client);

  // Events that pieces do not need any more, or all that are left.
  Event TakeSpare();
  std::vector<Event> TakeAll();

 private:
  struct Piece {
    Client* client;
    Event begin;
    Event end;
    int kernels;
  };

  // What the client's next piece will take, by all that is known.
  static Duration Expected(const Client& client, int kernels) { return client.kernel_ * kernels; }
  // Of all clients; `alone`: there is no other one than `client`.
  Duration InFlight(Time now, const Client* client, bool* alone) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether others have had so much less than the client that it has to wait for them.
  bool IsAhead(const Client& client, Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoticeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(const Piece& piece, Duration elapsed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grant(Client* client, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<absl::optional<Duration>(Event, Event)> elapsed_;
  TurnGroup own_;  // of those who have none
  Mutex mutex_;
  TurnQueue queue_ ABSL_GUARDED_BY(mutex_){1};
  std::vector<Client*> begun_ ABSL_GUARDED_BY(mutex_);  // granted or open
  std::deque<Piece> pieces_ ABSL_GUARDED_BY(mutex_);    // closed; a client's own in order
  Event last_end_ ABSL_GUARDED_BY(mutex_) = nullptr;    // of the piece that was done last
  std::vector<Event> spare_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_RUNTIME_WORK_SHARE_H_
