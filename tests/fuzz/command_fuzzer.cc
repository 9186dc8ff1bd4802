// Bytes as a client may send them, to the decoder and whatever it lets through to a session.
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "ops/registry.h"
#include "proto/command_codec.h"
#include "tests/fuzz/command_counts.h"
#include "tests/fuzz/generator.h"
#include "tests/fuzz/small_session.h"
#include "tests/fuzz/target.h"

namespace chx {

std::string FuzzCounts() {
  return "of what the decoder let through: " + server::SmallSession::Counts().ToString();
}

}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chx::server::SmallSession session;
  chx::CommandReader reader(absl::string_view(reinterpret_cast<const char*>(data), size));
  std::vector<chx::Command> window(8);
  while (!reader.AtEnd()) {
    size_t count = 0;
    bool readable = true;
    while (count < window.size() && !reader.AtEnd()) {
      readable = reader.Next(&window[count]).ok();
      if (!readable || chx::TakesLong(window[count])) break;
      chx::server::SmallSession::Counts().Add(window[count++]);
    }
    session.Execute(absl::MakeConstSpan(window).subspan(0, count));
    if (!readable) break;
  }
  return 0;
}

namespace chx {

// In an order in which they make sense after InitialArrays(): each kind but operators at least
// once.
std::vector<Command> EachOtherKind() {
  std::vector<Command> commands = {
      command::Upload{20, Dtype::kFloat32, 0, {2}, "12345678"},
      command::UploadFrom{21, Dtype::kFloat32, 0, {2}, 5, 64},
      command::UploadPart{24, Dtype::kFloat32, 0, {4}, 5, 64, 0, 8},
      command::Fetch{1, 20},
      command::FetchInto{2, 1, 5, 0, 0, 24},
      command::Barrier{3},
      command::ShareArray{4, 2},
      command::ShareCopy{5, 3, 22},
      command::ShareNew{6, Dtype::kFloat32, 0, {2}, 23},
      command::ShareAlias{7, 5, Dtype::kFloat32, {2}, {4}, 8, 24},
      command::NewBackpropId{1},
      command::DefineMode{1, false, {{0, true}, {1, true}}},
      command::DefineLocation{1, "model.py:1"},
      command::Configure{"use_cudnn", false},
      command::RequireGrad{1, 1},
      command::RecordFunction{7, 1, 1, {1, 0, 2}, {3, 4}, {0}, {1}},
      command::QueryGraphs{8, 1, {3, 0, 4, 0}},
      command::DumpGraph{9, 3, 0},
      // The function gives gradients for inputs 0 and 2.
      command::Backward{30, 0, 1, 1, true, 2.0, {3}},
      command::EnterFunction{30, {25, 0, 26, 27}},
      command::ResumePass{31, 30, {25, 25}},
      command::GetGrad{1, 0, 28},
      command::SetGrad{2, 1, 0},
      command::Grad{32, 1, 1, 1, false, true, 1.0, {3, 4}, {1}, {2, 0}, {29}},
      command::AbandonPass{32},
      command::Unchain{3, 0},
      command::ReleaseBackpropId{1},
      command::GrantAccess{10, 2, true, false, 1000, "*"},
      command::OpenShared{11, "chx-cap:AAAA", true, 40},
      command::Revoke{12, "chx-cap:AAAA"},
      command::Publish{13, "model/weights", "w\nb", "{}", "", false, {3, 4}},
      command::Lookup{14, "", "model/weights", 1, true, {41, 42}},
      command::ListNames{15, "model"},
      command::Unpublish{16, "model/weights", 0},
      command::SaveArrays{17, "step", "{}", {3, 4}},
      command::QuerySaved{18, "step"},
      command::LoadSaved{19, "step", 1, {43, 44}},
      command::ForgetSaved{20, "step"},
      command::NoteGenerator{"12345678"},
      command::BeginProgram{1, {1}},
      command::HoldArray{3},
      command::EndProgram{21, 1, {2}, {}},
      command::RunProgram{1, 1, 2, {}, {1}, {45}},
      command::ExplainProgram{22, 1, true},
      command::PublishProgram{23, "program", "{}", "", false, {1}},
      command::OpenPrograms{24, "", "program", 0, {2}},
      command::ReleaseProgram{1},
      command::JoinGroup{25, 1, 0, 1, "ranks", "secret"},
      command::ReduceBackward{33, 0, 1, 1, 1.0, false, 2, 64, -1, 1, 0, 1, 1, {3}, {1}},
      command::LeaveGroup{1},
      command::Release{{20, 21}},
  };
  std::set<size_t> kinds;
  for (const Command& command : commands) kinds.insert(command.index());
  if (kinds.size() != kNumCommandKinds - 1) std::abort();  // a new kind belongs above
  return commands;
}

// Each operator with its default attributes, each other command, and a small program.
std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  std::string program;
  Handle next = 10;
  for (const auto& op : OpRegistry::Global().ops()) {
    std::string seed;
    std::vector<HandleOperand> inputs;
    for (size_t i = 0; i < op->inputs.size(); ++i) inputs.emplace_back(Handle{1 + i % 4});
    std::vector<AttrValue> attrs;
    for (const AttrDef& attr : op->attrs) attrs.push_back(attr.default_value);
    const std::vector<Handle> outputs(op->outputs.size(), Handle{10});
    CommandWriter writer(&seed);
    const auto id = static_cast<uint16_t>(op->id + 1);
    writer.ApplyOp({id, 0, 0, 0, inputs, attrs, outputs});
    writer.Write(command::Fetch{1, 10});
    seeds.push_back(seed);
    const std::vector<Handle> unique(op->outputs.size(), next++);
    CommandWriter(&program).ApplyOp({id, 0, 0, 0, inputs, attrs, unique});
    if (next > 40) {
      CommandWriter(&program).Release({{Handle{10}, Handle{11}, Handle{12}}});
      next = 10;
    }
  }
  std::string others;
  for (const Command& command : EachOtherKind()) {
    seeds.emplace_back();
    CommandWriter(&seeds.back()).Write(command);
    others += seeds.back();
  }
  seeds.push_back(others);
  program += others;
  seeds.push_back(program);
  return seeds;
}

}  // namespace chx
