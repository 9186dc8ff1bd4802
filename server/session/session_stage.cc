// Values that pass through an array in shared memory on their way from and to the client, in the
// order of its commands. The client writes and reads that array at any time.
#include <string>
#include <utility>

#include "ops/error.h"
#include "server/session/session.h"

namespace chx {
namespace {

// Enough for any element, and a line of the cache.
constexpr int64_t kStageAlignment = 64;

absl::StatusOr<int64_t> BytesIn(const CommandOperand& operand) {
  if (operand.kind != OperandKind::kInt || operand.scalar.AsInt() < 0) {
    return ValueError("[stage] expects numbers of bytes, got another operand");
  }
  return operand.scalar.AsInt();
}

}  // namespace

absl::StatusOr<char*> Session::StageOf(const Command& command, int64_t bytes) {
  if (command.operands.size() < 2 || command.operands[0].kind != OperandKind::kArray) {
    return ValueError("[stage] expects an array and a number, got ", command.operands.size(),
                      " operands");
  }
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, Read(command.operands[0].handle));
  const Array& stage = variable->array;
  if (!stage.buffer->shared() || !stage.spec.is_contiguous()) {
    return ValueError("[stage] expects a contiguous array in shared memory, got ",
                      stage.spec.ToString(), stage.buffer->shared() ? "" : " in private memory");
  }
  CHX_ASSIGN_OR_RETURN(const int64_t offset, BytesIn(command.operands[1]));
  const int64_t size = stage.spec.nbytes();
  if (offset % kStageAlignment != 0 || offset > size || bytes > size - offset) {
    return ValueError("[stage] expects room for ", bytes, " bytes at a multiple of ",
                      kStageAlignment, ", got byte ", offset, " of ", size);
  }
  return stage.data() + offset;
}

void Session::FetchInto(const Command& command, SessionOutput* output) {
  SessionOutput::Value value;
  value.request_id = command.request_id;
  const auto fetch = [&]() -> absl::Status {
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &value.error));
    if (value.error != nullptr) return absl::OkStatus();
    if (command.operands.size() != 4) {
      return ValueError("[fetch] expects 4 operands, got ", command.operands.size());
    }
    const Array& array = entry->variable.array;
    CHX_ASSIGN_OR_RETURN(const int64_t begin, BytesIn(command.operands[2]));
    CHX_ASSIGN_OR_RETURN(const int64_t bytes, BytesIn(command.operands[3]));
    CHX_ASSIGN_OR_RETURN(char* const stage, StageOf(command, bytes));
    const int64_t size = array.spec.nbytes();
    if (begin > size || bytes > size - begin) {
      return ValueError("[fetch] expects a part of ", size, " bytes, got ", bytes, " from byte ",
                        begin);
    }
    if (array.buffer->shared() && array.spec.is_contiguous()) {
      array.buffer->set_exported();  // the client is going to read it
      const Segments::Place place = executor_.PlaceOf(array);
      value.data = EncodeSharedPlace(
          {place.segment, static_cast<uint64_t>(place.offset + array.spec.offset)});
      return absl::OkStatus();
    }
    if (!array.spec.is_contiguous() && bytes != size) {
      return MakeError(ErrorKind::kNotImplemented,
                       "[fetch] expects a contiguous array for a part of it");
    }
    return executor_.CopyOut(array, begin, bytes, stage);
  };
  absl::Status status = fetch();
  if (!status.ok()) value.error = NewRootError(command, std::move(status), "fetch", "");
  if (value.error != nullptr) value.error->read = true;
  output->values.push_back(std::move(value));
}

}  // namespace chx
