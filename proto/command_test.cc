#include "proto/command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace chx {
namespace {

constexpr int kFirstKind = static_cast<int>(CommandKind::kApplyOp);
constexpr int kLastKind = static_cast<int>(kLastCommandKind);

// Commands of any kind with any contents; what a kind does not use stays as it was made.
class RandomCommands {
 public:
  explicit RandomCommands(uint32_t seed) : random_(seed) {}

  Command Make(CommandKind kind) {
    Command c;
    c.kind = kind;
    c.location = Bits32();
    c.device = static_cast<uint16_t>(random_());
    c.mode = static_cast<uint16_t>(random_());
    c.op = static_cast<uint16_t>(random_());
    for (int n = Count(5); n > 0; --n) c.operands.push_back(Operand());
    for (int n = Count(5); n > 0; --n) c.outputs.push_back(random_());
    if (kind == CommandKind::kApplyOp) {
      for (int n = Count(5); n > 0; --n) c.attrs.push_back(Attr());
      return c;
    }
    c.flags = static_cast<uint8_t>(random_());
    c.handle = random_();
    c.request_id = random_();
    c.backprop_id = Bits32();
    c.loss_scale = Double();
    for (int n = Count(12); n > 0; --n) c.handles.push_back(random_());
    c.num_outputs = static_cast<uint32_t>(Count(static_cast<int>(c.handles.size())));
    c.dtype = static_cast<Dtype>(Count(kNumDtypes - 1));
    for (int n = Count(12); n > 0; --n) c.shape.push_back(static_cast<int64_t>(random_()));
    for (int n = Count(3); n > 0; --n) c.mode_entries.push_back({Bits32(), Count(1) == 1});
    text_.resize(static_cast<size_t>(Count(40)));
    for (char& byte : text_) byte = static_cast<char>(random_());
    c.data = text_;
    return c;
  }
  int Count(int max) { return static_cast<int>(random_() % static_cast<uint64_t>(max + 1)); }

 private:
  uint32_t Bits32() { return static_cast<uint32_t>(random_()); }
  double Double() {  // infinities and NaNs too
    const uint64_t bits = random_();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  Scalar AnyScalar() {
    switch (Count(2)) {
      case 0:
        return Scalar(Count(1) == 1);
      case 1:
        return Scalar(static_cast<int64_t>(random_()));
      default:
        return Scalar(Double());
    }
  }
  CommandOperand Operand() {
    switch (Count(2)) {
      case 0:
        return CommandOperand();
      case 1:
        return CommandOperand(Handle{random_()});
      default:
        return CommandOperand(AnyScalar());
    }
  }
  AttrValue Attr() {
    Ints ints;
    for (int n = Count(9); n > 0; --n) ints.push_back(static_cast<int64_t>(random_()));
    switch (static_cast<AttrType>(Count(kNumAttrTypes - 1))) {
      case AttrType::kNone:
        return AttrValue();
      case AttrType::kBool:
        return AttrValue(Count(1) == 1);
      case AttrType::kInt:
        return AttrValue(static_cast<int64_t>(random_()));
      case AttrType::kFloat:
        return AttrValue(Double());
      case AttrType::kDtype:
        return AttrValue(static_cast<Dtype>(Count(kNumDtypes - 1)));
      case AttrType::kScalar:
        return AttrValue(AnyScalar());
      case AttrType::kInts:
        return AttrValue(ints);
      case AttrType::kIndex:
        break;
    }
    return AttrValue::Index(ints);
  }

  std::mt19937_64 random_;
  std::string text_;  // of the last command
};

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

bool Same(Scalar a, Scalar b) {
  if (a.kind() != b.kind()) return false;
  return a.is_float() ? SameBits(a.AsDouble(), b.AsDouble()) : a.AsInt() == b.AsInt();
}

bool Same(const CommandOperand& a, const CommandOperand& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == OperandKind::kAbsent) return true;
  return a.kind == OperandKind::kArray ? a.handle == b.handle : Same(a.scalar, b.scalar);
}

bool Same(const AttrValue& a, const AttrValue& b) {
  return a.type() == b.type() && a.ints() == b.ints() && Same(a.AsScalar(), b.AsScalar());
}

bool Same(const Command::ModeEntry& a, const Command::ModeEntry& b) {
  return a.backprop_id == b.backprop_id && a.record == b.record;
}

template <typename List>
bool SameLists(const List& a, const List& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i])) return false;
  }
  return true;
}

void ExpectSame(const Command& a, const Command& b) {
  ASSERT_EQ(static_cast<int>(a.kind), static_cast<int>(b.kind));
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.location, b.location);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.mode, b.mode);
  EXPECT_TRUE(SameLists(a.operands, b.operands));
  EXPECT_EQ(a.outputs, b.outputs);
  if (a.kind == CommandKind::kApplyOp) {
    EXPECT_TRUE(SameLists(a.attrs, b.attrs));
    return;
  }
  EXPECT_EQ(a.flags, b.flags);
  EXPECT_EQ(a.handle, b.handle);
  EXPECT_EQ(a.request_id, b.request_id);
  EXPECT_EQ(a.backprop_id, b.backprop_id);
  EXPECT_TRUE(SameBits(a.loss_scale, b.loss_scale));
  EXPECT_EQ(a.handles, b.handles);
  EXPECT_EQ(a.num_outputs, b.num_outputs);
  EXPECT_EQ(static_cast<int>(a.dtype), static_cast<int>(b.dtype));
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_TRUE(SameLists(a.mode_entries, b.mode_entries));
  EXPECT_EQ(a.data, b.data);
}

uint32_t NewSeed() {
  const uint32_t seed = std::random_device()();
  std::cout << "seed " << seed << std::endl;
  return seed;
}

// One record of each kind, and where each starts.
std::string BatchOfAllKinds(uint32_t seed, std::vector<size_t>* starts) {
  RandomCommands random(seed);
  std::string batch;
  CommandWriter writer(&batch);
  for (int kind = kFirstKind; kind <= kLastKind; ++kind) {
    starts->push_back(batch.size());
    writer.Write(random.Make(static_cast<CommandKind>(kind)));
  }
  return batch;
}

// Reads until the end or the first error.
absl::Status ReadAll(absl::string_view batch, int* count = nullptr) {
  CommandReader reader(batch);
  Command command;
  while (!reader.AtEnd()) {
    const absl::Status status = reader.Next(&command);
    if (!status.ok()) return status;
    if (count != nullptr) ++*count;
  }
  return absl::OkStatus();
}

TEST(Command, RoundTripOfEveryKind) {
  RandomCommands random(NewSeed());
  Command decoded;  // reused, as the daemon does
  for (int round = 0; round < 500; ++round) {
    const auto kind = static_cast<CommandKind>(kFirstKind + random.Count(kLastKind - kFirstKind));
    const Command command = random.Make(kind);
    std::string batch;
    CommandWriter(&batch).Write(command);
    EXPECT_EQ(batch.size() % 8, 0u);
    CommandReader reader(batch);
    const absl::Status status = reader.Next(&decoded);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(reader.AtEnd());
    ExpectSame(command, decoded);
  }
}

TEST(Command, SharedPlaces) {
  const absl::StatusOr<SharedPlace> place =
      DecodeSharedPlace(EncodeSharedPlace({UINT32_MAX, uint64_t{1} << 63}));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->segment, UINT32_MAX);
  EXPECT_EQ(place->offset, uint64_t{1} << 63);
  EXPECT_FALSE(DecodeSharedPlace("").ok());
  EXPECT_FALSE(DecodeSharedPlace(EncodeSharedPlace({1, 2}) + "x").ok());
  EXPECT_FALSE(DecodeSharedPlace(std::string(16, '\xff')).ok());
}

TEST(Command, SharedBlocks) {
  const SharedBlock block = {UINT32_MAX,        true, uint64_t{1} << 63,
                             uint64_t{1} << 40, -4,   Strides({-8, 4})};
  const std::string data = EncodeSharedBlock(block);
  const absl::StatusOr<SharedBlock> decoded = DecodeSharedBlock(data);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->segment, block.segment);
  EXPECT_EQ(decoded->copied, block.copied);
  EXPECT_EQ(decoded->offset, block.offset);
  EXPECT_EQ(decoded->bytes, block.bytes);
  EXPECT_EQ(decoded->array_offset, block.array_offset);
  EXPECT_EQ(decoded->strides, block.strides);
  EXPECT_FALSE(DecodeSharedBlock("").ok());
  EXPECT_FALSE(DecodeSharedBlock(data + "x").ok());
  EXPECT_FALSE(DecodeSharedBlock(data + std::string(8 * kMaxNdim, 'x')).ok());
  EXPECT_FALSE(DecodeSharedBlock(std::string(32, '\xff')).ok());
}

TEST(Command, TruncationAtEveryByteIsAnErrorAtThatRecord) {
  std::vector<size_t> starts;
  const std::string batch = BatchOfAllKinds(NewSeed(), &starts);
  for (size_t size = 0; size < batch.size(); ++size) {
    size_t complete = 0;
    while (complete + 1 < starts.size() && starts[complete + 1] <= size) ++complete;
    int count = 0;
    // A copy of its own, so that reading beyond it is found by AddressSanitizer.
    const std::vector<char> cut(batch.begin(), batch.begin() + static_cast<ptrdiff_t>(size));
    const absl::Status status = ReadAll(absl::string_view(cut.data(), cut.size()), &count);
    EXPECT_EQ(count, static_cast<int>(complete)) << size;
    if (size == starts[complete]) {
      EXPECT_TRUE(status.ok()) << size << ": " << status;
    } else {
      EXPECT_TRUE(absl::EndsWith(status.message(), absl::StrCat(" at byte ", starts[complete])))
          << size << ": " << status;
    }
  }
}

TEST(Command, FlippedBitsAreReadOrNameAPlace) {
  std::vector<size_t> starts;
  std::string batch = BatchOfAllKinds(NewSeed(), &starts);
  int errors = 0;
  for (size_t bit = 0; bit < batch.size() * 8; ++bit) {
    batch[bit / 8] = static_cast<char>(batch[bit / 8] ^ (1 << (bit % 8)));
    const absl::Status status = ReadAll(batch);
    if (!status.ok()) {
      ++errors;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(absl::StrContains(status.message(), " at byte ")) << status;
    }
    batch[bit / 8] = static_cast<char>(batch[bit / 8] ^ (1 << (bit % 8)));
  }
  EXPECT_GT(errors, 0);
  EXPECT_TRUE(ReadAll(batch).ok());
}

TEST(Command, RandomBytesAreAnError) {
  std::mt19937_64 random(NewSeed());
  for (int round = 0; round < 2000; ++round) {
    std::vector<char> bytes(1 + random() % 200);
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (bytes.size() >= 8) {  // a credible header, so that the contents are looked at
      const uint32_t size = static_cast<uint32_t>(bytes.size() / 8 * 8);
      std::memcpy(bytes.data(), &size, sizeof(size));
      bytes[4] = static_cast<char>(kFirstKind + random() % kLastKind);
    }
    ReadAll(absl::string_view(bytes.data(), bytes.size())).IgnoreError();
  }
  EXPECT_FALSE(ReadAll("seven..").ok());
  EXPECT_FALSE(ReadAll(std::string(8, '\0')).ok());
}

TEST(Command, LongReleasesAreSplit) {
  std::vector<Handle> handles;
  for (Handle handle = 1; handle <= 70000; ++handle) handles.push_back(handle);
  std::string batch;
  CommandWriter(&batch).Release(handles);
  std::vector<Handle> read;
  CommandReader reader(batch);
  Command command;
  while (!reader.AtEnd()) {
    ASSERT_TRUE(reader.Next(&command).ok());
    read.insert(read.end(), command.handles.begin(), command.handles.end());
  }
  EXPECT_EQ(read, handles);
}

TEST(Command, AbsentAttributesDoNotTakeAHundredTimesTheirSize) {
  const std::vector<AttrValue> attrs(60000);
  std::string batch;
  CommandWriter(&batch).ApplyOp(1, 0, 0, 0, {}, attrs, {});
  EXPECT_FALSE(ReadAll(batch).ok());
}

// Not a check: a shared machine's speed is nobody's fault. 2 to 9 ns were measured on an idle one.
TEST(Command, Speed) {
  constexpr int kCommands = 1 << 16;
  using Clock = std::chrono::steady_clock;
  const auto ns = [](Clock::duration time) {
    return std::chrono::duration<double, std::nano>(time).count() / kCommands;
  };
  std::string batch;
  double encode = 1e9, decode = 1e9;
  for (int round = 0; round < 5; ++round) {
    batch.clear();
    CommandWriter writer(&batch);
    auto start = Clock::now();
    for (Handle handle = 3; handle < kCommands + 3; ++handle) {
      const CommandOperand inputs[] = {CommandOperand(handle - 1), CommandOperand(handle - 2)};
      writer.ApplyOp(7, 0, 0, 0, inputs, {}, {&handle, 1});
    }
    encode = std::min(encode, ns(Clock::now() - start));
    start = Clock::now();
    int count = 0;
    ASSERT_TRUE(ReadAll(batch, &count).ok());
    decode = std::min(decode, ns(Clock::now() - start));
    EXPECT_EQ(count, kCommands);
  }
  std::cout << "a binary operator: " << batch.size() / kCommands << " bytes, encoded in " << encode
            << " ns, decoded in " << decode << " ns" << std::endl;
}

}  // namespace
}  // namespace chx
