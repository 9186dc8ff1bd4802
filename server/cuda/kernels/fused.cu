// Several elementwise calls as one kernel (server/engine/fused_calls.h), which is an interpreter: a
// call takes some instructions besides its formula, fewer than the processor has to spare while it
// waits for memory, and nothing has to be compiled at run time.
#include <algorithm>
#include <vector>

#include "ops/registry.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/elementwise.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/loops/rows.h"
#include "server/engine/fused_calls.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/smooth_fns.h"

namespace chx::server::cuda {
namespace {

namespace k = kernels;

using UnaryFns = k::FnList<k::Relu, k::Negative, k::Square, k::Abs, k::ExpFn, k::LogFn, k::SqrtFn,
                           k::TanhFn, k::SigmoidFn, k::Silu, k::GeluErf, k::GeluTanh>;
using BinaryFns = k::FnList<k::Add, k::Subtract, k::Multiply, k::Divide, k::Maximum, k::Minimum,
                            k::ReluGrad, k::SiluGrad, k::GeluErfGrad, k::GeluTanhGrad>;

constexpr int8_t kNoOperand = 127;

// The smallest integers: all of them are arguments of the kernel.
struct Step {
  int8_t fn;  // in UnaryFns, or behind those in BinaryFns
  int8_t a;   // as in FusedCall
  int8_t b;
  int8_t output;
  bool is_kept;  // for calls behind the next one
};

struct FusedInput {
  enum class Kind : uint8_t { kScalar, kElement, kDense, kRepeated };
  Kind kind;
  float value;  // kScalar
  const float* data;
  Divider period;  // kRepeated: packs
};

// The elements of a thread: two packs, as an interpreter's steps take as long for one.
constexpr int kPacks = 2;
template <int kPack>
struct Values {
  Pack<float, kPack> packs[kPacks];

  CHX_HD float& at(int i) { return packs[i / kPack].elements[i % kPack]; }
  CHX_HD float at(int i) const { return packs[i / kPack].elements[i % kPack]; }
};

template <typename Fn, int kPack>
CHX_HD void Each(const Values<kPack>& a, Values<kPack>* result) {
  CHX_UNROLL
  for (int i = 0; i < kPacks * kPack; ++i) result->at(i) = Fn()(a.at(i));
}
template <typename Fn, int kPack>
CHX_HD void Each(const Values<kPack>& a, const Values<kPack>& b, Values<kPack>* result) {
  CHX_UNROLL
  for (int i = 0; i < kPacks * kPack; ++i) result->at(i) = Fn()(a.at(i), b.at(i));
}
// Calls the formula of a number.
template <int kPack, typename... Fns>
CHX_HD void CallUnary(k::FnList<Fns...>, int fn, const Values<kPack>& a, Values<kPack>* result) {
  (void)((fn == k::kFnIndex<Fns, UnaryFns> && (Each<Fns>(a, result), true)) || ...);
}
template <int kPack, typename... Fns>
CHX_HD void CallBinary(k::FnList<Fns...>, int fn, const Values<kPack>& a, const Values<kPack>& b,
                       Values<kPack>* result) {
  (void)((fn == k::kFnIndex<Fns, BinaryFns> && (Each<Fns>(a, b, result), true)) || ...);
}

// All calls, on the elements of a thread. The packs of neighbouring threads are neighbours.
template <int kPack>
struct FusedBody {
  using Own = Values<kPack>;

  FusedInput inputs[kMaxFusedOperands];
  float* outputs[kMaxFusedOperands];
  Step steps[kMaxFusedCalls];
  int count;
  int64_t packs;  // of all elements

  int64_t threads() const { return (packs + kPacks * kWarp - 1) / (kPacks * kWarp) * kWarp; }

  CHX_HD void operator()(int64_t i) const {
    const int64_t first = i / kWarp * (kPacks * kWarp) + i % kWarp;
    Own last{};
    Own kept[kMaxFusedCalls];
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int n = 0; n < count; ++n) {
      const Step step = steps[n];
      const Own a = Operand(step.a, n, first, last, kept);
      if (step.b == kNoOperand) {
        CallUnary(UnaryFns(), step.fn, a, &last);
      } else {
        const Own b = Operand(step.b, n, first, last, kept);
        CallBinary(BinaryFns(), step.fn - UnaryFns::kSize, a, b, &last);
      }
      if (step.is_kept) kept[n] = last;
      if (step.output != kNoOperand) Store(last, first, outputs[step.output]);
    }
  }

 private:
  // Of call n.
  CHX_HD Own Operand(int number, int n, int64_t first, const Own& last,
                     const Own (&kept)[kMaxFusedCalls]) const {
    if (number < 0) return ~number == n - 1 ? last : kept[~number];
    const FusedInput& input = inputs[number];
    Own values;
    if (input.kind == FusedInput::Kind::kScalar || input.kind == FusedInput::Kind::kElement) {
      const float value = input.kind == FusedInput::Kind::kScalar ? input.value : *input.data;
      CHX_UNROLL
      for (int j = 0; j < kPacks * kPack; ++j) values.at(j) = value;
      return values;
    }
    CHX_UNROLL
    for (int j = 0; j < kPacks; ++j) {
      int64_t pack = first + j * kWarp;
      if (pack >= packs) pack = 0;  // of no thread
      if (input.kind == FusedInput::Kind::kRepeated) {
        pack -= input.period.Quotient(pack) * input.period.divisor();
      }
      values.packs[j] = reinterpret_cast<const Pack<float, kPack>*>(input.data)[pack];
    }
    return values;
  }
  CHX_HD void Store(const Own& values, int64_t first, float* to) const {
    CHX_UNROLL
    for (int j = 0; j < kPacks; ++j) {
      const int64_t pack = first + j * kWarp;
      if (pack < packs) StorePack(values.packs[j], to + pack * kPack);
    }
  }
};

// The number of an operator's formula, by its id; -1: it has none here.
const std::vector<int8_t>& Formulas() {
  static const auto* const formulas = [] {
    const OpRegistry& registry = OpRegistry::Global();
    auto* const all = new std::vector<int8_t>(registry.size(), -1);
    int8_t next = 0;
    const auto add = [&](auto fn) { (*all)[registry.Find(decltype(fn)::kOp)->id] = next++; };
    k::ForEachFn(UnaryFns(), add);
    k::ForEachFn(BinaryFns(), add);
    return all;
  }();
  return *formulas;
}

// How many elements of an array there are until it repeats itself.
int64_t Period(const KernelTensor& tensor) {
  int64_t period = 1;
  for (int d = 0; d < tensor.ndim(); ++d) {
    if (tensor.strides[d] != 0) period *= tensor.shape[d];
  }
  return period;
}

template <int kPack>
absl::Status Launch(const KernelArgs& args) {
  const Ints& numbers = args.attrs[0].ints();
  FusedBody<kPack> body{};
  body.packs = args.out(0).size() / kPack;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    const KernelTensor& tensor = args.inputs[i];
    FusedInput& input = body.inputs[i];
    if (tensor.is_scalar) {
      input.kind = FusedInput::Kind::kScalar;
      input.value = k::ScalarAs<float>(tensor.scalar);
      continue;
    }
    input.data = reinterpret_cast<const float*>(tensor.data);
    const int64_t period = Period(tensor);
    input.kind = period == args.out(0).size() ? FusedInput::Kind::kDense
                 : period == 1                ? FusedInput::Kind::kElement
                                              : FusedInput::Kind::kRepeated;
    input.period = Divider(period / kPack, body.packs);
  }
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    body.outputs[i] = reinterpret_cast<float*>(args.outputs[i].data);
  }
  body.count = static_cast<int>(NumFusedCalls(numbers));
  const auto operand = [](int64_t number) {
    return number == FusedCall::kNone ? kNoOperand : static_cast<int8_t>(number);
  };
  for (int n = 0; n < body.count; ++n) {
    const FusedCall call = FusedCallAt(numbers, static_cast<size_t>(n));
    body.steps[n] = {Formulas()[call.op], operand(call.a), operand(call.b), operand(call.output),
                     false};
    for (const int64_t input : {call.a, call.b}) {
      if (input < 0 && input != FusedCall::kNone && ~input < n - 1)
        body.steps[~input].is_kept = true;
    }
  }
  return ForEach(args, body.threads(), body, kPacks * kPack * body.count);
}

absl::Status RunFused(const KernelArgs& args) {
  constexpr int kPack = kRowPack<float>;
  bool packs = args.out(0).size() % kPack == 0;
  const auto check = [&](const KernelTensor& tensor) {
    if (tensor.is_scalar) return;
    const int64_t period = Period(tensor);
    if (period == 1) return;
    packs = packs && period % kPack == 0 && reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0;
  };
  for (const KernelTensor& tensor : args.inputs) check(tensor);
  for (const KernelTensor& tensor : args.outputs) check(tensor);
  return packs ? Launch<kPack>(args) : Launch<1>(args);
}

}  // namespace

void RegisterFused(KernelTable& table) {
  std::vector<absl::string_view> ops;
  const auto add = [&](auto fn) { ops.push_back(decltype(fn)::kOp); };
  k::ForEachFn(UnaryFns(), add);
  k::ForEachFn(BinaryFns(), add);
  table.SetFused(RunFused, ops);
}

}  // namespace chx::server::cuda
