// Programs and loops, by tests/fuzz/step_plans.h, and any commands between: what is planned and
// what the daemon recognises. Two sessions get the same, and one recognises no windows: they answer
// the same.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/session/command_traits.h"
#include "tests/fuzz/any_command.h"
#include "tests/fuzz/generator.h"
#include "tests/fuzz/small_session.h"
#include "tests/fuzz/step_plans.h"
#include "tests/fuzz/target.h"

namespace chx {
namespace {

using server::SessionOutput;
using server::SmallSession;

// Of all sessions.
struct Reached {
  int64_t recorded = 0;  // programs
  int64_t planned = 0;   // of these
  int64_t windows = 0;
};
Reached& reached() {
  static auto* const counts = new Reached;
  return *counts;
}

// All NaNs are one: fused operators may give another.
bool SameData(const SessionOutput::Value& a, const SessionOutput::Value& b) {
  if (a.data == b.data) return true;
  if (a.data.size() != b.data.size() || a.dtype != Dtype::kFloat32) return false;
  for (size_t i = 0; i + sizeof(float) <= a.data.size(); i += sizeof(float)) {
    float x = 0;
    float y = 0;
    std::memcpy(&x, a.data.data() + i, sizeof(x));
    std::memcpy(&y, b.data.data() + i, sizeof(y));
    if (std::memcmp(&x, &y, sizeof(x)) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

[[noreturn]] void Differ(const std::string& what, const std::string& a, const std::string& b) {
  std::cerr << "windows change " << what << ": " << a << " is " << b << std::endl;
  std::abort();
}

// Without numbers of bytes: plans take some.
std::string TextOf(const server::RootErrorPtr& error) {
  if (error == nullptr) return "no error";
  if (KindOf(error->status) == ErrorKind::kMemory) return "no memory";
  return std::string(error->status.message());
}

void Compare(absl::Span<const Command> window, const SessionOutput& plain,
             const SessionOutput& recognizing) {
  if (plain.errors.size() != recognizing.errors.size()) {
    Differ("the number of errors", absl::StrCat(plain.errors.size()),
           absl::StrCat(recognizing.errors.size()));
  }
  for (size_t i = 0; i < plain.errors.size(); ++i) {
    const std::string texts[] = {TextOf(plain.errors[i].error),
                                 TextOf(recognizing.errors[i].error)};
    if (texts[0] != texts[1]) Differ("an error", texts[0], texts[1]);
  }
  size_t answer = 0;
  for (const Command& command : window) {
    if (!std::visit([](const auto& c) { return server::RequestOf(c).has_value(); }, command)) {
      continue;
    }
    const SessionOutput::Value& a = plain.values[answer];
    const SessionOutput::Value& b = recognizing.values[answer++];
    // Others are made up, such as capabilities, or say where memory is.
    if (std::holds_alternative<command::Fetch>(command)) {
      if (TextOf(a.error) != TextOf(b.error)) Differ("a value", TextOf(a.error), TextOf(b.error));
      if (!SameData(a, b)) Differ("a value", "one", "another");
    } else if (std::holds_alternative<command::EndProgram>(command)) {
      reached().recorded += a.error == nullptr ? 1 : 0;
      reached().planned += a.error == nullptr && a.data.empty() ? 1 : 0;
    }
  }
}

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using chx::Command;
  chx::server::SmallSession plain(false);
  chx::server::SmallSession recognizing(true);
  chx::Choices choices(data, size);
  std::vector<Command> window;
  const auto execute = [&] {
    plain.Execute(window);
    recognizing.Execute(window);
    chx::Compare(window, plain.output(), recognizing.output());
    window.clear();
  };
  while (!choices.empty()) {
    const chx::Handle first = 6 + choices.AnyHandle() / 2;
    std::vector<Command> plan;
    switch (choices.UpTo(3)) {
      case 0:
        plan = chx::PlanLoop(&choices, first);
        break;
      case 1:
        plan = {chx::AnyCommand(&choices)};
        break;
      default:
        plan = chx::PlanProgram(&choices, first);
    }
    chx::command::Release release;
    for (chx::Handle i = 0; i < chx::kStepHandles; ++i) release.handles.push_back(first + i);
    plan.insert(plan.begin(), release);
    // In windows of many sizes: batches, and what is read of them, end anywhere.
    const auto most = static_cast<size_t>(2 + choices.UpTo(100));
    for (Command& command : plan) {
      if (chx::TakesLong(command)) continue;
      chx::server::SmallSession::Counts().Add(command);
      window.push_back(std::move(command));
      if (window.size() >= most) execute();
    }
  }
  execute();
  chx::reached().windows += recognizing.repeated_windows();
  return 0;
}

namespace chx {

std::string FuzzCounts() {
  const Reached& counts = reached();
  return absl::StrCat("programs ", counts.recorded, ", planned ", counts.planned, "; windows ",
                      counts.windows, "\n", server::SmallSession::Counts().ToString());
}

std::vector<std::string> FuzzSeeds() { return AnySeeds(7, {20, 100, 400, 400, 1000}); }

}  // namespace chx
