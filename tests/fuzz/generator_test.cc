#include "tests/fuzz/generator.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ops/registry.h"
#include "ops/testing/samples.h"
#include "tests/fuzz/command_counts.h"
#include "tests/fuzz/small_session.h"

namespace chx {
namespace {

TEST(GeneratorTest, MakesEachKindAndEachOperatorOften) {
  std::mt19937_64 random(20261122);
  std::vector<uint8_t> bytes(1 << 20);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  Choices choices(bytes.data(), bytes.size());
  CommandGenerator generator(&choices);
  CommandCounts counts;
  Command command;
  while (generator.Next(&command)) counts.Add(command);
  const uint64_t total = counts.total();
  EXPECT_GT(total, 50000u);
  for (size_t kind = 0; kind < counts.kinds.size(); ++kind) {
    EXPECT_GT(counts.kinds[kind], total / 100) << NameOfKind(kind);
  }
  for (size_t id = 0; id < counts.operators.size(); ++id) {
    EXPECT_GT(counts.operators[id], total / 10000)
        << OpRegistry::Global().at(static_cast<OpId>(id)).name;
  }
}

// The calls of an operator, as far as a session can make them.
std::vector<std::vector<Command>> PlansOf(absl::string_view op, Handle first) {
  std::vector<std::vector<Command>> plans;
  for (const Call& call : SampleCalls(*OpRegistry::Global().Find(op))) {
    plans.push_back(PlanCall(call, first));
    if (plans.back().empty()) plans.pop_back();
  }
  return plans;
}

// So that kernels run, not only the checks before them.
TEST(GeneratorTest, AValidCallOfEachOperatorSucceedsInASession) {
  for (const auto& op : OpRegistry::Global().ops()) {
    int succeeded = 0;
    for (const std::vector<Command>& plan : PlansOf(op->name, 6)) {
      server::SmallSession session;
      if (op->kind == OpKind::kCollective) {  // in a group of one, which sends to itself
        const Command join = command::JoinGroup{9, 1, 0, 1, "ranks", ""};
        session.Execute({&join, 1});
        if (op->name == "recv") session.Execute(PlansOf("send", 16).back());
      }
      session.Execute(plan);
      succeeded += session.errors() == 0 ? 1 : 0;
    }
    EXPECT_GT(succeeded, 0) << op->name;
  }
}

}  // namespace
}  // namespace chx
