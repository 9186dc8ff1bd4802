// Drives a Session by commands, as the wire does, without a wire.
#ifndef CHX_TESTS_SESSION_SESSION_FIXTURE_H_
#define CHX_TESTS_SESSION_SESSION_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/registry.h"
#include "proto/shared_block.h"
#include "server/engine/devices.h"
#include "server/native/native_backend.h"
#include "server/session/session.h"

namespace chx::server {

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : backend_(CreateNativeBackend({})) {
    CHECK_OK(devices_.Open("native:0", {backend_.get()}));
    Reset(SessionLimits());
  }

  static void CHECK_OK(const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; }

  void Reset(const SessionLimits& limits) {
    session_ = std::make_unique<Session>(&devices_, limits);
    output_.Clear();
  }

  static HandleOperand A(Handle handle) { return HandleOperand(handle); }
  static HandleOperand S(Scalar scalar) { return HandleOperand(scalar); }

  static uint16_t WireId(const std::string& op) {
    return static_cast<uint16_t>(OpRegistry::Global().Find(op)->id + 1);
  }

  static command::ApplyOp Op(const std::string& op, std::vector<HandleOperand> inputs,
                             std::vector<Handle> results, std::vector<AttrValue> attrs = {}) {
    command::ApplyOp command;
    command.op = WireId(op);
    command.inputs.assign(inputs.begin(), inputs.end());
    command.results.assign(results.begin(), results.end());
    command.attrs.assign(attrs.begin(), attrs.end());
    return command;
  }

  // The same with the operator's defaults for attributes that are left out at the end.
  static command::ApplyOp OpByDefault(const std::string& op, std::vector<HandleOperand> inputs,
                                      std::vector<Handle> results,
                                      std::vector<AttrValue> attrs = {}) {
    const std::vector<AttrDef>& defs = OpRegistry::Global().Find(op)->attrs;
    for (size_t i = attrs.size(); i < defs.size(); ++i) attrs.push_back(defs[i].default_value);
    return Op(op, std::move(inputs), std::move(results), std::move(attrs));
  }

  // The command in another graph.
  template <typename C>
  static C In(BackpropId id, C command) {
    command.backprop_id = id;
    return command;
  }

  static Handles List(const std::vector<Handle>& handles) {
    return Handles(handles.begin(), handles.end());
  }

  static command::Backward BackwardOf(std::vector<Handle> outputs, bool double_backprop = false) {
    command::Backward command;
    command.outputs = List(outputs);
    command.enable_double_backprop = double_backprop;
    return command;
  }

  static command::Grad GradOf(std::vector<Handle> outputs, std::vector<Handle> inputs,
                              std::vector<Handle> results) {
    command::Grad command;
    command.outputs = List(outputs);
    command.inputs = List(inputs);
    command.results = List(results);
    return command;
  }

  static command::Release ReleaseOf(std::vector<Handle> handles) { return {List(handles)}; }

  static command::GetGrad GetGradOf(Handle handle, Handle grad) { return {handle, 0, grad}; }

  void Run(std::vector<Command> commands) { session_->Execute(commands, &output_); }

  void Upload(Handle handle, std::vector<float> values, std::vector<int64_t> shape) {
    command::Upload command;
    command.result = handle;
    command.shape.assign(shape.begin(), shape.end());
    command.data = absl::string_view(reinterpret_cast<const char*>(values.data()),
                                     values.size() * sizeof(float));
    Run({command});
  }

  // The values of a float32 array; the root error's message in *error if it has none.
  std::vector<float> Fetch(Handle handle, RootErrorPtr* error = nullptr) {
    Run({command::Fetch{7, handle}});
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.request_id, 7u);
    if (error != nullptr) *error = value.error;
    if (value.error != nullptr) {
      if (error == nullptr) ADD_FAILURE() << value.error->status;
      return {};
    }
    std::vector<float> values(value.data.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), value.data.data(), value.data.size());
    return values;
  }

  // Arrays in shared memory, as the client asks for them.
  absl::StatusOr<SharedBlock> Shared(Command command) {
    Run({std::move(command)});
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.request_id, 8u);
    if (value.error != nullptr) return value.error->status;
    return DecodeSharedBlock(value.data);
  }
  absl::StatusOr<SharedBlock> Export(Handle handle) {
    return Shared(command::ShareArray{8, handle});
  }
  absl::StatusOr<SharedBlock> ShareCopy(Handle handle, Handle copy) {
    return Shared(command::ShareCopy{8, handle, copy});
  }
  absl::StatusOr<SharedBlock> NewShared(Handle handle, const ArraySpec& spec) {
    const Ints shape(spec.shape.begin(), spec.shape.end());
    return Shared(command::ShareNew{8, spec.dtype, 0, shape, handle});
  }
  absl::Status Alias(Handle handle, Handle base, const ArraySpec& spec) {
    const Ints shape(spec.shape.begin(), spec.shape.end());
    const Ints strides(spec.strides.begin(), spec.strides.end());
    Run({command::ShareAlias{8, base, spec.dtype, shape, strides, spec.offset, handle}});
    const RootErrorPtr& error = output_.values.back().error;
    return error == nullptr ? absl::OkStatus() : error->status;
  }

  std::string LastError() const {
    return output_.errors.empty() ? "" : std::string(output_.errors.back().error->status.message());
  }

  std::unique_ptr<Backend> backend_;
  Devices devices_;
  std::unique_ptr<Session> session_;
  SessionOutput output_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_SESSION_FIXTURE_H_
