// Decisions about values of the protocol, read from bytes: a fuzzer's input or random numbers.
#ifndef CHX_TESTS_FUZZ_CHOICES_H_
#define CHX_TESTS_FUZZ_CHOICES_H_

#include <cstddef>
#include <cstdint>

#include "ops/op_def.h"
#include "proto/command.h"

namespace chx {

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
  // True once in n times.
  bool OnceIn(int n) { return UpTo(n - 1) == 0; }
  // 0 and 1 to 31: few, so that they meet.
  Handle AnyHandle() { return static_cast<Handle>(Byte() % 32); }
  const OpDef& AnyOperator();
  Dtype AnyDtype() { return static_cast<Dtype>(UpTo(kNumDtypes - 1)); }
  Scalar AnyScalar();
  Ints AnyInts();
  AttrValue AnyAttr(AttrType type);
  HandleOperand AnyOperand();

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_CHOICES_H_
