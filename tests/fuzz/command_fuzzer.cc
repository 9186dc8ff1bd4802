// Bytes as a client may send them, to the decoder and whatever it lets through to a session.
#include <string>
#include <vector>

#include "ops/registry.h"
#include "tests/fuzz/generator.h"
#include "tests/fuzz/small_session.h"
#include "tests/fuzz/target.h"

namespace chx {

std::string FuzzCounts() {
  return "of what the decoder let through: " + SmallSession::Counts().ToString();
}

}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chx::SmallSession session;
  chx::CommandReader reader(absl::string_view(reinterpret_cast<const char*>(data), size));
  std::vector<chx::Command> window(8);
  while (!reader.AtEnd()) {
    size_t count = 0;
    bool readable = true;
    while (count < window.size() && !reader.AtEnd()) {
      readable = reader.Next(&window[count]).ok();
      if (!readable || chx::TakesLong(window[count])) break;
      chx::SmallSession::Counts().Add(window[count++]);
    }
    session.Execute(absl::MakeConstSpan(window).subspan(0, count));
    if (!readable) break;
  }
  return 0;
}

namespace chx {

// Each operator with its default attributes, each other command, and a small program.
std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  std::string program;
  Handle next = 10;
  for (const auto& op : OpRegistry::Global().ops()) {
    std::string seed;
    std::vector<CommandOperand> inputs;
    for (size_t i = 0; i < op->inputs.size(); ++i) inputs.emplace_back(Handle{1 + i % 4});
    std::vector<AttrValue> attrs;
    for (const AttrDef& attr : op->attrs) attrs.push_back(attr.default_value);
    const std::vector<Handle> outputs(op->outputs.size(), Handle{10});
    CommandWriter writer(&seed);
    writer.ApplyOp(static_cast<uint16_t>(op->id + 1), 0, 0, 0, inputs, attrs, outputs);
    writer.Fetch(1, 10);
    seeds.push_back(seed);
    const std::vector<Handle> unique(op->outputs.size(), next++);
    CommandWriter(&program).ApplyOp(static_cast<uint16_t>(op->id + 1), 0, 0, 0, inputs, attrs,
                                    unique);
    if (next > 40) {
      CommandWriter(&program).Release({{Handle{10}, Handle{11}, Handle{12}}});
      next = 10;
    }
  }
  Command command;
  for (int kind = static_cast<int>(CommandKind::kRelease);
       kind <= static_cast<int>(kLastCommandKind); ++kind) {
    command.kind = static_cast<CommandKind>(kind);
    command.handle = kind == static_cast<int>(CommandKind::kUpload) ? 20 : 1;
    command.request_id = 5;
    command.backprop_id = command.kind == CommandKind::kNewBackpropId ||
                                  command.kind == CommandKind::kReleaseBackpropId
                              ? 1
                              : 0;
    command.mode = 1;
    command.location = 1;
    command.outputs = {30};
    command.handles = {1, 2};
    command.num_outputs = 1;
    command.operands = {CommandOperand(Handle{2})};
    command.shape = {2};
    command.data = "12345678";
    command.mode_entries = {{1, true}};
    std::string seed;
    CommandWriter(&seed).Write(command);
    program += seed;
    seeds.push_back(seed);
  }
  seeds.push_back(program);
  return seeds;
}

}  // namespace chx
