// A session that was written and read again goes on as the one that was not: random commands
// before, the same random commands after, and each answer and error must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <regex>
#include <variant>

#include "absl/strings/match.h"
#include "base/sanitizers.h"
#include "ops/registry.h"
#include "server/native/native_backend.h"
#include "server/session/recording.h"
#include "server/session/session.h"
#include "tests/fuzz/generator.h"
#include "tests/state/snapshots.h"

namespace chx::server {
namespace {

constexpr int kSessions = kSanitized ? 60 : 400;
constexpr size_t kCommands = 120;

// Answers of these say where memory is, or what was left in it; passes and plans are not kept.
bool Comparable(const Command& command) {
  if (TakesLong(command) || std::holds_alternative<command::ExplainProgram>(command) ||
      std::holds_alternative<command::ShareArray>(command) ||
      std::holds_alternative<command::ShareCopy>(command) ||
      std::holds_alternative<command::ShareNew>(command) ||
      std::holds_alternative<command::ShareAlias>(command) ||
      std::holds_alternative<command::FetchInto>(command) ||
      std::holds_alternative<command::UploadFrom>(command) ||
      std::holds_alternative<command::UploadPart>(command) ||
      std::holds_alternative<command::RecordFunction>(command) ||
      std::holds_alternative<command::EnterFunction>(command) ||
      std::holds_alternative<command::ResumePass>(command) ||
      std::holds_alternative<command::AbandonPass>(command)) {
    return false;
  }
  const auto* const call = std::get_if<command::ApplyOp>(&command);
  if (call == nullptr || call->op == 0 || call->op > OpRegistry::Global().size()) return true;
  const OpDef& op = OpRegistry::Global().at(static_cast<OpId>(call->op - 1));
  return !absl::StrContains(op.name, "empty");
}

class RoundTripTest : public ::testing::Test {
 protected:
  RoundTripTest() : backend_(CreateNativeBackend({1})) {
    EXPECT_TRUE(devices_.Open("native:0", {backend_.get()}).ok());
    limits_.memory_bytes = int64_t{256} << 20;
    limits_.max_handles = 64;
  }

  std::unique_ptr<Session> NewSession() { return std::make_unique<Session>(&devices_, limits_); }

  // The session as a file brings it back.
  std::unique_ptr<Session> Copy(Session* session) {
    std::unique_ptr<Session> copy = NewSession();
    const absl::Status status = Restore(SnapshotOf(session), copy.get());
    EXPECT_TRUE(status.ok()) << status;
    return copy;
  }

  // But for how full the session is, as the plans of programs are made again; and but for what
  // programs call their own arrays, of which numbers start anew.
  static std::string Told(Session* session, absl::Span<const Command> commands) {
    SessionOutput output;
    session->Execute(commands, &output);
    std::string text;
    for (const SessionOutput::Error& error : output.errors) {
      absl::StrAppend(&text, "error ", IsOfProgram(error.handle) ? 0 : error.handle, " ",
                      error.error->status.message(), " ", error.error->location, "\n");
    }
    for (const SessionOutput::Value& value : output.values) {
      absl::StrAppend(&text, "value ", value.request_id, " ",
                      value.error == nullptr ? "" : value.error->status.message(), " ",
                      value.shape.ToString(), " ", value.data, "\n");
    }
    for (uint64_t number : output.freed_functions) absl::StrAppend(&text, "freed ", number, "\n");
    static const std::regex* const held = new std::regex("the session holds [^)]*\\)");
    return std::regex_replace(text, *held, "");
  }

  std::unique_ptr<Backend> backend_;
  Devices devices_;
  SessionLimits limits_;
};

TEST_F(RoundTripTest, RandomSessionsGoOnAsTheyWere) {
  const char* const given = std::getenv("CHX_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::cout << "CHX_SEED=" << seed << std::endl;
  std::mt19937 random(seed);
  int graphs = 0;
  // More of them if no graph has come by chance.
  const auto enough = [&](int sessions) {
    return sessions >= (graphs > 0 ? kSessions : 20 * kSessions);
  };
  for (int round = 0; !enough(round) && !HasFailure(); ++round) {
    std::string program(6000, '\0');
    for (char& c : program) c = static_cast<char>(random());
    Choices choices(reinterpret_cast<const uint8_t*>(program.data()), program.size());
    CommandGenerator generator(&choices);
    std::vector<Command> commands = InitialArrays();
    commands.erase(std::remove_if(commands.begin(), commands.end(),
                                  [](const Command& each) { return !Comparable(each); }),
                   commands.end());
    const size_t initial = commands.size();
    Command command;
    while (commands.size() < initial + 2 * kCommands && generator.Next(&command)) {
      if (Comparable(command)) commands.push_back(command);
    }
    const size_t half = initial + (commands.size() - initial) / 2;
    const std::unique_ptr<Session> session = NewSession();
    Told(session.get(), absl::MakeConstSpan(commands).subspan(0, half));
    command::EndProgram end;  // no snapshot keeps a recording
    session->Inspect([&](SessionState& state) {
      const Recording* const recording = state.programs.recording();
      if (recording != nullptr) end.program = recording->number();
    });
    Told(session.get(), {Command(end)});
    const std::unique_ptr<Session> copy = Copy(session.get());
    session->Inspect([&](SessionState& state) {
      state.handles.ForEach([&](Handle /*handle*/, const HandleTable::Entry& entry) {
        for (const auto& node : entry.variable.nodes) graphs += node->creator ? 1 : 0;
      });
    });
    EXPECT_EQ(copy->stats().handles, session->stats().handles);
    for (size_t i = half; i < commands.size() && !HasFailure(); ++i) {
      const auto one = absl::MakeConstSpan(commands).subspan(i, 1);
      EXPECT_EQ(Told(copy.get(), one), Told(session.get(), one))
          << "seed " << seed << ", session " << round << ", command " << i;
    }
  }
  EXPECT_GT(graphs, 0) << "no session had a graph";
}

}  // namespace
}  // namespace chx::server
