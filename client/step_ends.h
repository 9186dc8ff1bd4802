// Where a client's loop is likely to begin anew.
#ifndef CHX_CLIENT_STEP_ENDS_H_
#define CHX_CLIENT_STEP_ENDS_H_

namespace chx {

// A batch that ends there has whole steps, which the daemon can run as one plan each. A step is
// taken to end behind the last write between two backward passes; which one is the last is known
// from the passes before. A loop without writes or passes has no ends.
//
// Not thread-safe.
class StepEnds {
 public:
  void NoteBackward() {
    last_ = here_;
    here_ = 0;
    wrote_ = false;
  }
  // An array is written in place, or a gradient is set.
  void NoteWrite() { wrote_ = true; }
  // An operator with results follows. True if a step has ended before it.
  bool NoteOperator() {
    if (!wrote_) return false;
    wrote_ = false;
    return ++here_ == last_;
  }

 private:
  bool wrote_ = false;  // by the command before
  // Operators that follow a write, between two passes.
  int here_ = 0;
  int last_ = 0;  // between the last two
};

}  // namespace chx

#endif  // CHX_CLIENT_STEP_ENDS_H_
