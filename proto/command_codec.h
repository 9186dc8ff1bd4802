// The encoding of commands: records packed back to back, each a multiple of 8 bytes.
//
// A record is a header {u32 size, u8 kind, u8 zero, u16 op} followed by 8-byte words; size counts
// the header. Little-endian, as every machine that chxd runs on. ApplyOp has a compact layout of
// its own. Of the other kinds each field takes a word, in the order of Fields(): a number or a flag
// its value, a list or a text its length and then its contents, padded.
#ifndef CHX_PROTO_COMMAND_CODEC_H_
#define CHX_PROTO_COMMAND_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/command.h"

namespace chx {

// Appends records to a string.
class CommandWriter {
 public:
  static constexpr size_t kMaxCount = 65535;  // of one operator's inputs, or in one list

  // As command::ApplyOp, with its lists elsewhere.
  struct OperatorRecord {
    uint16_t op;
    uint16_t device;
    uint16_t mode;
    uint32_t location;
    absl::Span<const HandleOperand> inputs;
    absl::Span<const AttrValue> attrs;
    absl::Span<const Handle> results;
  };

  explicit CommandWriter(std::string* out) : out_(out) {}

  // The hot path: needs no ApplyOp to be filled.
  void ApplyOp(const OperatorRecord& call);
  // Any number of handles, in several records where one cannot hold them.
  void Release(absl::Span<const Handle> handles);
  void Write(const Command& command);

 private:
  std::string* const out_;
};

// Reads the records of one batch. After an error, which names the byte offset, the rest of the
// batch cannot be read.
class CommandReader {
 public:
  explicit CommandReader(absl::string_view batch) : batch_(batch) {}
  bool AtEnd() const { return position_ == batch_.size(); }
  // Checks structure only: kinds, sizes, counts, tags, ranges of numbers. Handles, ids, shapes and
  // dtypes of arrays are the session's to check. A command of the same kind keeps its lists'
  // memory, so that decoding into commands that are used again rarely allocates.
  absl::Status Next(Command* command);

 private:
  const absl::string_view batch_;
  size_t position_ = 0;
};

// What a command has allocated beside itself, in bytes.
size_t HeapBytes(const Command& command);

}  // namespace chx

#endif  // CHX_PROTO_COMMAND_CODEC_H_
