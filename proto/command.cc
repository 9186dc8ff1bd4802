#include "proto/command.h"

#include <cstring>

#include "ops/error.h"

namespace chx {
namespace {

struct RecordHeader {
  uint32_t size;
  uint8_t kind;
  uint8_t flags;
  uint16_t op;
};
static_assert(sizeof(RecordHeader) == 8, "records are made of 8-byte words");

constexpr size_t kWord = 8;
constexpr int kMaxAttrs = 64;  // more than any operator has
constexpr size_t RoundUp(size_t n) { return (n + kWord - 1) / kWord * kWord; }

// Fixed part of an ApplyOp record, after the header.
struct ApplyOpFixed {
  uint32_t location;
  uint16_t device;
  uint16_t mode;
  uint16_t num_inputs;
  uint16_t num_outputs;
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

// A scalar attribute's tag also says its kind.
uint8_t AttrTag(const AttrValue& attr) {
  const uint8_t type = static_cast<uint8_t>(attr.type());
  if (attr.type() != AttrType::kScalar) return type;
  return static_cast<uint8_t>(type | (static_cast<uint8_t>(attr.AsScalar().kind()) << 4));
}

}  // namespace

void CommandWriter::ApplyOp(uint16_t op, uint16_t device, uint16_t mode, uint32_t location,
                            absl::Span<const CommandOperand> inputs,
                            absl::Span<const AttrValue> attrs, absl::Span<const Handle> outputs) {
  const size_t tags = RoundUp(inputs.size() + attrs.size());
  size_t size =
      sizeof(RecordHeader) + sizeof(ApplyOpFixed) + tags + (inputs.size() + outputs.size()) * kWord;
  for (const AttrValue& attr : attrs) size += AttrSize(attr);
  const size_t start = out_->size();
  out_->resize(start + size);  // zeroes the padding
  Cursor cursor(&(*out_)[start]);
  cursor.Struct(RecordHeader{static_cast<uint32_t>(size),
                             static_cast<uint8_t>(CommandKind::kApplyOp), 0, op});
  cursor.Struct(ApplyOpFixed{location, device, mode, static_cast<uint16_t>(inputs.size()),
                             static_cast<uint16_t>(outputs.size()),
                             static_cast<uint16_t>(attrs.size()), 0});
  char* tag = cursor.Skip(tags);
  for (const CommandOperand& input : inputs) {
    *tag++ = static_cast<char>(input.kind);
    cursor.Word(input.kind == OperandKind::kArray ? input.handle : Bits(input.scalar));
  }
  for (Handle output : outputs) cursor.Word(output);
  for (const AttrValue& attr : attrs) {
    *tag++ = static_cast<char>(AttrTag(attr));
    WriteAttr(attr, &cursor);
  }
}

namespace {

// Words of the general layout, which every kind but kApplyOp has after its header:
// {handle, request_id, backprop_id | dtype << 32 | device << 48, location | num_outputs << 32,
//  loss_scale, counts: operands | outputs | handles | shape (16 bits each), mode entries | mode,
//  data size}, then the lists, then the data, padded.
constexpr size_t kGeneralWords = 8;
constexpr size_t kMaxCount = 65535;

}  // namespace

void CommandWriter::Write(const Command& c) {
  if (c.kind == CommandKind::kApplyOp) {
    return ApplyOp(c.op, c.device, c.mode, c.location, c.operands, c.attrs, c.outputs);
  }
  const size_t size = sizeof(RecordHeader) +
                      kWord * (kGeneralWords + 2 * c.operands.size() + c.outputs.size() +
                               c.handles.size() + c.shape.size() + c.mode_entries.size()) +
                      RoundUp(c.data.size());
  const size_t start = out_->size();
  out_->resize(start + size);
  Cursor cursor(&(*out_)[start]);
  cursor.Struct(
      RecordHeader{static_cast<uint32_t>(size), static_cast<uint8_t>(c.kind), c.flags, c.op});
  cursor.Word(c.handle);
  cursor.Word(c.request_id);
  cursor.Word(c.backprop_id | static_cast<uint64_t>(c.dtype) << 32 |
              static_cast<uint64_t>(c.device) << 48);
  cursor.Word(c.location | static_cast<uint64_t>(c.num_outputs) << 32);
  cursor.Word(Bits(Scalar(c.loss_scale)));
  cursor.Word(c.operands.size() | c.outputs.size() << 16 | c.handles.size() << 32 |
              static_cast<uint64_t>(c.shape.size()) << 48);
  cursor.Word(c.mode_entries.size() | static_cast<uint64_t>(c.mode) << 16);
  cursor.Word(c.data.size());
  for (const CommandOperand& operand : c.operands) {
    cursor.Word(static_cast<uint64_t>(operand.kind));
    cursor.Word(operand.kind == OperandKind::kArray ? operand.handle : Bits(operand.scalar));
  }
  for (Handle output : c.outputs) cursor.Word(output);
  for (Handle handle : c.handles) cursor.Word(handle);
  for (int64_t dim : c.shape) cursor.Word(static_cast<uint64_t>(dim));
  for (const Command::ModeEntry& entry : c.mode_entries) {
    cursor.Word(entry.backprop_id | static_cast<uint64_t>(entry.record) << 32);
  }
  // memcpy may not get a null pointer.
  if (!c.data.empty()) std::memcpy(cursor.Skip(c.data.size()), c.data.data(), c.data.size());
}

void CommandWriter::Release(absl::Span<const Handle> handles) {
  while (!handles.empty()) {
    const absl::Span<const Handle> part = handles.subspan(0, kMaxCount);
    Command command;
    command.kind = CommandKind::kRelease;
    command.handles.assign(part.begin(), part.end());
    Write(command);
    handles.remove_prefix(part.size());
  }
}

void CommandWriter::Upload(Handle handle, Dtype dtype, uint16_t device,
                           absl::Span<const int64_t> shape, absl::string_view data) {
  Command command;
  command.kind = CommandKind::kUpload;
  command.handle = handle;
  command.dtype = dtype;
  command.device = device;
  command.shape.assign(shape.begin(), shape.end());
  command.data = data;
  Write(command);
}

void CommandWriter::Fetch(uint64_t request_id, Handle handle) {
  Command command;
  command.kind = CommandKind::kFetch;
  command.request_id = request_id;
  command.handle = handle;
  Write(command);
}

void CommandWriter::Barrier(uint64_t request_id) {
  Command command;
  command.kind = CommandKind::kBarrier;
  command.request_id = request_id;
  Write(command);
}

void CommandWriter::DefineLocation(uint32_t location, absl::string_view text) {
  Command command;
  command.kind = CommandKind::kDefineLocation;
  command.location = location;
  command.data = text;
  Write(command);
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

bool DecodeOperand(uint64_t tag, uint64_t word, CommandOperand* operand) {
  if (tag > static_cast<uint64_t>(OperandKind::kFloat)) return false;
  operand->kind = static_cast<OperandKind>(tag);
  operand->handle = 0;
  if (operand->kind == OperandKind::kArray) {
    operand->handle = word;
  } else if (operand->kind != OperandKind::kAbsent) {
    operand->scalar = FromBits(static_cast<ScalarKind>(tag - 2), word);
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

bool DecodeApplyOp(Words* words, Command* c) {
  ApplyOpFixed fixed;
  const absl::string_view bytes = words->Bytes(sizeof(fixed));
  if (!words->ok()) return false;
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  c->location = fixed.location;
  c->device = fixed.device;
  c->mode = fixed.mode;
  const absl::string_view tags = words->Bytes(RoundUp(size_t{fixed.num_inputs} + fixed.num_attrs));
  if (!words->Has(size_t{fixed.num_inputs} + fixed.num_outputs)) return false;
  c->operands.resize(fixed.num_inputs);
  for (int i = 0; i < fixed.num_inputs; ++i) {
    if (!DecodeOperand(static_cast<uint8_t>(tags[i]), words->Next(), &c->operands[i])) return false;
  }
  c->outputs.resize(fixed.num_outputs);
  for (Handle& output : c->outputs) output = words->Next();
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

bool DecodeGeneral(Words* words, Command* c) {
  c->handle = words->Next();
  c->request_id = words->Next();
  const uint64_t ids = words->Next();
  c->backprop_id = static_cast<BackpropId>(ids);
  const uint64_t dtype = (ids >> 32) & 0xffff;
  if (dtype >= kNumDtypes) return false;
  c->dtype = static_cast<Dtype>(dtype);
  c->device = static_cast<uint16_t>(ids >> 48);
  const uint64_t places = words->Next();
  c->location = static_cast<uint32_t>(places);
  c->num_outputs = static_cast<uint32_t>(places >> 32);
  c->loss_scale = FromBits(ScalarKind::kFloat, words->Next()).AsDouble();
  const uint64_t counts = words->Next();
  const uint64_t operands = counts & 0xffff;
  const uint64_t outputs = (counts >> 16) & 0xffff;
  const uint64_t handles = (counts >> 32) & 0xffff;
  const uint64_t dims = counts >> 48;
  const uint64_t modes = words->Next();
  const uint64_t mode_entries = modes & 0xffff;
  c->mode = static_cast<uint16_t>(modes >> 16);
  const uint64_t data_size = words->Next();
  if (!words->Has(2 * operands + outputs + handles + dims + mode_entries)) return false;
  c->operands.resize(operands);
  for (CommandOperand& operand : c->operands) {
    const uint64_t tag = words->Next();
    if (!DecodeOperand(tag, words->Next(), &operand)) return false;
  }
  c->outputs.resize(outputs);
  for (Handle& output : c->outputs) output = words->Next();
  c->handles.resize(handles);
  for (Handle& handle : c->handles) handle = words->Next();
  c->shape.resize(dims);
  for (int64_t& dim : c->shape) dim = static_cast<int64_t>(words->Next());
  c->mode_entries.resize(mode_entries);
  for (Command::ModeEntry& entry : c->mode_entries) {
    const uint64_t word = words->Next();
    entry = {static_cast<BackpropId>(word), ((word >> 32) & 1) != 0};
  }
  if (data_size > UINT32_MAX) return false;
  c->data = words->Bytes(data_size);
  words->Bytes(RoundUp(data_size) - data_size);
  return words->ok() && c->num_outputs <= c->handles.size();
}

}  // namespace

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
  if (header.kind < static_cast<uint8_t>(CommandKind::kApplyOp) ||
      header.kind > static_cast<uint8_t>(kLastCommandKind)) {
    return malformed(absl::StrCat("record kind ", header.kind));
  }
  command->kind = static_cast<CommandKind>(header.kind);
  command->flags = header.flags;
  command->op = header.op;
  Words words(batch_.substr(position_ + sizeof(header), header.size - sizeof(header)));
  const bool ok = command->kind == CommandKind::kApplyOp ? DecodeApplyOp(&words, command)
                                                         : DecodeGeneral(&words, command);
  if (!ok || !words.ok() || !words.at_end()) {
    return malformed(absl::StrCat("a record of kind ", header.kind, " with bad contents"));
  }
  position_ += header.size;
  return absl::OkStatus();
}

}  // namespace chx
