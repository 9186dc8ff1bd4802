#include "proto/command_codec.h"

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx {
namespace {

// A kind's number on the wire: its position in Command, from 1.
template <typename C, size_t i = 0>
constexpr uint8_t KindNumber() {
  if constexpr (std::is_same_v<C, std::variant_alternative_t<i, CommandVariant>>) {
    return static_cast<uint8_t>(i + 1);
  } else {
    return KindNumber<C, i + 1>();
  }
}

struct RecordHeader {
  uint32_t size;
  uint8_t kind;
  uint8_t reserved;
  uint16_t op;
};
static_assert(sizeof(RecordHeader) == 8, "records are made of 8-byte words");

constexpr size_t kWord = 8;
constexpr int kMaxAttrs = 64;  // more than any operator has
constexpr size_t kMaxCount = CommandWriter::kMaxCount;
constexpr size_t RoundUp(size_t n) { return (n + kWord - 1) / kWord * kWord; }

// Fixed part of an ApplyOp record, after the header.
struct ApplyOpFixed {
  uint32_t location;
  uint16_t device;
  uint16_t mode;
  uint16_t num_inputs;
  uint16_t num_results;
  uint16_t num_attrs;
  uint16_t reserved;
};
static_assert(sizeof(ApplyOpFixed) == 16, "");

uint64_t Bits(Scalar scalar) {
  uint64_t bits = 0;
  if (scalar.is_float()) {
    const double value = scalar.AsDouble();
    std::memcpy(&bits, &value, sizeof(bits));
  } else {
    bits = static_cast<uint64_t>(scalar.AsInt());
  }
  return bits;
}

Scalar FromBits(ScalarKind kind, uint64_t bits) {
  switch (kind) {
    case ScalarKind::kBool:
      return Scalar(bits != 0);
    case ScalarKind::kInt:
      return Scalar(static_cast<int64_t>(bits));
    case ScalarKind::kFloat:
      break;
  }
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return Scalar(value);
}

// Writes words into memory that is known to be large enough.
class Cursor {
 public:
  explicit Cursor(char* at) : at_(at) {}
  void Word(uint64_t value) {
    std::memcpy(at_, &value, kWord);
    at_ += kWord;
  }
  template <typename T>
  void Struct(const T& value) {
    std::memcpy(at_, &value, sizeof(T));
    at_ += sizeof(T);
  }
  char* Skip(size_t bytes) {
    char* start = at_;
    at_ += bytes;
    return start;
  }

 private:
  char* at_;
};

size_t AttrSize(const AttrValue& attr) {
  switch (attr.type()) {
    case AttrType::kNone:
      return 0;
    case AttrType::kInts:
    case AttrType::kIndex:
      return (1 + attr.ints().size()) * kWord;
    default:
      return kWord;
  }
}

void WriteAttr(const AttrValue& attr, Cursor* cursor) {
  switch (attr.type()) {
    case AttrType::kNone:
      return;
    case AttrType::kInts:
    case AttrType::kIndex:
      cursor->Word(attr.ints().size());
      for (int64_t value : attr.ints()) cursor->Word(static_cast<uint64_t>(value));
      return;
    default:
      cursor->Word(Bits(attr.AsScalar()));
  }
}

// What an input of an operator is; a scalar's tag says its kind.
constexpr uint8_t kAbsentTag = 0;
constexpr uint8_t kArrayTag = 1;
constexpr uint8_t kFirstScalarTag = 2;
constexpr uint8_t kLastScalarTag = kFirstScalarTag + static_cast<uint8_t>(ScalarKind::kFloat);

uint8_t OperandTag(const HandleOperand& operand) {
  if (operand.is_array()) return kArrayTag;
  if (operand.absent()) return kAbsentTag;
  return static_cast<uint8_t>(kFirstScalarTag + static_cast<uint8_t>(operand.scalar().kind()));
}

// A scalar attribute's tag also says its kind.
uint8_t AttrTag(const AttrValue& attr) {
  const uint8_t type = static_cast<uint8_t>(attr.type());
  if (attr.type() != AttrType::kScalar) return type;
  return static_cast<uint8_t>(type | (static_cast<uint8_t>(attr.AsScalar().kind()) << 4));
}

}  // namespace

void CommandWriter::ApplyOp(const OperatorRecord& call) {
  const size_t tags = RoundUp(call.inputs.size() + call.attrs.size());
  size_t size = sizeof(RecordHeader) + sizeof(ApplyOpFixed) + tags +
                (call.inputs.size() + call.results.size()) * kWord;
  for (const AttrValue& attr : call.attrs) size += AttrSize(attr);
  const size_t start = out_->size();
  out_->resize(start + size);  // zeroes the padding
  Cursor cursor(&(*out_)[start]);
  cursor.Struct(
      RecordHeader{static_cast<uint32_t>(size), KindNumber<command::ApplyOp>(), 0, call.op});
  cursor.Struct(ApplyOpFixed{
      call.location, call.device, call.mode, static_cast<uint16_t>(call.inputs.size()),
      static_cast<uint16_t>(call.results.size()), static_cast<uint16_t>(call.attrs.size()), 0});
  char* tag = cursor.Skip(tags);
  for (const HandleOperand& input : call.inputs) {
    *tag++ = static_cast<char>(OperandTag(input));
    cursor.Word(input.is_array() ? input.array() : Bits(input.scalar()));
  }
  for (Handle result : call.results) cursor.Word(result);
  for (const AttrValue& attr : call.attrs) {
    *tag++ = static_cast<char>(AttrTag(attr));
    WriteAttr(attr, &cursor);
  }
}

namespace {

// How many bytes a field of the general layout takes.
template <typename T>
size_t FieldSize(const T& /*number*/) {
  return kWord;
}
template <typename T, size_t n>
size_t FieldSize(const absl::InlinedVector<T, n>& list) {
  return (1 + list.size()) * kWord;
}
size_t FieldSize(absl::string_view text) { return kWord + RoundUp(text.size()); }
size_t FieldSize(Scalar /*value*/) { return 2 * kWord; }

uint64_t WordOf(double value) { return Bits(Scalar(value)); }
uint64_t WordOf(const ModeEntry& entry) {
  return entry.backprop_id | static_cast<uint64_t>(entry.record) << 32;
}
template <typename T>
uint64_t WordOf(T number) {
  return static_cast<uint64_t>(number);
}

template <typename T>
void WriteField(const T& number, Cursor* cursor) {
  cursor->Word(WordOf(number));
}
template <typename T, size_t n>
void WriteField(const absl::InlinedVector<T, n>& list, Cursor* cursor) {
  cursor->Word(list.size());
  for (const T& element : list) cursor->Word(WordOf(element));
}
void WriteField(absl::string_view text, Cursor* cursor) {
  cursor->Word(text.size());
  // memcpy may not get a null pointer. The padding is there, as zeroes.
  if (!text.empty()) std::memcpy(cursor->Skip(RoundUp(text.size())), text.data(), text.size());
}
void WriteField(Scalar value, Cursor* cursor) {
  cursor->Word(static_cast<uint64_t>(value.kind()));
  cursor->Word(Bits(value));
}

template <typename C>
void WriteRecord(const C& command, std::string* out) {
  const auto size_of = [](const auto&... fields) {
    return (sizeof(RecordHeader) + ... + FieldSize(fields));
  };
  const size_t size = std::apply(size_of, command.Fields());
  const size_t start = out->size();
  out->resize(start + size);
  Cursor cursor(&(*out)[start]);
  cursor.Struct(RecordHeader{static_cast<uint32_t>(size), KindNumber<C>(), 0, 0});
  std::apply([&](const auto&... fields) { (WriteField(fields, &cursor), ...); }, command.Fields());
}

}  // namespace

void CommandWriter::Write(const Command& command) {
  const auto write = [this](const auto& c) {
    if constexpr (std::is_same_v<decltype(c), const command::ApplyOp&>) {
      ApplyOp({c.op, c.device, c.mode, c.location, c.inputs, c.attrs, c.results});
    } else {
      WriteRecord(c, out_);
    }
  };
  std::visit(write, command);
}

void CommandWriter::Release(absl::Span<const Handle> handles) {
  while (!handles.empty()) {
    const absl::Span<const Handle> part = handles.subspan(0, kMaxCount);
    // As WriteRecord, without a list to be filled: operators and releases alternate.
    const size_t size = sizeof(RecordHeader) + (1 + part.size()) * kWord;
    const size_t start = out_->size();
    out_->resize(start + size);
    Cursor cursor(&(*out_)[start]);
    cursor.Struct(RecordHeader{static_cast<uint32_t>(size), KindNumber<command::Release>(), 0, 0});
    cursor.Word(part.size());
    for (Handle handle : part) cursor.Word(handle);
    handles.remove_prefix(part.size());
  }
}

namespace {

// Reads words from one record; running over its end is remembered, not undefined.
class Words {
 public:
  explicit Words(absl::string_view record) : record_(record) {}
  uint64_t Next() {
    uint64_t value = 0;
    if (record_.size() < kWord) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, record_.data(), kWord);
    record_.remove_prefix(kWord);
    return value;
  }
  absl::string_view Bytes(size_t n) {
    if (record_.size() < n) {
      ok_ = false;
      return {};
    }
    absl::string_view bytes = record_.substr(0, n);
    record_.remove_prefix(n);
    return bytes;
  }
  // Room for n more words; guards loops over counts from the wire.
  bool Has(uint64_t n) {
    if (n > record_.size() / kWord) ok_ = false;
    return ok_;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return record_.empty(); }

 private:
  absl::string_view record_;
  bool ok_ = true;
};

bool DecodeOperand(uint8_t tag, uint64_t word, HandleOperand* operand) {
  if (tag > kLastScalarTag) return false;
  if (tag == kArrayTag) {
    *operand = HandleOperand(Handle{word});
  } else if (tag == kAbsentTag) {
    *operand = HandleOperand();
  } else {
    *operand = HandleOperand(FromBits(static_cast<ScalarKind>(tag - kFirstScalarTag), word));
  }
  return true;
}

bool DecodeAttr(uint8_t tag, Words* words, AttrValue* attr) {
  const int scalar_kind = tag >> 4;
  const int type = tag & 15;
  if (type >= kNumAttrTypes || scalar_kind > 2) return false;
  if (scalar_kind != 0 && type != static_cast<int>(AttrType::kScalar)) return false;
  switch (static_cast<AttrType>(type)) {
    case AttrType::kNone:
      *attr = AttrValue();
      return true;
    case AttrType::kBool:
      *attr = AttrValue(words->Next() != 0);
      return true;
    case AttrType::kInt:
      *attr = AttrValue(static_cast<int64_t>(words->Next()));
      return true;
    case AttrType::kFloat:
      *attr = AttrValue(FromBits(ScalarKind::kFloat, words->Next()).AsDouble());
      return true;
    case AttrType::kDtype: {
      const uint64_t dtype = words->Next();
      if (dtype >= kNumDtypes) return false;
      *attr = AttrValue(static_cast<Dtype>(dtype));
      return true;
    }
    case AttrType::kScalar:
      *attr = AttrValue(FromBits(static_cast<ScalarKind>(scalar_kind), words->Next()));
      return true;
    case AttrType::kInts:
    case AttrType::kIndex:
      break;
  }
  const uint64_t count = words->Next();
  if (count > kMaxCount || !words->Has(count)) return false;
  Ints ints;
  ints.reserve(count);
  for (uint64_t i = 0; i < count; ++i) ints.push_back(static_cast<int64_t>(words->Next()));
  *attr = AttrValue(std::move(ints));
  if (type == static_cast<int>(AttrType::kIndex)) *attr = AttrValue::Index(attr->ints());
  return true;
}

bool DecodeFields(Words* words, uint16_t op, command::ApplyOp* c) {
  ApplyOpFixed fixed;
  const absl::string_view bytes = words->Bytes(sizeof(fixed));
  if (!words->ok()) return false;
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (fixed.reserved != 0) return false;
  c->op = op;
  c->location = fixed.location;
  c->device = fixed.device;
  c->mode = fixed.mode;
  const absl::string_view tags = words->Bytes(RoundUp(size_t{fixed.num_inputs} + fixed.num_attrs));
  if (!words->Has(size_t{fixed.num_inputs} + fixed.num_results)) return false;
  c->inputs.resize(fixed.num_inputs);
  for (int i = 0; i < fixed.num_inputs; ++i) {
    if (!DecodeOperand(static_cast<uint8_t>(tags[i]), words->Next(), &c->inputs[i])) return false;
  }
  c->results.resize(fixed.num_results);
  for (Handle& result : c->results) result = words->Next();
  // An absent attribute takes one byte here and a hundred in memory.
  if (fixed.num_attrs > kMaxAttrs) return false;
  c->attrs.resize(fixed.num_attrs);
  for (int i = 0; i < fixed.num_attrs; ++i) {
    if (!DecodeAttr(static_cast<uint8_t>(tags[fixed.num_inputs + i]), words, &c->attrs[i])) {
      return false;
    }
  }
  return true;
}

// A number that fits into its type.
template <typename T>
bool FromWord(uint64_t word, T* number) {
  *number = static_cast<T>(word);
  return static_cast<uint64_t>(*number) == word;
}
bool FromWord(uint64_t word, bool* flag) {
  *flag = word != 0;
  return word <= 1;
}
bool FromWord(uint64_t word, double* value) {
  *value = FromBits(ScalarKind::kFloat, word).AsDouble();
  return true;
}
bool FromWord(uint64_t word, Dtype* dtype) {
  *dtype = static_cast<Dtype>(word);
  return word < kNumDtypes;
}
bool FromWord(uint64_t word, ModeEntry* entry) {
  entry->backprop_id = static_cast<BackpropId>(word);
  return FromWord(word >> 32, &entry->record);
}

template <typename T>
bool DecodeField(Words* words, T* number) {
  return FromWord(words->Next(), number);
}
template <typename T, size_t n>
bool DecodeField(Words* words, absl::InlinedVector<T, n>* list) {
  const uint64_t count = words->Next();
  if (count > kMaxCount || !words->Has(count)) return false;
  list->resize(count);
  for (T& element : *list) {
    if (!FromWord(words->Next(), &element)) return false;
  }
  return true;
}
bool DecodeField(Words* words, absl::string_view* text) {
  const uint64_t size = words->Next();
  if (size > std::numeric_limits<uint32_t>::max()) return false;
  *text = words->Bytes(size);
  words->Bytes(RoundUp(size) - size);
  return true;
}
bool DecodeField(Words* words, Scalar* value) {
  const uint64_t kind = words->Next();
  if (kind > static_cast<uint64_t>(ScalarKind::kFloat)) return false;
  *value = FromBits(static_cast<ScalarKind>(kind), words->Next());
  return true;
}

template <typename C>
bool DecodeFields(Words* words, uint16_t op, C* c) {
  if (op != 0) return false;
  return std::apply([words](auto&... fields) { return (DecodeField(words, &fields) && ...); },
                    c->Fields());
}

template <typename C>
bool DecodeAs(Words* words, uint16_t op, Command* command) {
  C* c = std::get_if<C>(command);
  if (c == nullptr) c = &command->emplace<C>();
  return DecodeFields(words, op, c);
}

using Decoder = bool (*)(Words* words, uint16_t op, Command* command);
template <size_t... i>
constexpr std::array<Decoder, kNumCommandKinds> MakeDecoders(std::index_sequence<i...> /*kinds*/) {
  return {DecodeAs<std::variant_alternative_t<i, CommandVariant>>...};
}
constexpr auto kDecoders = MakeDecoders(std::make_index_sequence<kNumCommandKinds>());

template <typename T>
size_t HeapBytesOf(const T& /*number*/) {
  return 0;
}
template <typename T, size_t n>
size_t HeapBytesOf(const absl::InlinedVector<T, n>& list) {
  return list.capacity() > n ? list.capacity() * sizeof(T) : 0;
}

size_t HeapBytesOf(const Attrs& attrs) {
  size_t bytes = attrs.capacity() > Attrs().capacity() ? attrs.capacity() * sizeof(AttrValue) : 0;
  for (const AttrValue& attr : attrs) bytes += HeapBytesOf(attr.ints());
  return bytes;
}

}  // namespace

size_t HeapBytes(const Command& command) {
  const auto heap_bytes = [](const auto&... fields) {
    return (size_t{0} + ... + HeapBytesOf(fields));
  };
  return std::visit([&](const auto& c) { return std::apply(heap_bytes, c.Fields()); }, command);
}

absl::Status CommandReader::Next(Command* command) {
  const auto malformed = [this](absl::string_view what) {
    return ValueError("[commands] expects well-formed records, got ", what, " at byte ", position_);
  };
  RecordHeader header;
  if (batch_.size() - position_ < sizeof(header)) return malformed("a cut header");
  std::memcpy(&header, batch_.data() + position_, sizeof(header));
  if (header.size < sizeof(header) || header.size % kWord != 0 ||
      header.size > batch_.size() - position_) {
    return malformed(absl::StrCat("record size ", header.size));
  }
  if (header.reserved != 0) return malformed("a reserved byte that is not 0");
  if (header.kind == 0 || header.kind > kNumCommandKinds) {
    return malformed(absl::StrCat("record kind ", header.kind));
  }
  Words words(batch_.substr(position_ + sizeof(header), header.size - sizeof(header)));
  const bool ok = kDecoders[header.kind - 1](&words, header.op, command);
  if (!ok || !words.ok() || !words.at_end()) {
    return malformed(absl::StrCat("a record of kind ", header.kind, " with bad contents"));
  }
  position_ += header.size;
  return absl::OkStatus();
}

}  // namespace chx
