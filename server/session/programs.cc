#include "server/session/programs.h"

#include <utility>

#include "server/session/recording.h"

namespace chx::server {

Program* Programs::Find(uint64_t number) {
  const auto it = programs_.find(number);
  return it == programs_.end() ? nullptr : it->second.get();
}

void Programs::Add(uint64_t number, std::unique_ptr<Program> program) {
  programs_[number] = std::move(program);
}

std::unique_ptr<Program> Programs::Take(uint64_t number) {
  const auto it = programs_.find(number);
  if (it == programs_.end()) return nullptr;
  std::unique_ptr<Program> program = std::move(it->second);
  programs_.erase(it);
  return program;
}

Programs::Programs(MemoryMeter* meter) : meter_(meter) {}

Programs::~Programs() { Clear(); }

void Programs::Start(std::unique_ptr<Recording> recording) { recording_ = std::move(recording); }

std::unique_ptr<Recording> Programs::Stop() { return std::move(recording_); }

void Programs::Clear() {
  recording_ = nullptr;
  for (const auto& [number, program] : programs_) meter_->Release(program->charged);
  programs_.clear();
}

void FreeProgram(Program* program, SessionState* state) {
  for (const Program::Held& held : program->held) state->handles.Release(held.own);
  state->meter.Release(program->charged);
  program->charged = 0;
}

}  // namespace chx::server
