// Commands from bytes: what a fuzzer's input, or a generator of random numbers, makes of the
// protocol.
#ifndef CHX_TESTS_FUZZ_GENERATOR_H_
#define CHX_TESTS_FUZZ_GENERATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ops/op_def.h"
#include "ops/testing/shape_only.h"
#include "proto/command.h"

namespace chx {

// Decisions, read from bytes.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  // 0 when there is nothing left.
  int Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  int UpTo(int max) { return Byte() % (max + 1); }  // max < 256
  // 0 and 1 to 31: few, so that they meet.
  Handle AnyHandle() { return static_cast<Handle>(Byte() % 32); }
  const OpDef& AnyOperator();
  Scalar AnyScalar();
  Ints AnyInts();
  AttrValue AnyAttr(AttrType type);
  CommandOperand AnyOperand();

 private:
  const uint8_t* data_;
  size_t size_;
};

// Well-formed commands of any kind with operators, handles, attributes and scalars that nearly
// always exist, in any order; now and then a valid call of an operator with arrays made for it.
class CommandGenerator {
 public:
  explicit CommandGenerator(Choices* choices) : choices_(choices) {}
  // False when the choices have come to their end. What the command's data points to lives for
  // ever.
  bool Next(Command* command);

 private:
  Choices* const choices_;
  std::deque<Command> planned_;
};

// What generated commands expect: float32 arrays of shape (2, 3) under the handles 1 to 4, the
// first two of which require grad, and 4096 bytes in shared memory under 5.
std::vector<Command> InitialArrays();
// Whether a command would only take long.
bool TakesLong(const Command& command);

// The commands of a valid call: arrays under handles from `first` on, and the operator, whose
// outputs follow. Empty if the arrays are large.
std::vector<Command> PlanCall(const Call& call, Handle first);

// How often each kind and each operator was made.
struct CommandCounts {
  std::array<uint64_t, static_cast<size_t>(kLastCommandKind) + 1> kinds = {};
  std::vector<uint64_t> operators;  // by id

  void Add(const Command& command);
  uint64_t total() const;
  // A line for each kind, the number of operators and which of them are rarest.
  std::string ToString() const;
};
absl::string_view NameOf(CommandKind kind);

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_GENERATOR_H_
