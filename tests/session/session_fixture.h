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
#include "server/engine/devices.h"
#include "server/native/native_backend.h"
#include "server/session/session.h"

namespace chx {

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

  static CommandOperand A(Handle handle) { return CommandOperand(handle); }
  static CommandOperand S(Scalar scalar) { return CommandOperand(scalar); }

  static uint16_t WireId(const std::string& op) {
    return static_cast<uint16_t>(OpRegistry::Global().Find(op)->id + 1);
  }

  static Command Op(const std::string& op, std::vector<CommandOperand> inputs,
                    std::vector<Handle> outputs, std::vector<AttrValue> attrs = {}) {
    Command command;
    command.kind = CommandKind::kApplyOp;
    command.op = WireId(op);
    command.operands.assign(inputs.begin(), inputs.end());
    command.outputs.assign(outputs.begin(), outputs.end());
    command.attrs.assign(attrs.begin(), attrs.end());
    return command;
  }

  // The same with the operator's defaults for attributes that are left out at the end.
  static Command OpByDefault(const std::string& op, std::vector<CommandOperand> inputs,
                             std::vector<Handle> outputs, std::vector<AttrValue> attrs = {}) {
    const std::vector<AttrDef>& defs = OpRegistry::Global().Find(op)->attrs;
    for (size_t i = attrs.size(); i < defs.size(); ++i) attrs.push_back(defs[i].default_value);
    return Op(op, std::move(inputs), std::move(outputs), std::move(attrs));
  }

  static Command OfKind(CommandKind kind, Handle handle = 0) {
    Command command;
    command.kind = kind;
    command.handle = handle;
    return command;
  }

  static Command BackwardOf(std::vector<Handle> handles, bool double_backprop = false) {
    Command command = OfKind(CommandKind::kBackward);
    command.handles.assign(handles.begin(), handles.end());
    command.flags = double_backprop ? Command::kEnableDoubleBackprop : 0;
    return command;
  }

  static Command ReleaseOf(std::vector<Handle> handles) {
    Command command = OfKind(CommandKind::kRelease);
    command.handles.assign(handles.begin(), handles.end());
    return command;
  }

  static Command GetGradOf(Handle handle, Handle grad) {
    Command command = OfKind(CommandKind::kGetGrad, handle);
    command.outputs.push_back(grad);
    return command;
  }

  void Run(std::vector<Command> commands) { session_->Execute(commands, &output_); }

  void Upload(Handle handle, std::vector<float> values, std::vector<int64_t> shape) {
    Command command = OfKind(CommandKind::kUpload, handle);
    command.shape.assign(shape.begin(), shape.end());
    command.data = absl::string_view(reinterpret_cast<const char*>(values.data()),
                                     values.size() * sizeof(float));
    Run({command});
  }

  // The values of a float32 array; the root error's message in *error if it has none.
  std::vector<float> Fetch(Handle handle, RootErrorPtr* error = nullptr) {
    Command command = OfKind(CommandKind::kFetch, handle);
    command.request_id = 7;
    Run({command});
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
  static Command ShareOf(ShareAction action, Handle handle, Handle result = 0) {
    Command command = OfKind(CommandKind::kShare, handle);
    command.flags = static_cast<uint8_t>(action);
    command.request_id = 8;
    if (result != 0) command.outputs.push_back(result);
    return command;
  }
  absl::StatusOr<SharedBlock> Shared(const Command& command) {
    Run({command});
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.request_id, 8u);
    if (value.error != nullptr) return value.error->status;
    return DecodeSharedBlock(value.data);
  }
  absl::StatusOr<SharedBlock> Export(Handle handle) {
    return Shared(ShareOf(ShareAction::kExport, handle));
  }
  absl::StatusOr<SharedBlock> ShareCopy(Handle handle, Handle copy) {
    return Shared(ShareOf(ShareAction::kRead, handle, copy));
  }
  absl::StatusOr<SharedBlock> NewShared(Handle handle, const ArraySpec& spec) {
    Command command = ShareOf(ShareAction::kAllocate, 0, handle);
    command.dtype = spec.dtype;
    command.shape.assign(spec.shape.begin(), spec.shape.end());
    return Shared(command);
  }
  absl::Status Alias(Handle handle, Handle base, const ArraySpec& spec) {
    Command command = ShareOf(ShareAction::kAlias, base, handle);
    command.dtype = spec.dtype;
    command.shape.assign(spec.shape.begin(), spec.shape.end());
    command.shape.insert(command.shape.end(), spec.strides.begin(), spec.strides.end());
    command.shape.push_back(spec.offset);
    Run({command});
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

}  // namespace chx

#endif  // CHX_TESTS_SESSION_SESSION_FIXTURE_H_
