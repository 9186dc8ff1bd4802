#include "server/runs/run_arrays.h"

#include <cstring>

#include "ops/error.h"
#include "server/kernels/types.h"

namespace chx::server {
namespace {

template <typename T>
double ValueOf(absl::string_view data) {
  T value;
  std::memcpy(&value, data.data(), sizeof(value));
  return static_cast<double>(kernels::Load(value));
}

}  // namespace

absl::StatusOr<Array> ArrayOf(Handle handle, SessionState* state) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry, state->handles.Use(handle, &inherited));
  if (inherited != nullptr) return inherited->status;
  return entry->variable.array;
}

absl::StatusOr<Handle> Keep(Array array, SessionState* state) {
  const Handle handle = state->next_run_handle++;
  state->handles.Reserve(1);
  CHX_RETURN_IF_ERROR(state->handles.CheckNew({&handle, 1}));
  Variable variable;
  variable.array = std::move(array);
  state->handles.Bind(handle, std::move(variable));
  return handle;
}

absl::StatusOr<double> ElementOf(Dtype dtype, absl::string_view data) {
  switch (dtype) {
    case Dtype::kBool:
      return data[0] != 0 ? 1.0 : 0.0;
    case Dtype::kInt8:
      return ValueOf<int8_t>(data);
    case Dtype::kInt16:
      return ValueOf<int16_t>(data);
    case Dtype::kInt32:
      return ValueOf<int32_t>(data);
    case Dtype::kInt64:
      return ValueOf<int64_t>(data);
    case Dtype::kUint8:
      return ValueOf<uint8_t>(data);
    case Dtype::kFloat16:
      return ValueOf<kernels::Half>(data);
    case Dtype::kBfloat16:
      return ValueOf<kernels::Bfloat16>(data);
    case Dtype::kFloat32:
      return ValueOf<float>(data);
    case Dtype::kFloat64:
      return ValueOf<double>(data);
  }
  return ValueError("[runs] expects metrics of a known dtype");
}

absl::StatusOr<double> MetricOf(Dtype dtype, const Shape& shape, absl::string_view data) {
  if (shape.size() != 0 || static_cast<int64_t>(data.size()) != ItemSize(dtype)) {
    return ValueError("[runs] expects metrics without dimensions, got one with ", shape.size());
  }
  return ElementOf(dtype, data);
}

}  // namespace chx::server
