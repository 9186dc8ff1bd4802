// What later commands refer to.
#include "ops/settings.h"
#include "server/session/commands.h"

namespace chx::server {

void RunCommand(const command::DefineMode& c, CommandContext& context) {
  context.FailUnlessOk(c, context.state.definitions.Define(c), "");
}

void RunCommand(const command::DefineLocation& c, CommandContext& context) {
  context.FailUnlessOk(c, context.state.definitions.Define(c), "");
}

void RunCommand(const command::Configure& c, CommandContext& context) {
  Settings settings = context.state.executor.settings();
  const absl::Status status = ChangeSetting(c.name, c.value, &settings);
  if (status.ok()) context.state.executor.Configure(settings);
  context.FailUnlessOk(c, status, "");
}

}  // namespace chx::server
