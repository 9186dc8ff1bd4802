#include "tests/session/session_fixture.h"

#include <cstring>
#include <utility>

#include "ops/registry.h"
#include "server/native/native_backend.h"

namespace chx::server {

SessionTest::SessionTest() : backend_(CreateNativeBackend({})) {
  CHECK_OK(devices_.Open("native:0", {backend_.get()}));
  Reset(SessionLimits());
}

SessionTest::~SessionTest() = default;

void SessionTest::CHECK_OK(const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; }

void SessionTest::Reset(const SessionLimits& limits) {
  session_ = std::make_unique<Session>(&devices_, limits);
  output_.Clear();
}

uint16_t SessionTest::WireId(const std::string& op) {
  return static_cast<uint16_t>(OpRegistry::Global().Find(op)->id + 1);
}

command::ApplyOp SessionTest::Op(const std::string& op, const std::vector<HandleOperand>& inputs,
                                 const std::vector<Handle>& results,
                                 const std::vector<AttrValue>& attrs) {
  command::ApplyOp command;
  command.op = WireId(op);
  command.inputs.assign(inputs.begin(), inputs.end());
  command.results.assign(results.begin(), results.end());
  command.attrs.assign(attrs.begin(), attrs.end());
  return command;
}

command::ApplyOp SessionTest::OpByDefault(const std::string& op,
                                          const std::vector<HandleOperand>& inputs,
                                          const std::vector<Handle>& results,
                                          std::vector<AttrValue> attrs) {
  const std::vector<AttrDef>& defs = OpRegistry::Global().Find(op)->attrs;
  for (size_t i = attrs.size(); i < defs.size(); ++i) attrs.push_back(defs[i].default_value);
  return Op(op, inputs, results, attrs);
}

Handles SessionTest::List(const std::vector<Handle>& handles) {
  return Handles(handles.begin(), handles.end());
}

command::Backward SessionTest::BackwardOf(const std::vector<Handle>& outputs,
                                          bool double_backprop) {
  command::Backward command;
  command.outputs = List(outputs);
  command.enable_double_backprop = double_backprop;
  return command;
}

command::Grad SessionTest::GradOf(const std::vector<Handle>& outputs,
                                  const std::vector<Handle>& inputs,
                                  const std::vector<Handle>& results) {
  command::Grad command;
  command.outputs = List(outputs);
  command.inputs = List(inputs);
  command.results = List(results);
  return command;
}

command::Release SessionTest::ReleaseOf(const std::vector<Handle>& handles) {
  return {List(handles)};
}

command::GetGrad SessionTest::GetGradOf(Handle handle, Handle grad) { return {handle, 0, grad}; }

void SessionTest::Run(std::vector<Command> commands) { session_->Execute(commands, &output_); }

void SessionTest::Upload(Handle handle, const std::vector<float>& values,
                         const std::vector<int64_t>& shape) {
  command::Upload command;
  command.result = handle;
  command.shape.assign(shape.begin(), shape.end());
  command.data = absl::string_view(reinterpret_cast<const char*>(values.data()),
                                   values.size() * sizeof(float));
  Run({command});
}

std::vector<float> SessionTest::Fetch(Handle handle, RootErrorPtr* error) {
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

absl::StatusOr<SharedBlock> SessionTest::Shared(Command command) {
  Run({std::move(command)});
  const SessionOutput::Value& value = output_.values.back();
  EXPECT_EQ(value.request_id, 8u);
  if (value.error != nullptr) return value.error->status;
  return DecodeSharedBlock(value.data);
}

absl::StatusOr<SharedBlock> SessionTest::Export(Handle handle) {
  return Shared(command::ShareArray{8, handle});
}

absl::StatusOr<SharedBlock> SessionTest::ShareCopy(Handle handle, Handle copy) {
  return Shared(command::ShareCopy{8, handle, copy});
}

absl::StatusOr<SharedBlock> SessionTest::NewShared(Handle handle, const ArraySpec& spec) {
  const Ints shape(spec.shape.begin(), spec.shape.end());
  return Shared(command::ShareNew{8, spec.dtype, 0, shape, handle});
}

absl::Status SessionTest::Alias(Handle handle, Handle base, const ArraySpec& spec) {
  const Ints shape(spec.shape.begin(), spec.shape.end());
  const Ints strides(spec.strides.begin(), spec.strides.end());
  Run({command::ShareAlias{8, base, spec.dtype, shape, strides, spec.offset, handle}});
  const RootErrorPtr& error = output_.values.back().error;
  return error == nullptr ? absl::OkStatus() : error->status;
}

std::string SessionTest::LastError() const {
  return output_.errors.empty() ? "" : std::string(output_.errors.back().error->status.message());
}

}  // namespace chx::server
