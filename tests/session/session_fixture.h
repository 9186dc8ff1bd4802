// Drives a Session by commands, as the wire does, without a wire.
#ifndef CHX_TESTS_SESSION_SESSION_FIXTURE_H_
#define CHX_TESTS_SESSION_SESSION_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/shared_block.h"
#include "server/engine/devices.h"
#include "server/session/session.h"

namespace chx::server {

class SessionTest : public ::testing::Test {
 protected:
  SessionTest();
  ~SessionTest() override;

  static void CHECK_OK(const absl::Status& status);

  void Reset(const SessionLimits& limits);

  static HandleOperand A(Handle handle) { return HandleOperand(handle); }
  static HandleOperand S(Scalar scalar) { return HandleOperand(scalar); }

  static uint16_t WireId(const std::string& op);

  static command::ApplyOp Op(const std::string& op, const std::vector<HandleOperand>& inputs,
                             const std::vector<Handle>& results,
                             const std::vector<AttrValue>& attrs = {});

  // The same with the operator's defaults for attributes that are left out at the end.
  static command::ApplyOp OpByDefault(const std::string& op,
                                      const std::vector<HandleOperand>& inputs,
                                      const std::vector<Handle>& results,
                                      std::vector<AttrValue> attrs = {});

  // The command in another graph.
  template <typename C>
  static C In(BackpropId id, C command) {
    command.backprop_id = id;
    return command;
  }

  static Handles List(const std::vector<Handle>& handles);

  static command::Backward BackwardOf(const std::vector<Handle>& outputs,
                                      bool double_backprop = false);
  static command::Grad GradOf(const std::vector<Handle>& outputs, const std::vector<Handle>& inputs,
                              const std::vector<Handle>& results);
  static command::Release ReleaseOf(const std::vector<Handle>& handles);
  static command::GetGrad GetGradOf(Handle handle, Handle grad);

  void Run(std::vector<Command> commands);

  void Upload(Handle handle, const std::vector<float>& values, const std::vector<int64_t>& shape);

  // The values of a float32 array; the root error's message in *error if it has none.
  std::vector<float> Fetch(Handle handle, RootErrorPtr* error = nullptr);

  // Arrays in shared memory, as the client asks for them.
  absl::StatusOr<SharedBlock> Shared(Command command);
  absl::StatusOr<SharedBlock> Export(Handle handle);
  absl::StatusOr<SharedBlock> ShareCopy(Handle handle, Handle copy);
  absl::StatusOr<SharedBlock> NewShared(Handle handle, const ArraySpec& spec);
  absl::Status Alias(Handle handle, Handle base, const ArraySpec& spec);

  std::string LastError() const;

  std::unique_ptr<Backend> backend_;
  Devices devices_;
  std::unique_ptr<Session> session_;
  SessionOutput output_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_SESSION_FIXTURE_H_
