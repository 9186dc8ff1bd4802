// Arrays in any layout, and running one kernel on them without an engine. For tests.
#ifndef CHX_SERVER_NATIVE_TESTING_TEST_ARRAY_H_
#define CHX_SERVER_NATIVE_TESTING_TEST_ARRAY_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/array_spec.h"
#include "ops/attr.h"
#include "ops/op_def.h"
#include "server/engine/backend.h"
#include "server/engine/kernel.h"

namespace chx::server::native {

// Holds every value of every dtype exactly.
using Number = long double;

using Rng = std::mt19937_64;
// Prints its seed: CHX_TEST_SEED in the environment, else a random number.
Rng MakeRng();
int64_t RandomInt(Rng& rng, int64_t low, int64_t high);  // both included

// Up to `max_ndim` dimensions of 0 (rarely) to `max_dim`.
Shape RandomShape(Rng& rng, int max_ndim, int64_t max_dim);
// Dimensions dropped in front or set to 1.
Shape RandomBroadcastable(Rng& rng, const Shape& shape);

// Shares its memory when copied.
class TestArray {
 public:
  TestArray() = default;
  // C-contiguous; the memory is filled with garbage.
  TestArray(Dtype dtype, const Shape& shape);
  // Any order of dimensions in memory, with gaps and negative strides.
  static TestArray RandomLayout(Rng& rng, Dtype dtype, const Shape& shape);

  Dtype dtype() const { return tensor_.dtype; }
  const Shape& shape() const { return tensor_.shape; }
  int64_t size() const { return tensor_.size(); }
  // The element at a C-order position.
  Number Get(int64_t position) const;
  void Set(int64_t position, Number value);
  std::vector<Number> Values() const;
  // Small numbers of both signs; special ones (infinities, NaN, extremes) at times.
  void FillRandom(Rng& rng, bool specials);
  TestArray BroadcastTo(const Shape& shape) const;
  TestArray Copy(Rng& rng) const;  // in another layout
  std::string Bytes() const;       // of the elements, in C order
  const KernelTensor& tensor() const { return tensor_; }
  KernelTensor& tensor() { return tensor_; }

 private:
  char* At(int64_t position) const;

  std::shared_ptr<std::vector<uint64_t>> memory_;
  KernelTensor tensor_;
};

// An operand of a call, by value.
struct TestOperand {
  TestArray array;
  bool is_scalar = false;
  Scalar scalar;
  bool absent = false;

  TestOperand() : absent(true) {}
  TestOperand(TestArray value) : array(std::move(value)) {}      // NOLINT
  TestOperand(Scalar value) : is_scalar(true), scalar(value) {}  // NOLINT
};

// A device with its own threads, on which operators run as the engine would run them.
class KernelRunner : private ScratchAllocator {
 public:
  explicit KernelRunner(int threads);

  Device& device() { return *device_; }
  // Infers, casts, broadcasts and runs; the first output. Attributes are in declared order.
  absl::StatusOr<TestArray> TryRun(const std::string& op, const std::vector<TestOperand>& inputs,
                                   const Attrs& attrs = {});
  // As above; a failure ends the test program.
  TestArray Run(const std::string& op, const std::vector<TestOperand>& inputs,
                const Attrs& attrs = {});
  // Runs `op`'s kernel (the base of an in-place form) with inputs[0] as the output.
  absl::Status RunInPlace(const std::string& op, const std::vector<TestOperand>& inputs,
                          const Attrs& attrs = {});
  // Calls the kernel on tensors as they are.
  absl::Status Call(const OpDef& op, absl::Span<const KernelTensor> inputs,
                    absl::Span<const KernelTensor> outputs, absl::Span<const AttrValue> attrs);

 private:
  absl::StatusOr<void*> Allocate(size_t bytes) override;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::vector<uint64_t>> scratch_;
};

// How close a result of `dtype` must be: |got - want| <= bound * max(|want|, 1).
Number Tolerance(Dtype dtype);
// Whether they are equal, both NaN, or close; for floats `want` is rounded to float16's range
// first.
bool Close(Dtype dtype, Number got, Number want, Number factor = 1);

inline constexpr Dtype kAllDtypes[] = {
    Dtype::kBool,  Dtype::kInt8,    Dtype::kInt16,   Dtype::kInt32,   Dtype::kInt64,
    Dtype::kUint8, Dtype::kFloat16, Dtype::kFloat32, Dtype::kFloat64, Dtype::kBfloat16};
inline constexpr Dtype kFloatDtypes[] = {Dtype::kFloat16, Dtype::kFloat32, Dtype::kFloat64,
                                         Dtype::kBfloat16};

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_TESTING_TEST_ARRAY_H_
