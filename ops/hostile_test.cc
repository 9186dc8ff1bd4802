// Calls that no client of ours would make: inference must refuse or accept each, and what it
// accepts must hold. Under the sanitizers this also shows that no rule overflows or reads past its
// input. CHX_TEST_SEED and CHX_TEST_ROUNDS replay and lengthen it.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "ops/basic_index.h"
#include "ops/registry.h"
#include "ops/testing/samples.h"
#include "ops/testing/shape_only.h"

namespace chx {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

class Hostile {
 public:
  explicit Hostile(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }

  int64_t Int() {
    constexpr int64_t kOdd[] = {INT64_MIN,
                                INT64_MIN + 1,
                                INT64_MAX,
                                INT64_MAX - 1,
                                1LL << 31,
                                -(1LL << 31),
                                (1LL << 62) - 1,
                                1LL << 62,
                                10,
                                11,
                                (1LL << 32) + 1,
                                255,
                                -1000000,
                                4096,
                                0x5555555555555555LL,
                                1000};
    return OneIn(3) ? kOdd[Below(16)] : Below(9) - 4;
  }

  Scalar AnyScalar() {
    constexpr double kOdd[] = {0.0, -0.0, 1.5, -2.5, 1e308, -1e308, 1e-320, 0.1};
    switch (Below(6)) {
      case 0:
        return Scalar(OneIn(2));
      case 1:
        return Scalar(std::numeric_limits<double>::quiet_NaN());
      case 2:
        return Scalar(OneIn(2) ? INFINITY : -INFINITY);
      case 3:
        return Scalar(kOdd[Below(8)]);
      default:
        return Scalar(Int());
    }
  }

  Ints AnyInts() {
    const int64_t size = OneIn(50) ? 1000 : OneIn(10) ? Below(12) : Below(5);
    Ints ints;
    for (int64_t i = 0; i < size; ++i) ints.push_back(OneIn(4) ? Int() : Below(7) - 1);
    return ints;
  }

  AttrValue AnyIndex() {
    IndexBuilder index;
    const auto part = [&]() -> absl::optional<int64_t> {
      if (OneIn(3)) return absl::nullopt;
      return Int();
    };
    for (int64_t i = Below(6); i > 0; --i) {
      const int64_t kind = Below(8);
      if (kind == 0) index.NewAxis();
      if (kind == 1) index.Ellipsis();
      if (kind == 2) index.Int(Int());
      if (kind > 2) index.Slice(part(), part(), part());
    }
    return index.Build();
  }

  AttrValue Attr(AttrType type) {
    switch (type) {
      case AttrType::kNone:
        return AttrValue();
      case AttrType::kBool:
        return AttrValue(OneIn(2));
      case AttrType::kInt:
        return AttrValue(Int());
      case AttrType::kFloat:
        return AttrValue(AnyScalar().AsDouble());
      case AttrType::kDtype:
        return AttrValue(static_cast<Dtype>(OneIn(8) ? 9 + Below(200) : Below(kNumDtypes)));
      case AttrType::kScalar:
        return AttrValue(AnyScalar());
      case AttrType::kInts:
        return AttrValue(AnyInts());
      case AttrType::kIndex:
        break;
    }
    return OneIn(3) ? AttrValue::Index(AnyInts()) : AnyIndex();
  }

  // Specs as the server's own: shapes in bounds, strides inside a storage.
  ArraySpec Array() {
    const Dtype dtype = OneIn(3) ? static_cast<Dtype>(Below(kNumDtypes)) : Dtype::kFloat32;
    Shape shape;
    const int64_t ndim = OneIn(6) ? Below(kMaxNdim + 1) : Below(5);
    for (int64_t i = 0; i < ndim; ++i) shape.push_back(OneIn(8) ? 0 : 1 + Below(3));
    if (OneIn(6)) {
      // A view that repeats an element: as large as shapes may be.
      for (int i = 0; i < shape.size(); ++i) shape[i] = int64_t{1} << Below(63);
      if (CheckShape("", shape.span(), dtype).ok()) {
        ArraySpec spec(dtype, shape);
        spec.strides = Strides(shape.size(), 0);
        return spec;
      }
      shape = {2, 3};
    }
    ArraySpec spec(dtype, shape);
    if (OneIn(3)) {
      for (int i = 0; i < shape.size(); ++i) {
        if (!OneIn(2) || shape[i] == 0) continue;
        spec.offset += (shape[i] - 1) * spec.strides[i];
        spec.strides[i] = -spec.strides[i];
      }
    }
    return spec;
  }

  Argument AnyArgument() {
    if (OneIn(12)) return Argument();
    if (OneIn(6)) return AnyScalar();
    return Array();
  }

  // A valid call with up to three things changed, or one made up altogether.
  Call Mutate(const OpDef& op, const std::vector<Call>& samples) {
    if (OneIn(6)) return MadeUp(op);
    Call call = samples[Below(static_cast<int64_t>(samples.size()))];
    for (int64_t changes = Below(4); changes > 0; --changes) {
      const int64_t n = static_cast<int64_t>(call.inputs.size());
      const int64_t at = Below(n + static_cast<int64_t>(call.attrs.size()) + 1);
      if (at < n) {
        ChangeInput(&call.inputs[at]);
      } else if (at < n + static_cast<int64_t>(call.attrs.size())) {
        const AttrType type = op.attrs[at - n].type;
        call.attrs[at - n] = Attr(OneIn(10)  ? static_cast<AttrType>(Below(kNumAttrTypes))
                                  : OneIn(8) ? AttrType::kNone
                                             : type);
      } else if (op.has_variadic_input() && n > 0 && !OneIn(4)) {
        const std::vector<Argument> inputs = call.inputs;
        if (op.has_lists()) call.inputs.insert(call.inputs.end(), inputs.begin(), inputs.end());
        for (int64_t i = Below(3); i >= 0 && !op.has_lists(); --i) {
          call.inputs.push_back(inputs.back());
        }
      } else if (OneIn(4)) {
        call.inputs.resize(Below(4));
      }
    }
    return call;
  }

 private:
  void ChangeInput(Argument* argument) {
    if (!argument->array.has_value() || OneIn(4)) {
      *argument = AnyArgument();
      return;
    }
    ArraySpec& spec = *argument->array;
    if (OneIn(3)) {
      spec = ArraySpec(static_cast<Dtype>(Below(kNumDtypes)), spec.shape);
    } else if (spec.ndim() > 0) {
      Shape shape = spec.shape;
      shape[static_cast<int>(Below(shape.size()))] = Below(4);
      spec = ArraySpec(spec.dtype, shape);
    } else {
      spec.device = static_cast<DeviceId>(Below(3));
    }
  }

  Call MadeUp(const OpDef& op) {
    Call call;
    call.op = &op;
    const int64_t n = static_cast<int64_t>(op.inputs.size());
    for (int64_t i = OneIn(10) ? Below(n + 2) : n; i > 0; --i) call.inputs.push_back(AnyArgument());
    for (const AttrDef& attr : op.attrs) call.attrs.push_back(Attr(attr.type));
    if (OneIn(20)) call.attrs.push_back(AttrValue(1));
    return call;
  }

  std::mt19937_64 random_;
};

// Bytes, if dimensions of 0 were 1: what is made of an array without elements may have some, or be
// refused as too large for one with them.
double Extent(const ArraySpec& spec) {
  auto bytes = static_cast<double>(ItemSize(spec.dtype));
  for (const int64_t dim : spec.shape) bytes *= static_cast<double>(std::max<int64_t>(dim, 1));
  return bytes;
}

// Beyond this a gradient may rightly be too large where the call itself is not.
bool IsHuge(const Call& call, const InferResult& inferred) {
  constexpr double kHuge = 1 << 30;
  for (const Argument& input : call.inputs) {
    if (input.array.has_value() && Extent(*input.array) > kHuge) return true;
  }
  for (const ArraySpec& output : inferred.outputs) {
    if (Extent(output) > kHuge) return true;
  }
  return false;
}

bool NamesTheOperator(const OpDef& op, absl::string_view message) {
  return absl::StartsWith(message, "[" + op.name + "] ") || absl::StrContains(message, "n-place") ||
         absl::StrContains(message, "inplace");
}

TEST(HostileTest, InferenceRefusesOrHolds) {
  const uint64_t seed = FromEnvironment("CHX_TEST_SEED", 20240607);
  const uint64_t rounds = FromEnvironment("CHX_TEST_ROUNDS", kSanitized ? 100 : 400);
  std::printf("CHX_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Hostile hostile(seed);
  for (const auto& op : OpRegistry::Global().ops()) {
    const std::vector<Call> samples = SampleCalls(*op);
    uint64_t accepted = 0;
    for (uint64_t i = 0; i < rounds; ++i) {
      const Call call = hostile.Mutate(*op, samples);
      InferResult inferred;
      const absl::Status status = Infer(call, &inferred);
      if (!status.ok()) {
        ASSERT_TRUE(NamesTheOperator(*op, status.message())) << status;
        continue;
      }
      ++accepted;
      const std::string wrong = CheckCall(call, inferred, 2);
      if (!IsHuge(call, inferred)) {
        ASSERT_EQ(wrong, "") << "seed " << seed;
      }
    }
    // A generator that never gets past the first checks would test nothing.
    if (rounds < 400) continue;
    EXPECT_GT(accepted, rounds / 20) << op->name;
    EXPECT_LT(accepted, rounds) << op->name;
  }
}

}  // namespace
}  // namespace chx
