// What a session holds is counted, whatever it is made of, and ends at the session's limit.
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

constexpr int64_t kLimit = int64_t{6} << 20;
// Of the allocator and of what is counted late; and of one command while it runs.
constexpr int64_t kSlack = int64_t{3} << 20;

// What the heap really holds; 0 where a sanitizer has its own.
int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class MemoryTest : public SessionTest {
 protected:
  ~MemoryTest() override { session_ = nullptr; }  // before the store

  // Makes a command, the i-th, which adds to what the session retains. The session has a float32
  // array 1 in the default graph, 2 with 15000 elements, and 3, an int64.
  using Maker = std::function<std::vector<Command>(MemoryTest*, Handle i)>;
  struct Row {
    size_t kind;  // what retains: its position in Command
    const char* name;
    Maker make;
    bool keeps_output = false;  // as a stream does whose client does not read
    int most = 400000;          // commands until the limit must have been reached
    bool bounded = false;       // or it never is, as there are few of them
  };

  void Begin(int64_t limit = kLimit) {
    SessionLimits limits;
    limits.memory_bytes = limit;
    Reset(limits);
    auto account = std::make_shared<MemoryAccount>(limit);
    session_ = std::make_unique<Session>(
        &devices_, limits,
        SessionResources{false, account, nullptr, store_.Join(DefaultTenant(), account)});
    Upload(1, {1}, {1});
    Upload(2, std::vector<float>(15000), {15000});
    Run({command::RequireGrad{1},
         Op("zeros", {}, {3}, {AttrValue(Ints{1}), AttrValue(Dtype::kInt64)}),
         Op("add", {A(1), S(1)}, {4})});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
  }

  // The lists that the test itself keeps.
  int64_t OutputBytes() const {
    return static_cast<int64_t>(output_.values.capacity() * sizeof(output_.values[0]) +
                                output_.errors.capacity() * sizeof(output_.errors[0]));
  }

  bool OutOfMemory() const {
    const auto is_memory = [](const RootErrorPtr& error) {
      return error != nullptr && KindOf(error->status) == ErrorKind::kMemory;
    };
    return std::any_of(output_.errors.begin(), output_.errors.end(),
                       [&](const SessionOutput::Error& e) { return is_memory(e.error); }) ||
           std::any_of(output_.values.begin(), output_.values.end(),
                       [&](const SessionOutput::Value& v) { return is_memory(v.error); });
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

  SharedStore store_;
  std::string name_;  // of what a row publishes
};

// The position of a kind in Command.
template <typename C>
size_t PositionOf() {
  return Command(C()).index();
}

std::string Long(size_t bytes) { return std::string(bytes, 'x'); }

std::vector<MemoryTest::Row> MemoryTest::Rows() {
  using Commands = std::vector<Command>;
  static const std::string kPlace = Long(1000);
  static const std::string kText = Long(64 << 10);
  return {
      {PositionOf<command::ApplyOp>(), "handles of one array",
       [](MemoryTest* t, Handle i) -> Commands {
         return {Op("reshape", {A(3)}, {i}, {AttrValue(Ints{1, 1})})};
       }},
      {PositionOf<command::ApplyOp>(), "small arrays",
       [](MemoryTest* t, Handle i) -> Commands {
         return {Op("zeros", {}, {i}, {AttrValue(Ints{}), AttrValue(Dtype::kFloat32)})};
       }},
      {PositionOf<command::ApplyOp>(), "a graph behind one handle",
       [](MemoryTest* t, Handle i) -> Commands {
         const Handle last = i == 1001 ? 1 : i - 1;
         if (last == 1) return {Op("reshape", {A(1)}, {i}, {AttrValue(Ints{1, 1})})};
         return {Op("reshape", {A(last)}, {i}, {AttrValue(Ints{1, 1})}), ReleaseOf({last})};
       }},
      {PositionOf<command::ApplyOp>(), "operators over many arrays in a graph",
       [](MemoryTest* t, Handle i) -> Commands {
         return {Op("concatenate", std::vector<HandleOperand>(500, A(1)), {i},
                    {AttrValue(int64_t{0})})};
       }},
      {PositionOf<command::ApplyOp>(), "operators with long attributes",
       [](MemoryTest* t, Handle i) -> Commands {
         return {Op("reshape", {A(1)}, {i}, {AttrValue(Ints(1000, 1))})};
       }},
      {PositionOf<command::ApplyOp>(), "errors with long descriptions",
       [](MemoryTest* t, Handle i) -> Commands {
         return {Op("add", std::vector<HandleOperand>(300, A(2)), {i})};
       }},
      {PositionOf<command::Release>(), "releases of what is not there",
       [](MemoryTest* t, Handle i) -> Commands {
         return {ReleaseOf(std::vector<Handle>(200, 77))};
       },
       true, 100000},
      {PositionOf<command::Upload>(), "uploads",
       [](MemoryTest* t, Handle i) -> Commands {
         static const std::string data(60000, '\0');
         return {command::Upload{i, Dtype::kFloat32, 0, {15000}, data}};
       }},
      {PositionOf<command::Upload>(), "uploads that fail",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::Upload{i, Dtype::kFloat32, 0, {2}, ""}};
       }},
      {PositionOf<command::UploadFrom>(), "uploads from no stage",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::UploadFrom{i, Dtype::kFloat32, 0, {}, 0, 0}};
       }},
      {PositionOf<command::Fetch>(), "values",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::Fetch{9, 2}};
       },
       true},
      {PositionOf<command::Fetch>(), "values' errors",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::Fetch{9, 77}};
       },
       true},
      {PositionOf<command::FetchInto>(), "values into no stage",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::FetchInto{9, 2, 0, 0, 0, 0}};
       },
       true},
      {PositionOf<command::Barrier>(), "barriers",
       [](MemoryTest* t, Handle i) -> Commands { return {command::Barrier{9}}; }, true, 2000, true},
      {PositionOf<command::RequireGrad>(), "nodes in many graphs",
       [](MemoryTest* t, Handle i) -> Commands {
         Commands commands = {Op("ones", {}, {i}, {AttrValue(Ints{}), AttrValue(Dtype::kFloat32)})};
         for (BackpropId id = 1; id <= 30; ++id) {
           commands.emplace_back(command::NewBackpropId{id});
           commands.emplace_back(command::RequireGrad{i, id});
         }
         return commands;
       }},
      {PositionOf<command::Backward>(), "errors of backward",
       [](MemoryTest* t, Handle i) -> Commands { return {BackwardOf({77})}; }, true},
      {PositionOf<command::Backward>(), "gradients that are recorded",
       [](MemoryTest* t, Handle i) -> Commands {
         return {Op("multiply", {A(1), A(1)}, {i}), BackwardOf({i}, true), ReleaseOf({i})};
       }},
      {PositionOf<command::Grad>(), "gradients that there are not",
       [](MemoryTest* t, Handle i) -> Commands { return {GradOf({4}, {2}, {i})}; }},
      {PositionOf<command::SetGrad>(), "gradients that are set",
       [](MemoryTest* t, Handle i) -> Commands {
         return {Op("ones", {}, {i}, {AttrValue(Ints{1}), AttrValue(Dtype::kFloat32)}),
                 command::RequireGrad{i}, command::SetGrad{i, 1}};
       }},
      {PositionOf<command::GetGrad>(), "gradients' handles",
       [](MemoryTest* t, Handle i) -> Commands {
         return {BackwardOf({4}), GetGradOf(1, i)};
       }},
      {PositionOf<command::NewBackpropId>(), "graphs",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::NewBackpropId{static_cast<BackpropId>(i)}};
       },
       false, 5000},
      {PositionOf<command::ReleaseBackpropId>(), "errors of graphs that there are not",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ReleaseBackpropId{static_cast<BackpropId>(i)}};
       },
       true},
      {PositionOf<command::DefineMode>(), "modes",
       [](MemoryTest* t, Handle i) -> Commands {
         command::DefineMode command;
         command.mode = static_cast<uint16_t>(i);
         for (BackpropId id = 0; id < 4000; ++id) command.entries.push_back({id, true});
         return {command};
       },
       false, 1000},
      {PositionOf<command::DefineLocation>(), "locations",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::DefineLocation{static_cast<uint32_t>(i), kPlace}};
       }},
      {PositionOf<command::Unchain>(), "nodes without an operator",
       [](MemoryTest* t, Handle i) -> Commands {
         return {Op("reshape", {A(1)}, {i}, {AttrValue(Ints{1, 1})}), command::Unchain{i}};
       }},
      {PositionOf<command::QueryGraphs>(), "states",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::QueryGraphs{9, 0, Handles(4000, 1)}};
       },
       true},
      {PositionOf<command::QueryGraphs>(), "too many states",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::QueryGraphs{9, 0, Handles(20000, 1)}};
       },
       true},
      {PositionOf<command::DumpGraph>(), "dumps' errors",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::DumpGraph{9, 2}};
       },
       true},
      {PositionOf<command::RecordFunction>(), "functions",
       [](MemoryTest* t, Handle i) -> Commands {
         command::RecordFunction record;
         record.function = i;
         record.inputs.assign(50, 1);
         record.outputs.push_back(i);
         for (int64_t k = 0; k < 50; ++k) record.retained_inputs.push_back(k);
         return {Op("ones", {}, {i}, {AttrValue(Ints{1}), AttrValue(Dtype::kFloat32)}), record};
       }},
      {PositionOf<command::EnterFunction>(), "errors of functions",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::EnterFunction{i, {}}};
       },
       true},
      {PositionOf<command::ResumePass>(), "errors of backward passes",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ResumePass{9, i, {}}};
       },
       true},
      {PositionOf<command::AbandonPass>(),
       "passes that are over and given up, of which nothing is kept",
       [](MemoryTest* t, Handle i) -> Commands { return {command::AbandonPass{i}}; }, true, 20000,
       true},
      {PositionOf<command::Configure>(), "errors with long texts",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::Configure{kText, Scalar(1)}};
       },
       true, 20000},
      {PositionOf<command::ShareNew>(), "errors of arrays that are not shared",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ShareNew{8, Dtype::kFloat32, 0, {1}, i}};
       }},
      {PositionOf<command::ShareArray>(), "errors of exports",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ShareArray{9, 2}};
       },
       true},
      {PositionOf<command::ShareCopy>(), "errors of shared copies",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ShareCopy{9, 2, i}};
       },
       true},
      {PositionOf<command::ShareAlias>(), "handles of one block",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ShareAlias{9, 2, Dtype::kFloat32, {1}, {4}, 0, i}};
       }},
      {PositionOf<command::GrantAccess>(), "capabilities",
       [](MemoryTest* t, Handle i) -> Commands {
         command::GrantAccess grant;
         grant.request_id = 9;
         grant.handle = 2;
         return {grant};
       },
       true},
      {PositionOf<command::OpenShared>(), "errors of capabilities",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::OpenShared{9, kText, false, i}};
       }},
      {PositionOf<command::Revoke>(), "errors of revoking",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::Revoke{9, kText}};
       },
       true},
      {PositionOf<command::Publish>(), "names",
       [](MemoryTest* t, Handle i) -> Commands {
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
       [](MemoryTest* t, Handle i) -> Commands {
         command::Lookup lookup;
         lookup.request_id = 9;
         lookup.name = kText;
         lookup.results.push_back(i);
         return {lookup};
       }},
      {PositionOf<command::Unpublish>(), "errors of unpublishing",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::Unpublish{9, kText, 0}};
       },
       true},
      {PositionOf<command::ListNames>(), "lists of names, of which nothing is kept",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ListNames{9, kText}};
       },
       true, 20000, true},
      {PositionOf<command::SaveArrays>(), "saved arrays",
       [](MemoryTest* t, Handle i) -> Commands {
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
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::QuerySaved{9, kText}};
       },
       true},
      {PositionOf<command::LoadSaved>(), "errors of loading",
       [](MemoryTest* t, Handle i) -> Commands {
         command::LoadSaved load;
         load.request_id = 9;
         load.name = kText;
         load.results.push_back(i);
         return {load};
       },
       true},
      {PositionOf<command::ForgetSaved>(), "errors of forgetting",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ForgetSaved{9, kText}};
       },
       true},
      {PositionOf<command::NoteGenerator>(), "errors of generators",
       [](MemoryTest* t, Handle i) -> Commands { return {command::NoteGenerator{kText}}; }, true},
      {PositionOf<command::BeginProgram>(), "a program that has no end",
       [](MemoryTest* t, Handle i) -> Commands {
         Commands commands = {Op("exp", {A(2)}, {i}), ReleaseOf({i})};
         if (i == 1001) commands.insert(commands.begin(), command::BeginProgram{1, {}});
         return commands;
       },
       true, 40000, true},
      {PositionOf<command::EndProgram>(), "programs",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::BeginProgram{i, {2}}, Op("add", {A(2), S(1.0)}, {i}), ReleaseOf({i}),
                 command::EndProgram{9, i, {}, {}}};
       },
       true},
      {PositionOf<command::RunProgram>(), "errors of runs",
       [](MemoryTest* t, Handle i) -> Commands {
         command::RunProgram run;
         run.program = 77;
         run.results.push_back(i);
         return {run};
       },
       true},
      {PositionOf<command::ReleaseProgram>(), "errors of programs that are not there",
       [](MemoryTest* t, Handle i) -> Commands { return {command::ReleaseProgram{i}}; }, true},
      {PositionOf<command::ExplainProgram>(), "errors of explanations",
       [](MemoryTest* t, Handle i) -> Commands {
         return {command::ExplainProgram{9, i, true}};
       },
       true},
      {PositionOf<command::HoldArray>(), "errors of arrays that are not there",
       [](MemoryTest* t, Handle i) -> Commands { return {command::HoldArray{i}}; }, true},
  };
}

TEST_F(MemoryTest, WhateverACommandRetainsEndsAtTheLimit) {
  std::set<size_t> kinds;
  for (const Row& row : Rows()) {
    kinds.insert(row.kind);
    Try(row);
    if (HasFailure()) break;
  }
  EXPECT_EQ(kinds.size(), kNumCommandKinds) << "a row for each kind";
}

// As in a chain that is 2.3 KB an operator, which the listing did not show.
TEST_F(MemoryTest, TheListingShowsGraphsAndHandles) {
  Begin();
  const int64_t before = session_->stats().memory_bytes;
  for (Handle i = 1001; i <= 2000; ++i) {
    Run({Op("reshape", {A(i == 1001 ? 1 : i - 1)}, {i}, {AttrValue(Ints{1, 1})})});
  }
  ASSERT_TRUE(output_.errors.empty()) << LastError();
  const SessionStats stats = session_->stats();
  EXPECT_GT(stats.memory_bytes - before, 1000 * 2000);
  EXPECT_LT(stats.array_bytes, 2 << 20);
}

TEST_F(MemoryTest, WhatCouldNotBeBoundIsAnErrorOfMemory) {
  Begin();
  // All memory goes into one graph; then not even the table of handles can grow.
  Handle i = 1000;
  while (!OutOfMemory()) {
    ++i;
    Run({Op("reshape", {A(i == 1001 ? 1 : i - 1)}, {i}, {AttrValue(Ints{1, 1})})});
  }
  output_.Clear();
  for (Handle handle = 100000; handle < 120000; ++handle) {
    Run({Op("reshape", {A(3)}, {handle}, {AttrValue(Ints{1, 1})})});
    output_.Clear();
  }
  RootErrorPtr error;
  Fetch(119999, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(KindOf(error->status), ErrorKind::kMemory) << error->status;
  output_.Clear();
  // The client may release it, and all the others; then there is room again.
  std::vector<Handle> all = {119999};
  for (Handle handle = 1001; handle <= i; ++handle) all.push_back(handle);
  Run({ReleaseOf(all)});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  Run({Op("reshape", {A(1)}, {500000}, {AttrValue(Ints{1, 1})})});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  EXPECT_EQ(Fetch(500000), std::vector<float>{1});
}

TEST_F(MemoryTest, UnusedArraysMakeRoomForRecords) {
  Begin(int64_t{12} << 20);
  const AttrValue shape(Ints{1 << 20}), dtype(Dtype::kFloat32);
  Run({Op("zeros", {}, {10}, {shape, dtype}), Op("zeros", {}, {11}, {shape, dtype}),
       ReleaseOf({10, 11})});
  ASSERT_TRUE(output_.errors.empty()) << LastError();
  EXPECT_GT(session_->stats().array_bytes, 8 << 20);
  for (Handle i = 1001; i <= 3500; ++i) {
    Run({Op("reshape", {A(i == 1001 ? 1 : i - 1)}, {i}, {AttrValue(Ints{1, 1})})});
  }
  EXPECT_TRUE(output_.errors.empty()) << LastError();
}

TEST_F(MemoryTest, ManyElementsOfAViewAreNotCopiedOut) {
  Begin();
  Run({Op("broadcast_to", {A(1)}, {10}, {AttrValue(Ints{int64_t{1} << 50})})});
  ASSERT_TRUE(output_.errors.empty()) << LastError();
  EXPECT_EQ(session_->ReadArray(10).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(MemoryTest, ACopyOnItsWayToTheClientIsTheDaemons) {
  MemoryBudget budget(int64_t{24} << 20);
  SessionLimits limits;
  limits.memory_bytes = int64_t{20} << 20;
  const auto account = std::make_shared<MemoryAccount>(limits.memory_bytes, &budget);
  Session session(&devices_, limits, SessionResources{false, account});
  SessionOutput output;
  const AttrValue dtype(Dtype::kFloat32);
  std::vector<Command> commands = {Op("zeros", {}, {1}, {AttrValue(Ints{2 << 20}), dtype}),
                                   Op("zeros", {}, {2}, {AttrValue(Ints{2 << 20}), dtype})};
  session.Execute(commands, &output);
  ASSERT_TRUE(output.errors.empty());
  // More than the session's limit leaves, but not more than the daemon's.
  absl::StatusOr<Session::HostCopy> copy = session.ReadArray(1);
  EXPECT_EQ(copy.status().code(), absl::StatusCode::kResourceExhausted);  // 16 + 8 + records
  commands = {ReleaseOf({2})};
  session.Execute(commands, &output);
  commands = {Op("zeros", {}, {3}, {AttrValue(Ints{3 << 19}), dtype})};
  session.Execute(commands, &output);
  copy = session.ReadArray(3);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(account->used_for(MemoryUse::kTransfers), 6 << 20);
  copy = absl::UnknownError("");
  EXPECT_EQ(account->used_for(MemoryUse::kTransfers), 0);
}

}  // namespace
}  // namespace chx::server
