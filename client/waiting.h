// What the binding does around waits that are not at its own calls of Fetch or Flush.
#ifndef CHX_CLIENT_WAITING_H_
#define CHX_CLIENT_WAITING_H_

namespace chx {

// Exists while the calling thread waits for the daemon.
class Waiting {
 public:
  Waiting() : state_(begin_ == nullptr ? nullptr : begin_()) {}
  ~Waiting() {
    if (end_ != nullptr) end_(state_);
  }
  Waiting(const Waiting&) = delete;

  static void SetHooks(void* (*begin)(), void (*end)(void* state)) {
    begin_ = begin;
    end_ = end;
  }

 private:
  static inline void* (*begin_)() = nullptr;
  static inline void (*end_)(void* state) = nullptr;
  void* const state_;
};

}  // namespace chx

#endif  // CHX_CLIENT_WAITING_H_
