// Elements of arrays on their way in and out: in the stream, or through an array in shared memory
// (the stage), which the client writes and reads at any time.
#include <utility>

#include "ops/error.h"
#include "proto/shared_block.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

// Enough for any element, and a line of the cache.
constexpr int64_t kStageAlignment = 64;

template <typename C>
absl::StatusOr<ArraySpec> NewSpec(const C& c, const SessionState& state) {
  CHX_RETURN_IF_ERROR(state.handles.CheckNew({&c.result, 1}));
  CHX_RETURN_IF_ERROR(CheckShape("upload", c.shape, c.dtype));
  return ArraySpec(c.dtype, Shape(c.shape), c.device);
}

// Makes an array of elements in C order. `find_data`, of type
// absl::StatusOr<absl::string_view>(int64_t bytes), says where they are.
template <typename C, typename FindData>
absl::Status NewArray(const C& c, SessionState& state, FindData find_data) {
  CHX_ASSIGN_OR_RETURN(const ArraySpec spec, NewSpec(c, state));
  CHX_ASSIGN_OR_RETURN(const absl::string_view data, find_data(spec.nbytes()));
  if (spec.nbytes() != static_cast<int64_t>(data.size())) {
    return ValueError("[upload] expects ", spec.nbytes(), " bytes for ", spec.ToString(), ", got ",
                      data.size());
  }
  Variable variable;
  CHX_ASSIGN_OR_RETURN(variable.array, state.executor.Allocate(spec));
  CHX_RETURN_IF_ERROR(state.executor.CopyIn(variable.array, 0, data));
  state.handles.Bind(c.result, std::move(variable));
  return absl::OkStatus();
}

// The memory of the stage from a byte on, with room for `bytes`, for values of an array on
// `device`.
absl::StatusOr<char*> FindStage(Handle handle, int64_t offset, int64_t bytes, DeviceId device,
                                SessionState& state) {
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, state.handles.Read(handle));
  const Array& stage = variable->array;
  // In a session that another daemon has begun: its client goes another way.
  if (!stage.buffer->shared()) {
    return MakeError(ErrorKind::kNotImplemented, "[stage] expects an array in shared memory");
  }
  if (!stage.spec.is_contiguous()) {
    return ValueError("[stage] expects a contiguous array, got ", stage.spec.ToString());
  }
  const int64_t size = stage.spec.nbytes();
  if (offset < 0 || bytes < 0 || offset % kStageAlignment != 0 || offset > size ||
      bytes > size - offset) {
    return ValueError("[stage] expects room for ", bytes, " bytes at a multiple of ",
                      kStageAlignment, ", got byte ", offset, " of ", size);
  }
  state.executor.PrepareStage(stage, device);
  return stage.data() + offset;
}

// An error of the first part is that of all.
absl::Status FillPart(const command::UploadPart& c, SessionState& state, RootErrorPtr* inherited) {
  CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry, state.handles.UseValue(c.result, inherited));
  if (*inherited != nullptr) return absl::OkStatus();
  const Variable& variable = entry->variable;
  const Array& array = variable.array;
  const int64_t size = array.spec.nbytes();
  if (c.begin < 0 || c.bytes < 0 || c.begin > size || c.bytes > size - c.begin) {
    return ValueError("[upload] expects a part of ", size, " bytes, got ", c.bytes, " from byte ",
                      c.begin);
  }
  // As the first part has made it.
  if (!array.spec.is_contiguous() || !variable.nodes.empty() || array.buffer->lease() ||
      array.buffer->shared()) {
    return ValueError("[upload] expects parts of a new array, got ", array.spec.ToString());
  }
  CHX_ASSIGN_OR_RETURN(const char* const stage,
                       FindStage(c.stage, c.stage_offset, c.bytes, array.spec.device, state));
  state.counters.received(Way::kShared).Add(c.bytes);
  return state.executor.CopyIn(array, c.begin,
                               absl::string_view(stage, static_cast<size_t>(c.bytes)));
}

absl::Status CopyInto(const command::FetchInto& c, const Array& array, CommandContext& context,
                      SessionOutput::Value* value) {
  CHX_ASSIGN_OR_RETURN(char* const stage, FindStage(c.stage, c.stage_offset, c.bytes,
                                                    array.spec.device, context.state));
  const int64_t size = array.spec.nbytes();
  if (c.begin < 0 || c.begin > size || c.bytes > size - c.begin) {
    return ValueError("[fetch] expects a part of ", size, " bytes, got ", c.bytes, " from byte ",
                      c.begin);
  }
  if (array.buffer->shared() && array.spec.is_contiguous()) {
    array.buffer->set_exported();  // the client is going to read it
    const Segments::Address block = context.state.executor.AddressOf(array);
    value->data = EncodeSegmentOffset(
        {block.segment, static_cast<uint64_t>(block.offset + array.spec.offset)});
    return absl::OkStatus();
  }
  if (!array.spec.is_contiguous() && c.bytes != size) {
    return MakeError(ErrorKind::kNotImplemented,
                     "[fetch] expects a contiguous array for a part of it");
  }
  if (array.buffer->lease() && c.bytes != size) {
    return MakeError(ErrorKind::kNotImplemented,
                     "[fetch] expects to copy all at once what other sessions may write to");
  }
  return context.state.executor.CopyOut(array, c.begin, c.bytes, stage);
}

}  // namespace

void RunCommand(const command::Upload& c, CommandContext& context) {
  const auto find_data = [&c](int64_t /*bytes*/) -> absl::StatusOr<absl::string_view> {
    return c.data;
  };
  context.FailUnlessOk(c, NewArray(c, context.state, find_data), "upload");
}

void RunCommand(const command::UploadFrom& c, CommandContext& context) {
  const auto find_data = [&](int64_t bytes) -> absl::StatusOr<absl::string_view> {
    CHX_ASSIGN_OR_RETURN(const char* const stage,
                         FindStage(c.stage, c.stage_offset, bytes, c.device, context.state));
    context.state.counters.received(Way::kShared).Add(bytes);
    return absl::string_view(stage, static_cast<size_t>(bytes));
  };
  context.FailUnlessOk(c, NewArray(c, context.state, find_data), "upload");
}

void RunCommand(const command::UploadPart& c, CommandContext& context) {
  SessionState& state = context.state;
  if (c.begin == 0) {
    const auto make = [&]() -> absl::Status {
      Variable variable;
      CHX_ASSIGN_OR_RETURN(const ArraySpec spec, NewSpec(c, state));
      CHX_ASSIGN_OR_RETURN(variable.array, state.executor.Allocate(spec));
      state.handles.Bind(c.result, std::move(variable));
      return absl::OkStatus();
    };
    const absl::Status made = make();
    if (!made.ok()) return context.FailUnlessOk(c, made, "upload");
  }
  RootErrorPtr inherited;
  const absl::Status filled = FillPart(c, state, &inherited);
  if (filled.ok()) return;
  state.handles.Poison(c.result, context.Fail(c, filled, "upload"));
}

void RunCommand(const command::Fetch& c, CommandContext& context) {
  SessionState& state = context.state;
  context.Answer(c, "fetch", [&](SessionOutput::Value* value) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry,
                         state.handles.UseValue(c.handle, &value->error));
    if (value->error != nullptr) return absl::OkStatus();
    const Array& array = entry->variable.array;
    if (array.spec.nbytes() > state.limits.max_inline_bytes) {
      return ValueError("[fetch] expects at most ", state.limits.max_inline_bytes, " bytes, got ",
                        array.spec.nbytes(), ": use Download");
    }
    CHX_RETURN_IF_ERROR(context.ChargeValue(array.spec.nbytes(), value));
    CHX_ASSIGN_OR_RETURN(value->data, state.executor.CopyOut(array));
    value->dtype = array.spec.dtype;
    value->shape = array.spec.shape;
    value->error = state.BindLateError(c.handle, array.spec.device);
    return absl::OkStatus();
  });
}

void RunCommand(const command::FetchInto& c, CommandContext& context) {
  context.Answer(c, "fetch", [&](SessionOutput::Value* value) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry,
                         context.state.handles.UseValue(c.handle, &value->error));
    if (value->error != nullptr) return absl::OkStatus();
    const DeviceId device = entry->variable.array.spec.device;
    CHX_RETURN_IF_ERROR(CopyInto(c, entry->variable.array, context, value));
    context.state.counters.sent(Way::kShared).Add(c.bytes);
    value->error = context.state.BindLateError(c.handle, device);
    return absl::OkStatus();
  });
}

void RunCommand(const command::Barrier& c, CommandContext& context) {
  context.Answer(c, "barrier", [&](SessionOutput::Value* value) {
    Executor& executor = context.state.executor;
    const absl::Status status = executor.Synchronize();
    for (int i = 0; status.ok() && value->error == nullptr && i < executor.devices().size(); ++i) {
      value->error = context.state.TakeLateError(static_cast<DeviceId>(i));
    }
    return status;
  });
}

}  // namespace chx::server
