#include "client/client_functions.h"

#include <utility>

#include "client/session.h"
#include "ops/error.h"

namespace chx {
namespace {

absl::Status CheckIndexes(absl::Span<const int64_t> indexes, size_t count) {
  for (int64_t index : indexes) {
    if (index >= 0 && index < static_cast<int64_t>(count)) continue;
    return ValueError("[function] expects to retain arrays from 0 to ",
                      static_cast<int64_t>(count) - 1, ", got ", index);
  }
  return absl::OkStatus();
}

std::vector<ArraySpec> SpecsOrNone(absl::Span<ArrayBody* const> arrays) {
  std::vector<ArraySpec> specs;
  for (const ArrayBody* array : arrays) {
    specs.push_back(array == nullptr ? ArraySpec() : array->spec);
  }
  return specs;
}

Handles HandlesOrNone(absl::Span<ArrayBody* const> arrays) {
  Handles handles;
  for (const ArrayBody* array : arrays) handles.push_back(array == nullptr ? 0 : array->handle);
  return handles;
}

}  // namespace

absl::Status ClientFunctions::CheckArrays(absl::Span<ArrayBody* const> arrays) {
  for (ArrayBody* array : arrays) {
    if (array == nullptr) continue;
    CHX_RETURN_IF_ERROR(session_.CheckOwn("function", array));
    CHX_RETURN_IF_ERROR(graphs_.Resolve(array));
  }
  return absl::OkStatus();
}

absl::Status ClientFunctions::CheckInNoGraph(absl::Span<ArrayBody* const> outputs,
                                             const MirrorOps& ops) const {
  for (const ArrayBody* output : outputs) {
    if (output == nullptr) continue;
    for (const auto& [id, op] : ops) {
      if (output->MembershipIn(id) == nullptr) continue;
      return ChainerxError("[function] expects outputs that are in no graph, got ",
                           output->spec.ToString(), ", which is in '",
                           graphs_.backprop_ids().Name(id), "'");
    }
  }
  return absl::OkStatus();
}

absl::Status ClientFunctions::Record(std::shared_ptr<Function> function,
                                     absl::Span<ArrayBody* const> inputs,
                                     absl::Span<ArrayBody* const> outputs,
                                     absl::Span<const int64_t> retained_inputs,
                                     absl::Span<const int64_t> retained_outputs) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  const size_t arrays =
      inputs.size() + outputs.size() + retained_inputs.size() + retained_outputs.size();
  if (arrays > command::RecordFunction::kMaxArrays) {
    return ValueError("[function] expects at most ", command::RecordFunction::kMaxArrays,
                      " inputs, outputs and retained arrays, got ", arrays);
  }
  CHX_RETURN_IF_ERROR(CheckArrays(inputs));
  CHX_RETURN_IF_ERROR(CheckArrays(outputs));
  MirrorOps ops;
  for (const ArrayBody* input : inputs) {
    if (input != nullptr) graphs_.AddInput(*input, &ops);
  }
  CHX_RETURN_IF_ERROR(CheckInNoGraph(outputs, ops));
  CHX_RETURN_IF_ERROR(CheckIndexes(retained_inputs, inputs.size()));
  CHX_RETURN_IF_ERROR(CheckIndexes(retained_outputs, outputs.size()));
  if (ops.empty()) return absl::OkStatus();
  ForgetFreed();
  RecordedFunction recorded = {std::move(function),
                               SpecsOrNone(inputs),
                               SpecsOrNone(outputs),
                               {retained_inputs.begin(), retained_inputs.end()},
                               {retained_outputs.begin(), retained_outputs.end()}};
  const std::shared_ptr<const uint64_t> number = Keep(std::move(recorded));
  command::RecordFunction command;
  command.function = *number;
  command.inputs = HandlesOrNone(inputs);
  command.outputs = HandlesOrNone(outputs);
  command.retained_inputs.assign(retained_inputs.begin(), retained_inputs.end());
  command.retained_outputs.assign(retained_outputs.begin(), retained_outputs.end());
  {
    MutexLock lock(&queue_.mutex());
    command.location = queue_.Location();
    command.mode = queue_.Mode();
    queue_.Append(std::move(command));
  }
  for (const auto& [id, op] : ops) op->function = number;
  graphs_.Connect(ops, outputs);
  return absl::OkStatus();
}

// What holds the number are arrays, and they hold the session.
std::shared_ptr<const uint64_t> ClientFunctions::Keep(RecordedFunction function) {
  MutexLock lock(&mutex_);
  const uint64_t number = next_function_++;
  functions_[number] = std::make_shared<RecordedFunction>(std::move(function));
  return {new uint64_t(number), [this](const uint64_t* held) {
            Unreachable(*held);
            delete held;
          }};
}

void ClientFunctions::Unreachable(uint64_t number) {
  std::shared_ptr<RecordedFunction> gone;  // after the lock: its destructor may run anything
  if (queue_.Forked()) return;
  MutexLock lock(&mutex_);
  auto it = functions_.find(number);
  if (it == functions_.end()) return;
  if (hidden_graphs_) return;  // the daemon says when it is in none of them
  gone = std::move(it->second);
  functions_.erase(it);
}

bool ClientFunctions::any() {
  MutexLock lock(&mutex_);
  return !functions_.empty();
}

std::shared_ptr<RecordedFunction> ClientFunctions::Find(uint64_t number) {
  MutexLock lock(&mutex_);
  auto it = functions_.find(number);
  return it == functions_.end() ? nullptr : it->second;
}

void ClientFunctions::ForgetFreed() {
  const std::vector<uint64_t> freed = connection_.TakeFreedFunctions();
  if (freed.empty()) return;
  std::vector<std::shared_ptr<RecordedFunction>> gone;  // after the lock
  MutexLock lock(&mutex_);
  for (uint64_t number : freed) {
    auto it = functions_.find(number);
    if (it == functions_.end()) continue;
    gone.push_back(std::move(it->second));
    functions_.erase(it);
  }
}

void ClientFunctions::Clear() {
  absl::flat_hash_map<uint64_t, std::shared_ptr<RecordedFunction>> gone;  // after the lock
  MutexLock lock(&mutex_);
  gone.swap(functions_);
}

}  // namespace chx
