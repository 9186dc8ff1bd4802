// Elements of arrays on their way in and out.
#include <utility>

#include "server/session/session.h"

namespace chx {
namespace {

// Values that are charged when they are made, not only in the event that they leave in.
constexpr int64_t kLargeValue = 1024;

}  // namespace

void Session::Upload(const Command& command, SessionOutput* output) {
  const auto upload = [&]() -> absl::Status {
    const Handle handle = command.handle;
    CHX_RETURN_IF_ERROR(CheckNewHandles({&handle, 1}));
    CHX_RETURN_IF_ERROR(CheckShape("upload", command.shape, command.dtype));
    const ArraySpec spec(command.dtype, Shape(command.shape), command.device);
    absl::string_view data = command.data;
    if (command.kind == CommandKind::kUploadFrom) {
      CHX_ASSIGN_OR_RETURN(const char* const stage, StageOf(command, spec.nbytes()));
      data = absl::string_view(stage, static_cast<size_t>(spec.nbytes()));
    }
    if (spec.nbytes() != static_cast<int64_t>(data.size())) {
      return ValueError("[upload] expects ", spec.nbytes(), " bytes for ", spec.ToString(),
                        ", got ", data.size());
    }
    CHX_ASSIGN_OR_RETURN(Array array, executor_.Allocate(spec));
    CHX_RETURN_IF_ERROR(executor_.CopyIn(array, 0, data));
    Variable variable;
    variable.array = std::move(array);
    Bind(handle, std::move(variable));
    return absl::OkStatus();
  };
  absl::Status status = upload();
  if (!status.ok()) Fail(command, std::move(status), "upload", "", output);
}

absl::Status Session::ChargeValue(int64_t bytes, SessionOutput::Value* value) {
  if (bytes <= kLargeValue) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(value->charge, MemoryCharge::Of(account(), bytes));
  return absl::OkStatus();
}

void Session::Fetch(const Command& command, SessionOutput* output) {
  SessionOutput::Value value;
  value.request_id = command.request_id;
  const auto fetch = [&]() -> absl::Status {
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &value.error));
    if (value.error != nullptr) return absl::OkStatus();
    const Array& array = entry->variable.array;
    if (array.spec.nbytes() > limits_.max_inline_bytes) {
      return ValueError("[fetch] expects at most ", limits_.max_inline_bytes, " bytes, got ",
                        array.spec.nbytes(), ": use Download");
    }
    CHX_RETURN_IF_ERROR(ChargeValue(array.spec.nbytes(), &value));
    CHX_ASSIGN_OR_RETURN(value.data, executor_.CopyOut(array));
    value.dtype = array.spec.dtype;
    value.shape = array.spec.shape;
    return absl::OkStatus();
  };
  absl::Status status = fetch();
  if (!status.ok()) value.error = NewRootError(command, std::move(status), "fetch", "");
  if (value.error != nullptr) value.error->read = true;
  output->values.push_back(std::move(value));
}

void Session::Barrier(const Command& command, SessionOutput* output) {
  SessionOutput::Value value;
  value.request_id = command.request_id;
  const absl::Status status = executor_.Synchronize();
  if (!status.ok()) value.error = NewRootError(command, status, "barrier", "");
  output->values.push_back(std::move(value));
}

absl::StatusOr<Session::UploadSink> Session::BeginUpload(Handle handle, Dtype dtype,
                                                         absl::Span<const int64_t> shape,
                                                         DeviceId device) {
  MutexLock lock(&mutex_);
  entries_.Reserve(1);
  CHX_RETURN_IF_ERROR(CheckNewHandles({&handle, 1}));
  CHX_RETURN_IF_ERROR(CheckShape("upload", shape, dtype));
  UploadSink sink;
  sink.session_ = this;
  sink.handle_ = handle;
  CHX_ASSIGN_OR_RETURN(sink.array_, executor_.Allocate(ArraySpec(dtype, Shape(shape), device)));
  return sink;
}

absl::Status Session::UploadSink::Write(absl::string_view bytes) {
  MutexLock lock(&session_->mutex_);
  const Session::Outside outside(session_);
  CHX_RETURN_IF_ERROR(outside.Check("upload"));
  CHX_RETURN_IF_ERROR(session_->executor_.CopyIn(array_, written_, bytes));
  written_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status Session::UploadSink::Finish() {
  MutexLock lock(&session_->mutex_);
  if (written_ != array_.spec.nbytes()) {
    return ValueError("[upload] expects ", array_.spec.nbytes(), " bytes for ",
                      array_.spec.ToString(), ", got ", written_);
  }
  session_->entries_.Reserve(1);
  CHX_RETURN_IF_ERROR(session_->CheckNewHandles({&handle_, 1}));
  Variable variable;
  variable.array = std::move(array_);
  session_->Bind(handle_, std::move(variable));
  session_->CountHandles();
  return absl::OkStatus();
}

absl::StatusOr<Variable*> Session::Read(Handle handle) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(Entry * entry, Use(handle, &inherited));
  if (inherited == nullptr) return &entry->variable;
  inherited->read = true;
  return inherited->status;
}

bool Session::Holds(Handle handle) {
  MutexLock lock(&mutex_);
  return Find(handle) != nullptr;
}

absl::StatusOr<Session::HostCopy> Session::ReadArray(Handle handle) {
  MutexLock lock(&mutex_);
  const Outside outside(this);
  CHX_RETURN_IF_ERROR(outside.Check("download"));
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, Read(handle));
  HostCopy copy;
  const Array& array = variable->array;
  copy.dtype = array.spec.dtype;
  copy.shape = array.spec.shape;
  CHX_ASSIGN_OR_RETURN(copy.charge,
                       MemoryCharge::Of(account(), array.spec.nbytes(), MemoryUse::kTransfers));
  CHX_ASSIGN_OR_RETURN(copy.data, executor_.CopyOut(array));
  return copy;
}

}  // namespace chx
