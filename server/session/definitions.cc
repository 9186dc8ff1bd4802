#include "server/session/definitions.h"

#include "ops/error.h"

namespace chx::server {
namespace {

constexpr size_t kMaxLocations = 1 << 20;
constexpr size_t kMaxLocationBytes = 1024;
constexpr size_t kMaxModes = 4096;
constexpr size_t kMaxModeEntries = 4096;

}  // namespace

absl::Status Definitions::Define(const command::DefineLocation& command) {
  if (locations_.size() >= kMaxLocations || command.text.size() > kMaxLocationBytes) {
    return MemoryError("[location] expects at most ", kMaxLocations, " places of ",
                       kMaxLocationBytes, " bytes");
  }
  const int64_t bytes = TextBytes(command.text.size());
  if (!locations_.Reserve(1) || !meter_->TryCharge(bytes)) {
    return MemoryError("[location] ", meter_->Exhausted(bytes).message());
  }
  std::string& text = locations_[command.location];
  meter_->Release(TextBytes(text.size()));
  text = std::string(command.text);
  return absl::OkStatus();
}

absl::Status Definitions::Define(const command::DefineMode& command) {
  if (command.mode == 0 || modes_.size() >= kMaxModes) {
    return ValueError("[mode] expects a number from 1 to ", kMaxModes, ", got ", command.mode);
  }
  if (command.entries.size() > kMaxModeEntries) {
    return ValueError("[mode] expects at most ", kMaxModeEntries, " graphs, got ",
                      command.entries.size());
  }
  RecordMode mode(command.record_by_default);
  for (const ModeEntry& entry : command.entries) mode.Set(entry.backprop_id, entry.record);
  const int64_t bytes = mode.HeapBytes();
  if (!modes_.Reserve(1) || !meter_->TryCharge(bytes)) {
    return MemoryError("[mode] ", meter_->Exhausted(bytes).message());
  }
  const auto [it, inserted] = modes_.try_emplace(command.mode, mode);
  if (inserted) return absl::OkStatus();
  meter_->Release(it->second.HeapBytes());
  it->second = mode;
  return absl::OkStatus();
}

void Definitions::Clear() {
  for (const auto& [number, mode] : modes_) meter_->Release(mode.HeapBytes());
  for (const auto& [number, text] : locations_) meter_->Release(TextBytes(text.size()));
  modes_.clear();
  locations_.clear();
}

const RecordMode* Definitions::FindMode(uint16_t mode) const {
  static const RecordMode* const all = new RecordMode(RecordMode::All());
  if (mode == 0) return all;
  auto it = modes_.find(mode);
  return it == modes_.end() ? nullptr : &it->second;
}

const std::string* Definitions::FindLocation(uint32_t location) const {
  auto it = locations_.find(location);
  return location == 0 || it == locations_.end() ? nullptr : &it->second;
}

}  // namespace chx::server
