#include "server/session/session_state.h"

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "ops/error.h"
#include "ops/registry.h"

namespace chx::server {
namespace {

// Values that are charged when they are made, not only in the event that they leave in.
constexpr int64_t kLargeValue = 1024;

}  // namespace

SessionState::SessionState(const Devices* devices, const SessionLimits& limits_in,
                           SessionResources resources, SessionCounters* counters_in)
    : sharing(std::move(resources.sharing)),
      groups(std::move(resources.groups)),
      limits(limits_in),
      counters(*counters_in),
      stop(limits.max_command_time),
      meter(resources.account != nullptr ? std::move(resources.account)
                                         : std::make_shared<MemoryAccount>(limits.memory_bytes)),
      executor(devices, meter.account(), resources.share, &counters.devices),
      passes(&meter, limits.function_deadline),
      handles(&meter, &scopes, limits.max_handles),
      errors(meter.account(), &definitions, &handles, &counters.errors) {
  if (groups != nullptr) {
    executor.set_collectives(groups.get());
    groups->set_locate([this](uint32_t origin) -> absl::string_view {
      const std::string* const location = definitions.FindLocation(origin);
      return location == nullptr ? absl::string_view() : *location;
    });
  }
  executor.set_turn_group(limits.turn_group);
  executor.set_relief([this] { return windows.GiveBack(); });
  meter.set_reclaim([this] { return windows.GiveBack() || executor.Reclaim(); });
}

void SessionState::BeginAnew() {
  ++incarnation;
  if (groups != nullptr) groups->LeaveAll("has left");
  delayed_reductions.clear();
  failed_pass = nullptr;
  windows.Clear();
  programs.Clear();
  if (live_runs == 0) {
    handles.Clear();
  } else {
    absl::flat_hash_set<Handle> kept;
    programs.AddHeldByRuns(&kept);
    handles.ForEach([&kept](Handle handle, const HandleTable::Entry& /*entry*/) {
      if (IsOfRun(handle)) kept.insert(handle);
    });
    handles.Keep(kept);
  }
  passes.Clear();
  scopes.Clear();
  definitions.Clear();
  errors.Clear();
  op_ids.clear();
  graph.functions.clear();
  graph.freed_functions.clear();
  executor.Configure(Settings());
  executor.Trim();
}

RootErrorPtr SessionState::TakeLateError(DeviceId device) {
  const absl::optional<LateError> late = executor.TakeLateError(device);
  if (!late.has_value()) return nullptr;
  return errors.NewError(late->origin, late->status, OpRegistry::Global().at(late->op).name);
}

RootErrorPtr SessionState::BindLateError(Handle handle, DeviceId device) {
  RootErrorPtr late = TakeLateError(device);
  if (late != nullptr) handles.Poison(handle, late);
  return late;
}

RootErrorPtr CommandContext::Fail(uint32_t location, absl::Span<const Handle> results,
                                  absl::Status status, std::string op, std::string inputs) {
  RootErrorPtr error =
      state.errors.NewError(location, std::move(status), std::move(op), std::move(inputs));
  Inherit(results, error);
  const Handle first = results.empty() ? 0 : results[0];  // 0: of a command that makes nothing
  output.errors.push_back({first, error});
  state.errors.AddUnread(first, error);
  return error;
}

void CommandContext::SendAnswer(uint32_t location, absl::Status status, std::string op,
                                SessionOutput::Value value) {
  if (!status.ok()) value.error = state.errors.NewError(location, std::move(status), std::move(op));
  if (value.error != nullptr) {
    value.error->read = true;
    std::string().swap(value.data);  // an assignment would keep its memory
  }
  output.values.push_back(std::move(value));
}

absl::Status CommandContext::ChargeValue(int64_t bytes, SessionOutput::Value* value) {
  if (bytes <= kLargeValue) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(value->charge, MemoryCharge::Of(state.account(), bytes));
  return absl::OkStatus();
}

}  // namespace chx::server
