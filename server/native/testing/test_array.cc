#include "server/native/testing/test_array.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/infer.h"
#include "ops/registry.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/native/native_backend.h"

namespace chx::server::native {

Rng MakeRng() {
  const char* const given = std::getenv("CHX_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("CHX_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return Rng(seed);
}

int64_t RandomInt(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

Shape RandomShape(Rng& rng, int max_ndim, int64_t max_dim) {
  Shape shape;
  for (int64_t d = RandomInt(rng, 0, max_ndim); d > 0; --d) {
    shape.push_back(RandomInt(rng, 0, 24) == 0 ? 0 : RandomInt(rng, 1, max_dim));
  }
  return shape;
}

Shape RandomBroadcastable(Rng& rng, const Shape& shape) {
  Shape result;
  const int first =
      static_cast<int>(RandomInt(rng, 0, 3) == 0 ? RandomInt(rng, 0, shape.size()) : 0);
  for (int d = first; d < shape.size(); ++d) {
    result.push_back(RandomInt(rng, 0, 3) == 0 ? 1 : shape[d]);
  }
  return result;
}

TestArray::TestArray(Dtype dtype, const Shape& shape) {
  tensor_.dtype = dtype;
  tensor_.shape = shape;
  tensor_.strides = ContiguousStrides(shape, ItemSize(dtype));
  memory_ = std::make_shared<std::vector<uint64_t>>(tensor_.size() * ItemSize(dtype) / 8 + 1,
                                                    0xfdfdfdfdfdfdfdfdu);
  tensor_.data = tensor_.size() > 0 ? reinterpret_cast<char*>(memory_->data()) : nullptr;
}

TestArray TestArray::RandomLayout(Rng& rng, Dtype dtype, const Shape& shape) {
  std::vector<int> order(shape.size());
  for (int d = 0; d < shape.size(); ++d) order[d] = d;
  if (RandomInt(rng, 0, 1) == 0) std::shuffle(order.begin(), order.end(), rng);
  int64_t stride = ItemSize(dtype);
  int64_t offset = 0;
  Strides strides(shape.size(), 0);
  for (int i = shape.size() - 1; i >= 0; --i) {
    const int d = order[i];
    const int64_t length = std::max<int64_t>(1, shape[d]);
    if (RandomInt(rng, 0, 5) == 0) stride *= 2;
    strides[d] = stride;
    if (RandomInt(rng, 0, 4) == 0) {
      strides[d] = -stride;
      offset += (length - 1) * stride;
    }
    stride *= length;
  }
  TestArray array(dtype, shape);
  if (array.size() == 0) return array;
  array.memory_ = std::make_shared<std::vector<uint64_t>>(stride / 8 + 1, 0xfdfdfdfdfdfdfdfdu);
  array.tensor_.data = reinterpret_cast<char*>(array.memory_->data()) + offset;
  array.tensor_.strides = strides;
  return array;
}

char* TestArray::At(int64_t position) const {
  char* at = tensor_.data;
  for (int d = shape().size() - 1; d >= 0; --d) {
    at += position % shape()[d] * tensor_.strides[d];
    position /= shape()[d];
  }
  return at;
}

Number TestArray::Get(int64_t position) const {
  return kernels::VisitDtype(dtype(), [&](auto tag) {
    typename decltype(tag)::Type value;
    std::memcpy(&value, At(position), sizeof(value));
    return static_cast<Number>(kernels::Load(value));
  });
}

void TestArray::Set(int64_t position, Number number) {
  kernels::VisitDtype(dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T value;
    if constexpr (kernels::kIsFloat<kernels::Compute<T>>) {
      value = kernels::Cast<T>(static_cast<double>(number));
    } else if constexpr (std::is_same<T, kernels::Bool>::value) {
      value = T(number != 0);
    } else {
      value = kernels::Cast<T>(static_cast<int64_t>(number));
    }
    std::memcpy(At(position), &value, sizeof(value));
  });
}

std::vector<Number> TestArray::Values() const {
  std::vector<Number> values(size());
  for (int64_t i = 0; i < size(); ++i) values[i] = Get(i);
  return values;
}

void TestArray::FillRandom(Rng& rng, bool specials) {
  constexpr Number kInf = std::numeric_limits<Number>::infinity();
  constexpr Number kNan = std::numeric_limits<Number>::quiet_NaN();
  const std::vector<Number> floats = {kInf, -kInf, kNan, 0, -0.0L, 1e-30L, 65504, -3e38L, 1, 2};
  // Products of any two are exact in Number.
  const std::vector<Number> ints = {INT64_MIN, 0x1p62L + 0x1p40L, -1,       0, 1, 127,
                                    -128,      INT32_MIN,         INT32_MAX};
  for (int64_t i = 0; i < size(); ++i) {
    const bool special = specials && RandomInt(rng, 0, 7) == 0;
    if (IsFloat(dtype())) {
      Set(i, special ? floats[RandomInt(rng, 0, floats.size() - 1)]
                     : static_cast<Number>(RandomInt(rng, -4000, 4000)) / 1000);
    } else {
      Set(i, special ? ints[RandomInt(rng, 0, ints.size() - 1)]
                     : static_cast<Number>(RandomInt(rng, -12, 12)));
    }
  }
}

TestArray TestArray::BroadcastTo(const Shape& shape) const {
  TestArray result = *this;
  const int missing = shape.size() - this->shape().size();
  result.tensor_.shape = shape;
  result.tensor_.strides = Strides(shape.size(), 0);
  for (int d = 0; d < this->shape().size(); ++d) {
    if (this->shape()[d] != 1) result.tensor_.strides[missing + d] = tensor_.strides[d];
  }
  return result;
}

TestArray TestArray::Copy(Rng& rng) const {
  TestArray copy = RandomLayout(rng, dtype(), shape());
  for (int64_t i = 0; i < size(); ++i) std::memcpy(copy.At(i), At(i), ItemSize(dtype()));
  return copy;
}

std::string TestArray::Bytes() const {
  std::string bytes;
  for (int64_t i = 0; i < size(); ++i) bytes.append(At(i), ItemSize(dtype()));
  return bytes;
}

KernelRunner::KernelRunner(int threads)
    : backend_(CreateNativeBackend({threads})),
      device_(*backend_->OpenDevice(0)),
      stream_(*device_->NewStream()) {}

absl::StatusOr<void*> KernelRunner::Allocate(size_t bytes) {
  scratch_.emplace_back(bytes / 8 + 8, 0xfdfdfdfdfdfdfdfdu);
  return static_cast<void*>(scratch_.back().data());
}

absl::Status KernelRunner::Call(const OpDef& op, absl::Span<const KernelTensor> inputs,
                                absl::Span<const KernelTensor> outputs,
                                absl::Span<const AttrValue> attrs) {
  const absl::Status status =
      device_->kernels().Find(op)({op, *stream_, *this, inputs, outputs, attrs});
  scratch_.clear();
  return status;
}

namespace {

// The call as kernels see it: cast and, for an elementwise operator, broadcast to `shape`.
KernelTensor Prepare(const TestOperand& operand, Dtype dtype, bool elementwise, const Shape& shape,
                     std::vector<TestArray>* kept) {
  if (operand.absent) {
    KernelTensor tensor;
    tensor.present = false;
    return tensor;
  }
  if (operand.is_scalar) {
    KernelTensor tensor;
    tensor.is_scalar = true;
    tensor.scalar = operand.scalar;
    tensor.dtype = dtype;
    return tensor;
  }
  TestArray array = operand.array;
  if (array.dtype() != dtype) {
    TestArray cast(dtype, array.shape());
    for (int64_t i = 0; i < array.size(); ++i) cast.Set(i, array.Get(i));
    array = cast;
  }
  if (elementwise) array = array.BroadcastTo(shape);
  kept->push_back(array);
  return array.tensor();
}

}  // namespace

absl::StatusOr<TestArray> KernelRunner::TryRun(const std::string& name,
                                               const std::vector<TestOperand>& given,
                                               const Attrs& attrs) {
  const OpDef& op = *OpRegistry::Global().Find(name);
  std::vector<TestOperand> inputs = given;
  while (inputs.size() < op.inputs.size()) inputs.emplace_back();
  std::vector<ArraySpec> specs;
  specs.reserve(inputs.size());
  std::vector<SpecOperand> infer;
  for (const TestOperand& input : inputs) {
    if (input.absent) {
      infer.emplace_back();
    } else if (input.is_scalar) {
      infer.emplace_back(input.scalar);
    } else {
      specs.emplace_back(input.array.dtype(), input.array.shape());
      infer.emplace_back(&specs.back());
    }
  }
  Attrs all = attrs;
  for (size_t i = all.size(); i < op.attrs.size(); ++i) all.push_back(op.attrs[i].default_value);
  InferResult inferred;
  CHX_RETURN_IF_ERROR(InferOp({op, infer, all}, &inferred));
  std::vector<TestArray> outs;
  std::vector<KernelTensor> out_tensors;
  for (const ArraySpec& spec : inferred.outputs) {
    outs.emplace_back(spec.dtype, spec.shape);
    out_tensors.push_back(outs.back().tensor());
  }
  std::vector<TestArray> kept;
  std::vector<KernelTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back(
        Prepare(inputs[i], inferred.input_dtypes[i], op.elementwise, outs[0].shape(), &kept));
  }
  CHX_RETURN_IF_ERROR(Call(op, tensors, out_tensors, all));
  return outs[0];
}

TestArray KernelRunner::Run(const std::string& op, const std::vector<TestOperand>& inputs,
                            const Attrs& attrs) {
  absl::StatusOr<TestArray> result = TryRun(op, inputs, attrs);
  if (!result.ok()) {
    std::fprintf(stderr, "%s failed: %s\n", op.c_str(), result.status().ToString().c_str());
    std::abort();
  }
  return *std::move(result);
}

absl::Status KernelRunner::RunInPlace(const std::string& name,
                                      const std::vector<TestOperand>& inputs, const Attrs& attrs) {
  const OpDef& op = *OpRegistry::Global().Find(name);
  const TestArray& target = inputs[0].array;
  std::vector<TestArray> kept;
  std::vector<KernelTensor> tensors;
  for (const TestOperand& input : inputs) {
    const Dtype dtype = op.elementwise || input.is_scalar ? target.dtype() : input.array.dtype();
    tensors.push_back(Prepare(input, dtype, op.elementwise, target.shape(), &kept));
  }
  return Call(op, tensors, {&target.tensor(), 1}, attrs);
}

Number Tolerance(Dtype dtype) {
  if (IsNarrowFloat(dtype)) return 1.2L * EpsilonOf(dtype);
  return dtype == Dtype::kFloat32 ? 1.5e-6L : 1e-14L;
}

bool Close(Dtype dtype, Number got, Number want, Number factor) {
  if (!IsFloat(dtype)) return got == want;
  if (std::isnan(want)) return std::isnan(got);
  const Number largest = dtype == Dtype::kFloat16 ? 65519 : GreatestOf(dtype);
  const Number rounding = largest * Tolerance(dtype) * factor;
  if (std::isinf(got)) return (got > 0) == (want > 0) && std::fabs(want) >= largest - rounding;
  if (std::isinf(want)) return false;
  const Number bound = Tolerance(dtype) * factor * std::max<Number>(std::fabs(want), 1);
  return std::fabs(got - want) <= bound;
}

}  // namespace chx::server::native
