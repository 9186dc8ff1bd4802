// What a thread calls, for exporters of functions.
#ifndef CHX_CLIENT_CALL_LOG_H_
#define CHX_CLIENT_CALL_LOG_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "client/array.h"
#include "ops/attr.h"
#include "ops/op_call.h"
#include "ops/scalar.h"

namespace chx {

// The operators that a thread has called since Begin, with their arrays, which it keeps.
class CallLog {
 public:
  // An array, or a scalar; neither: an optional input that is absent.
  struct Input {
    ArrayPtr array;
    bool is_scalar = false;
    Scalar scalar;
  };
  struct Entry {
    const OpDef* op = nullptr;
    std::vector<Input> inputs;
    Attrs attrs;
    ArrayPtrs outputs;
  };

  // False: the calling thread has a log already.
  static bool Begin();
  // The calling thread's log, which it has no longer; null: it had none.
  static std::unique_ptr<CallLog> End();
  // The calling thread's; null: it has none.
  static CallLog* Current();

  void Note(const OpCall<Operand>& call, const ArrayPtrs& outputs);
  // Gradients were computed or changed: that is no operator of the client's.
  void NoteGradients() { gradients_ = true; }

  const std::vector<Entry>& entries() const { return entries_; }
  bool gradients() const { return gradients_; }

 private:
  std::vector<Entry> entries_;
  bool gradients_ = false;
};

}  // namespace chx

#endif  // CHX_CLIENT_CALL_LOG_H_
