// What a session holds is counted, whatever it is made of, and ends at the session's limit.
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/session/memory_fixture.h"

namespace chx::server {
namespace {

// Of the allocator and of what is counted late; and of one command while it runs.
constexpr int64_t kSlack = int64_t{3} << 20;

// What the heap really holds; 0 where a sanitizer has its own.
int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class RetainedMemoryTest : public MemoryTest {
 protected:
  // Makes a command, the i-th, which adds to what the session retains.
  using Maker = std::function<std::vector<Command>(RetainedMemoryTest*, Handle i)>;
  struct Row {
    size_t kind;  // what retains: its position in Command
    const char* name;
    Maker make;
    bool keeps_output = false;  // as a stream does whose client does not read
    int most = 400000;          // commands until the limit must have been reached
    bool bounded = false;       // or it never is, as there are few of them
  };

  // The lists that the test itself keeps.
  int64_t OutputBytes() const {
    return static_cast<int64_t>(output_.values.capacity() * sizeof(output_.values[0]) +
                                output_.errors.capacity() * sizeof(output_.errors[0]));
  }

  void Try(const Row& row) {
    SCOPED_TRACE(row.name);
    Begin();
    output_ = SessionOutput();
    const int64_t heap = HeapBytes();
    const auto check = [&] {
      const SessionStats stats = session_->stats();
      EXPECT_LE(stats.memory_bytes, kLimit + kSlack);
      if (heap == 0) return;
      // The listing tells what there is.
      const int64_t grown = HeapBytes() - heap - OutputBytes();
      const int64_t counted = stats.memory_bytes - stats.array_bytes;
      EXPECT_LE(grown, kLimit + kSlack);
      EXPECT_LE(grown, counted + counted / 8 + kSlack);
    };
    bool reached = false;
    Handle i = 1000;
    for (int n = 0; n < row.most && !reached; ++n) {
      Run(row.make(this, ++i));
      reached = OutOfMemory();
      if (!row.keeps_output) output_.Clear();
      if (n % 1024 == 0) check();
      if (::testing::Test::HasFailure()) return;
    }
    check();
    EXPECT_NE(reached, row.bounded);
    // At the limit for a while longer: nothing creeps.
    for (int n = 0; n < 300; ++n) {
      Run(row.make(this, ++i));
      if (!row.keeps_output) output_.Clear();
    }
    check();
    // It can always give back.
    output_ = SessionOutput();
    std::vector<Handle> all;
    for (Handle handle = 1000; handle <= i + 10; ++handle) all.push_back(handle);
    Run({ReleaseOf({2, 4}), ReleaseOf(all)});
    output_ = SessionOutput();
    EXPECT_LE(session_->stats().handles, 3);
    session_ = nullptr;
    if (heap != 0) {
      EXPECT_LE(HeapBytes(), heap + kSlack);
    }
  }

  static std::vector<Row> Rows();

  std::string name_;  // of what a row publishes
};

// The position of a kind in Command.
template <typename C>
size_t PositionOf() {
  return Command(C()).index();
}

std::string Long(size_t bytes) { return std::string(bytes, 'x'); }

std::vector<RetainedMemoryTest::Row> RetainedMemoryTest::Rows() {
  using Commands = std::vector<Command>;
  static const std::string kPlace = Long(1000);
  static const std::string kText = Long(64 << 10);
  return {
      {PositionOf<command::ApplyOp>(), "handles of one array",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {Op("reshape", {A(3)}, {i}, {AttrValue(Ints{1, 1})})};
       }},
      {PositionOf<command::ApplyOp>(), "small arrays",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {Op("zeros", {}, {i}, {AttrValue(Ints{}), AttrValue(Dtype::kFloat32)})};
       }},
      {PositionOf<command::ApplyOp>(), "a graph behind one handle",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         const Handle last = i == 1001 ? 1 : i - 1;
         if (last == 1) return {Op("reshape", {A(1)}, {i}, {AttrValue(Ints{1, 1})})};
         return {Op("reshape", {A(last)}, {i}, {AttrValue(Ints{1, 1})}), ReleaseOf({last})};
       }},
      {PositionOf<command::ApplyOp>(), "operators over many arrays in a graph",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {Op("concatenate", std::vector<HandleOperand>(500, A(1)), {i},
                    {AttrValue(int64_t{0})})};
       }},
      {PositionOf<command::ApplyOp>(), "operators with long attributes",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {Op("reshape", {A(1)}, {i}, {AttrValue(Ints(1000, 1))})};
       }},
      {PositionOf<command::ApplyOp>(), "errors with long descriptions",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {Op("add", std::vector<HandleOperand>(300, A(2)), {i})};
       }},
      {PositionOf<command::Release>(), "releases of what is not there",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {ReleaseOf(std::vector<Handle>(200, 77))};
       },
       true, 100000},
      {PositionOf<command::Upload>(), "uploads",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         static const std::string data(60000, '\0');
         return {command::Upload{i, Dtype::kFloat32, 0, {15000}, data}};
       }},
      {PositionOf<command::Upload>(), "uploads that fail",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::Upload{i, Dtype::kFloat32, 0, {2}, ""}};
       }},
      {PositionOf<command::UploadFrom>(), "uploads from no stage",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::UploadFrom{i, Dtype::kFloat32, 0, {}, 0, 0}};
       }},
      {PositionOf<command::UploadPart>(), "uploads of parts from no stage",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::UploadPart{i, Dtype::kFloat32, 0, {8}, 0, 0, 0, 16}};
       }},
      {PositionOf<command::Fetch>(), "values",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::Fetch{9, 2}};
       },
       true},
      {PositionOf<command::Fetch>(), "values' errors",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::Fetch{9, 77}};
       },
       true},
      {PositionOf<command::FetchInto>(), "values into no stage",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::FetchInto{9, 2, 0, 0, 0, 0}};
       },
       true},
      {PositionOf<command::Barrier>(), "barriers",
       [](RetainedMemoryTest* t, Handle i) -> Commands { return {command::Barrier{9}}; }, true,
       2000, true},
      {PositionOf<command::RequireGrad>(), "nodes in many graphs",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         Commands commands = {Op("ones", {}, {i}, {AttrValue(Ints{}), AttrValue(Dtype::kFloat32)})};
         for (BackpropId id = 1; id <= 30; ++id) {
           commands.emplace_back(command::NewBackpropId{id});
           commands.emplace_back(command::RequireGrad{i, id});
         }
         return commands;
       }},
      {PositionOf<command::Backward>(), "errors of backward",
       [](RetainedMemoryTest* t, Handle i) -> Commands { return {BackwardOf({77})}; }, true},
      {PositionOf<command::Backward>(), "gradients that are recorded",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {Op("multiply", {A(1), A(1)}, {i}), BackwardOf({i}, true), ReleaseOf({i})};
       }},
      {PositionOf<command::Grad>(), "gradients that there are not",
       [](RetainedMemoryTest* t, Handle i) -> Commands { return {GradOf({4}, {2}, {i})}; }},
      {PositionOf<command::SetGrad>(), "gradients that are set",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {Op("ones", {}, {i}, {AttrValue(Ints{1}), AttrValue(Dtype::kFloat32)}),
                 command::RequireGrad{i}, command::SetGrad{i, 1}};
       }},
      {PositionOf<command::GetGrad>(), "gradients' handles",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {BackwardOf({4}), GetGradOf(1, i)};
       }},
      {PositionOf<command::NewBackpropId>(), "graphs",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::NewBackpropId{static_cast<BackpropId>(i)}};
       },
       false, 5000},
      {PositionOf<command::ReleaseBackpropId>(), "errors of graphs that there are not",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ReleaseBackpropId{static_cast<BackpropId>(i)}};
       },
       true},
      {PositionOf<command::DefineMode>(), "modes",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         command::DefineMode command;
         command.mode = static_cast<uint16_t>(i);
         for (BackpropId id = 0; id < 4000; ++id) command.entries.push_back({id, true});
         return {command};
       },
       false, 1000},
      {PositionOf<command::DefineLocation>(), "locations",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::DefineLocation{static_cast<uint32_t>(i), kPlace}};
       }},
      {PositionOf<command::Unchain>(), "nodes without an operator",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {Op("reshape", {A(1)}, {i}, {AttrValue(Ints{1, 1})}), command::Unchain{i}};
       }},
      {PositionOf<command::QueryGraphs>(), "states",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::QueryGraphs{9, 0, Handles(4000, 1)}};
       },
       true},
      {PositionOf<command::QueryGraphs>(), "too many states",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::QueryGraphs{9, 0, Handles(20000, 1)}};
       },
       true},
      {PositionOf<command::DumpGraph>(), "dumps' errors",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::DumpGraph{9, 2}};
       },
       true},
      {PositionOf<command::RecordFunction>(), "functions",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         command::RecordFunction record;
         record.function = i;
         record.inputs.assign(50, 1);
         record.outputs.push_back(i);
         for (int64_t k = 0; k < 50; ++k) record.retained_inputs.push_back(k);
         return {Op("ones", {}, {i}, {AttrValue(Ints{1}), AttrValue(Dtype::kFloat32)}), record};
       }},
      {PositionOf<command::EnterFunction>(), "errors of functions",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::EnterFunction{i, {}}};
       },
       true},
      {PositionOf<command::ResumePass>(), "errors of backward passes",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ResumePass{9, i, {}}};
       },
       true},
      {PositionOf<command::AbandonPass>(),
       "passes that are over and given up, of which nothing is kept",
       [](RetainedMemoryTest* t, Handle i) -> Commands { return {command::AbandonPass{i}}; }, true,
       20000, true},
      {PositionOf<command::Configure>(), "errors with long texts",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::Configure{kText, Scalar(1)}};
       },
       true, 20000},
      {PositionOf<command::ShareNew>(), "errors of arrays that are not shared",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ShareNew{8, Dtype::kFloat32, 0, {1}, i}};
       }},
      {PositionOf<command::ShareArray>(), "errors of exports",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ShareArray{9, 2}};
       },
       true},
      {PositionOf<command::ShareCopy>(), "errors of shared copies",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ShareCopy{9, 2, i}};
       },
       true},
      {PositionOf<command::ShareAlias>(), "handles of one block",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ShareAlias{9, 2, Dtype::kFloat32, {1}, {4}, 0, i}};
       }},
      {PositionOf<command::GrantAccess>(), "capabilities",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         command::GrantAccess grant;
         grant.request_id = 9;
         grant.handle = 2;
         return {grant};
       },
       true},
      {PositionOf<command::OpenShared>(), "errors of capabilities",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::OpenShared{9, kText, false, i}};
       }},
      {PositionOf<command::Revoke>(), "errors of revoking",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::Revoke{9, kText}};
       },
       true},
      {PositionOf<command::Publish>(), "names",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         t->name_ = "model/" + std::to_string(i);
         command::Publish publish;
         publish.request_id = 9;
         publish.name = t->name_;
         publish.structure = kText;
         publish.paths = "w";
         publish.handles.push_back(2);
         return {publish};
       },
       true},
      {PositionOf<command::Lookup>(), "errors of names",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         command::Lookup lookup;
         lookup.request_id = 9;
         lookup.name = kText;
         lookup.results.push_back(i);
         return {lookup};
       }},
      {PositionOf<command::Unpublish>(), "errors of unpublishing",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::Unpublish{9, kText, 0}};
       },
       true},
      {PositionOf<command::ListNames>(), "lists of names, of which nothing is kept",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ListNames{9, kText}};
       },
       true, 20000, true},
      {PositionOf<command::SaveArrays>(), "saved arrays",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         t->name_ = "saved" + std::to_string(i);
         command::SaveArrays save;
         save.request_id = 9;
         save.name = t->name_;
         save.tree = kText;
         save.handles.push_back(2);
         return {save};
       },
       true},
      {PositionOf<command::QuerySaved>(), "errors of queries",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::QuerySaved{9, kText}};
       },
       true},
      {PositionOf<command::LoadSaved>(), "errors of loading",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         command::LoadSaved load;
         load.request_id = 9;
         load.name = kText;
         load.results.push_back(i);
         return {load};
       },
       true},
      {PositionOf<command::ForgetSaved>(), "errors of forgetting",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ForgetSaved{9, kText}};
       },
       true},
      {PositionOf<command::NoteGenerator>(), "errors of generators",
       [](RetainedMemoryTest* t, Handle i) -> Commands { return {command::NoteGenerator{kText}}; },
       true},
      {PositionOf<command::BeginProgram>(), "a program that has no end",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         Commands commands = {Op("exp", {A(2)}, {i}), ReleaseOf({i})};
         if (i == 1001) commands.insert(commands.begin(), command::BeginProgram{1, {}});
         return commands;
       },
       true, 40000, true},
      {PositionOf<command::EndProgram>(), "programs",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::BeginProgram{i, {2}}, Op("add", {A(2), S(1.0)}, {i}), ReleaseOf({i}),
                 command::EndProgram{9, i, {}, {}}};
       },
       true},
      {PositionOf<command::RunProgram>(), "errors of runs",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         command::RunProgram run;
         run.program = 77;
         run.results.push_back(i);
         return {run};
       },
       true},
      {PositionOf<command::ReleaseProgram>(), "errors of programs that are not there",
       [](RetainedMemoryTest* t, Handle i) -> Commands { return {command::ReleaseProgram{i}}; },
       true},
      {PositionOf<command::ExplainProgram>(), "errors of explanations",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::ExplainProgram{9, i, true}};
       },
       true},
      {PositionOf<command::HoldArray>(), "errors of arrays that are not there",
       [](RetainedMemoryTest* t, Handle i) -> Commands { return {command::HoldArray{i}}; }, true},
      {PositionOf<command::PublishProgram>(), "published programs",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         t->name_ = "program/" + std::to_string(i);
         Commands commands = {command::PublishProgram{9, t->name_, kText, "", false, {1}}};
         if (i == 1001) {
           const Commands recorded = {command::BeginProgram{1, {2}},
                                      Op("add", {A(2), S(1.0)}, {1000}), ReleaseOf({1000}),
                                      command::EndProgram{9, 1, {}, {}}};
           commands.insert(commands.begin(), recorded.begin(), recorded.end());
         }
         return commands;
       },
       true},
      {PositionOf<command::OpenPrograms>(), "opened programs",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         Commands commands = {
             command::OpenPrograms{9, "", "program", 0, {static_cast<int64_t>(i)}}};
         if (i == 1001) {
           const Commands published = {command::BeginProgram{1, {2}},
                                       Op("add", {A(2), S(1.0)}, {1000}), ReleaseOf({1000}),
                                       command::EndProgram{9, 1, {}, {}},
                                       command::PublishProgram{9, "program", "", "", false, {1}}};
           commands.insert(commands.begin(), published.begin(), published.end());
         }
         return commands;
       },
       true},
      {PositionOf<command::JoinGroup>(), "groups",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::JoinGroup{9, static_cast<int64_t>(i), 0, 1, "g", ""}};
       },
       true},
      {PositionOf<command::LeaveGroup>(), "errors of groups that are not there",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         return {command::LeaveGroup{static_cast<int64_t>(i)}};
       },
       true},
      {PositionOf<command::ReduceBackward>(), "backward passes of groups that are not there",
       [](RetainedMemoryTest* t, Handle i) -> Commands {
         command::ReduceBackward pass;
         pass.group = static_cast<int64_t>(i);
         return {pass};
       },
       true},
  };
}

TEST_F(RetainedMemoryTest, WhateverACommandRetainsEndsAtTheLimit) {
  std::set<size_t> kinds;
  for (const Row& row : Rows()) {
    kinds.insert(row.kind);
    Try(row);
    if (HasFailure()) break;
  }
  EXPECT_EQ(kinds.size(), kNumCommandKinds) << "a row for each kind";
}

}  // namespace
}  // namespace chx::server
