// Programs that sessions publish, and run in other sessions.
#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "ops/registry.h"
#include "server/session/published_programs.h"
#include "server/session/session_manager.h"
#include "tests/session/session_fixture.h"
#include "tests/session/sharing_client.h"

namespace chx::server {
namespace {

using Floats = std::vector<float>;
using Commands = std::vector<Command>;

bool Says(const absl::Status& status, const std::string& text) {
  return !status.ok() && status.message().find(text) != absl::string_view::npos;
}

class PublishedProgramsTest : public SessionTest {
 protected:
  std::unique_ptr<Client> New(TenantPtr tenant = NewTenant("lab"), int64_t memory = 64 << 20) {
    return std::make_unique<Client>(&devices_, &store_, std::move(tenant), memory);
  }

  // Why it was not recorded, or has no plan; empty: it has one.
  static std::string Record(Client* client, uint64_t number, std::vector<Handle> arguments,
                            Commands commands, std::vector<Handle> outputs, Ints slots = {}) {
    EXPECT_TRUE(client->Do(command::BeginProgram{number, List(arguments)}).ok());
    for (Command& command : commands) client->Do(std::move(command)).IgnoreError();
    const absl::StatusOr<std::string> declined =
        client->Ask(command::EndProgram{0, number, List(outputs), std::move(slots)});
    return declined.ok() ? *declined : std::string(declined.status().message());
  }
  // y = 10 x + w, as number 1: x is 2, w 1, y 4.
  void RecordLinear(Client* client, int64_t size = 4) {
    client->Fill(1, size, 5);
    client->Fill(2, size, 1);
    ASSERT_EQ(
        Record(client, 1, {2},
               {Op("multiply", {A(2), S(10.0)}, {3}), Op("add", {A(3), A(1)}, {4}), ReleaseOf({3})},
               {4}),
        "");
  }
  static absl::StatusOr<std::string> Publish(Client* client, Ints programs = {1}, bool keep = false,
                                             const std::string& readers = "") {
    return client->Ask(
        command::PublishProgram{0, "mlp/predict", "", readers, keep, std::move(programs)});
  }
  static absl::Status Open(Client* client, Ints numbers = {1}, const std::string& tenant = "") {
    return client->Ask(command::OpenPrograms{0, tenant, "mlp/predict", 0, std::move(numbers)})
        .status();
  }
  static absl::Status Call(Client* client, std::vector<Handle> arguments,
                           std::vector<Handle> results, int64_t times = 1) {
    command::RunProgram run;
    run.program = 1;
    run.times = times;
    run.arguments = List(arguments);
    run.results = List(results);
    return client->Do(run);
  }
  static std::string PlanOf(Client* client) {
    const absl::StatusOr<std::string> text = client->Ask(command::ExplainProgram{0, 1, false});
    return text.ok() ? *text : std::string(text.status().message());
  }

  SharedStore store_;
};

TEST_F(PublishedProgramsTest, AHolderRunsItOnTheOwnersArrays) {
  auto owner = New(), holder = New();
  RecordLinear(owner.get());
  const absl::StatusOr<std::string> version = Publish(owner.get());
  ASSERT_TRUE(version.ok()) << version.status();
  ASSERT_TRUE(Open(holder.get()).ok());
  holder->Fill(2, 4, 3);  // no matter what the owner's handles are
  for (Handle i : {Handle{11}, Handle{12}, Handle{13}}) {
    ASSERT_TRUE(Call(holder.get(), {2}, {i}).ok());
    EXPECT_EQ(holder->Read(i)->front(), 35);
  }
  // By a plan, after the first time.
  EXPECT_EQ(PlanOf(holder.get()).substr(0, 10), "program\t\np");
  ASSERT_TRUE(owner->AddOne(1).ok());
  ASSERT_TRUE(Call(holder.get(), {2}, {14}).ok());
  EXPECT_EQ(holder->Read(14)->back(), 36);
  // Whatever becomes of the owner's program and array.
  ASSERT_TRUE(owner->Do(command::ReleaseProgram{1}).ok());
  ASSERT_TRUE(owner->Do(ReleaseOf({1})).ok());
  ASSERT_TRUE(Call(holder.get(), {2}, {15}, 1000).ok());
  EXPECT_EQ(holder->Read(15)->back(), 36);
  ASSERT_TRUE(holder->Do(command::ReleaseProgram{1}).ok());
  EXPECT_EQ(holder->session().stats().shared_bytes, 0);
}

TEST_F(PublishedProgramsTest, TheOwnersOwnRunsArePlannedStill) {
  auto owner = New();
  RecordLinear(owner.get());
  ASSERT_TRUE(Publish(owner.get()).ok());
  ASSERT_TRUE(Call(owner.get(), {2}, {5}).ok());
  ASSERT_TRUE(owner->Ask(command::ExplainProgram{0, 1, true}).ok());
  ASSERT_TRUE(Call(owner.get(), {2}, {6}, 7).ok());
  EXPECT_EQ(owner->Read(6)->front(), 15);
  EXPECT_NE(PlanOf(owner.get()).find("\t7"), std::string::npos) << PlanOf(owner.get());
}

TEST_F(PublishedProgramsTest, MemoryCountsForTheOwnerAndIsShownAtHolders) {
  auto owner = New(), holder = New();
  constexpr int64_t kBytes = 4 << 20;
  RecordLinear(owner.get(), kBytes / 4);
  ASSERT_TRUE(Publish(owner.get()).ok());
  const int64_t before = holder->memory();
  ASSERT_TRUE(Open(holder.get()).ok());
  EXPECT_LT(holder->memory() - before, kBytes / 8);
  EXPECT_EQ(holder->session().stats().shared_bytes, kBytes);
  EXPECT_GE(owner->memory(), kBytes);
}

TEST_F(PublishedProgramsTest, AHoldersQuotaHolds) {
  constexpr int64_t kBytes = 4 << 20;
  auto owner = New(), holder = New(NewTenant("lab"), kBytes + kBytes / 2);
  RecordLinear(owner.get(), kBytes / 4);
  ASSERT_TRUE(Publish(owner.get()).ok());
  ASSERT_TRUE(Open(holder.get()).ok());
  holder->Fill(2, kBytes / 4, 1);
  const absl::Status status = Call(holder.get(), {2}, {3});
  EXPECT_EQ(KindOf(status), ErrorKind::kMemory) << status;
  EXPECT_EQ(KindOf(holder->Read(3).status()), ErrorKind::kMemory);
}

TEST_F(PublishedProgramsTest, WhatChangesTheOwnersSessionIsRefused) {
  auto owner = New();
  owner->Fill(1, 4, 5);
  owner->Fill(2, 4, 1);
  // Writes, also through a view.
  EXPECT_EQ(Record(owner.get(), 1, {2}, {Op("add_", {A(1), A(2)}, {})}, {}), "");
  const std::string writes = "one that writes to float32(4,), which it captures: return new values";
  EXPECT_TRUE(Says(Publish(owner.get()).status(), writes)) << Publish(owner.get()).status();
  const auto view = [&](Handle result) {
    return Op("reshape", {A(1)}, {result}, {AttrValue::FromInts({2, 2})});
  };
  EXPECT_EQ(
      Record(owner.get(), 2, {2}, {view(10), Op("add_", {A(10), S(1.0)}, {}), ReleaseOf({10})}, {}),
      "");
  EXPECT_TRUE(Says(Publish(owner.get(), {2}).status(), writes));
  // Random numbers, and others that vary.
  const command::ApplyOp normal =
      Op("random_normal", {}, {11},
         {AttrValue::FromInts({4}), AttrValue(0.0), AttrValue(1.0), AttrValue(Dtype::kFloat32),
          AttrValue(int64_t{1}), AttrValue(int64_t{0})});
  const int seed = OpRegistry::Global().Find("random_normal")->AttrIndex("seed");
  EXPECT_EQ(Record(owner.get(), 3, {2}, {normal}, {11}, {0, seed}), "");
  EXPECT_TRUE(Says(Publish(owner.get(), {3}).status(), "[random_normal] draws from its random"))
      << Publish(owner.get(), {3}).status();
  Record(owner.get(), 4, {2},
         {OpByDefault("full", {}, {12}, {AttrValue::FromInts({}), AttrValue(Scalar(1.0))}),
          Op("multiply", {A(2), A(12)}, {13})},
         {13}, {0, 1});
  EXPECT_TRUE(Says(Publish(owner.get(), {4}).status(), "without numbers that vary"))
      << Publish(owner.get(), {4}).status();
  // Gradients of what it captures, whether they survive or not.
  ASSERT_TRUE(owner->Do(command::RequireGrad{1}).ok());
  EXPECT_EQ(Record(owner.get(), 5, {2},
                   {Op("multiply", {A(1), A(2)}, {14}), BackwardOf({14}), ReleaseOf({14})}, {}),
            "");
  EXPECT_TRUE(Says(Publish(owner.get(), {5}).status(), "gradients of arrays that it captures"));
  // What it keeps.
  EXPECT_EQ(
      Record(owner.get(), 6, {2}, {Op("add", {A(2), S(1.0)}, {15}), command::HoldArray{15}}, {}),
      "");
  EXPECT_TRUE(Says(Publish(owner.get(), {6}).status(), "keeps an array from one call to the next"))
      << Publish(owner.get(), {6}).status();
  // All of them or none.
  EXPECT_FALSE(Publish(owner.get(), {1, 2}).ok());
  EXPECT_TRUE(Says(Publish(owner.get(), {}).status(), "expects 1 to 64 programs"));
  EXPECT_TRUE(Says(Publish(owner.get(), {99}).status(), "expects a program of this session"));
  EXPECT_TRUE(Says(Publish(owner.get(), {-1}).status(), "expects a program of this session"));
}

TEST_F(PublishedProgramsTest, GradientsOfArgumentsAreTheHolders) {
  auto owner = New(), holder = New();
  owner->Fill(1, 3, 5);
  owner->Fill(2, 3, 1);
  ASSERT_TRUE(owner->Do(command::RequireGrad{2}).ok());
  EXPECT_EQ(Record(owner.get(), 1, {2},
                   {Op("multiply", {A(1), A(2)}, {3}), BackwardOf({3}), ReleaseOf({3})}, {}),
            "");
  ASSERT_TRUE(Publish(owner.get()).ok());
  ASSERT_TRUE(Open(holder.get()).ok());
  holder->Fill(7, 3, 1);
  ASSERT_TRUE(holder->Do(command::RequireGrad{7}).ok());
  ASSERT_TRUE(Call(holder.get(), {7}, {}, 2).ok());
  ASSERT_TRUE(holder->Do(GetGradOf(7, 8)).ok());
  EXPECT_EQ(*holder->Read(8), Floats(3, 10));
}

TEST_F(PublishedProgramsTest, AnArgumentIsWrittenAndNothingElse) {
  auto owner = New(), holder = New();
  owner->Fill(1, 4, 5);
  owner->Fill(2, 4, 1);
  EXPECT_EQ(Record(owner.get(), 1, {2}, {Op("add_", {A(2), A(1)}, {})}, {}), "");
  ASSERT_TRUE(Publish(owner.get()).ok());
  ASSERT_TRUE(Open(holder.get()).ok());
  holder->Fill(7, 4, 1);
  ASSERT_TRUE(Call(holder.get(), {7}, {}, 3).ok());
  EXPECT_EQ(*holder->Read(7), Floats(4, 16));
  // An array that it may only read is no exception.
  owner->Fill(3, 4, 2);
  ASSERT_TRUE(holder->Open(*owner->Share(3), 8).ok());
  EXPECT_TRUE(Says(Call(holder.get(), {8}, {}), "expects an array that it may write to"));
  EXPECT_EQ(*owner->Read(3), Floats(4, 2));
  ASSERT_TRUE(holder->Open(*owner->Share(3), 9, /*copy=*/true).ok());
  ASSERT_TRUE(Call(holder.get(), {9}, {}).ok());
  EXPECT_EQ(*holder->Read(9), Floats(4, 7));
  EXPECT_EQ(*owner->Read(3), Floats(4, 2));
  ASSERT_TRUE(holder->Open(*owner->Share(3, /*write=*/true), 10).ok());
  ASSERT_TRUE(Call(holder.get(), {10}, {}).ok());
  EXPECT_EQ(*owner->Read(3), Floats(4, 7));
}

TEST_F(PublishedProgramsTest, ErrorsAreAtTheHoldersLine) {
  auto owner = New(), holder = New();
  owner->Fill(1, 4, 5);
  owner->Fill(2, 1, 1);
  const auto index = [&](Handle result) {
    command::ApplyOp cast = Op("astype", {A(2)}, {result}, {AttrValue(Dtype::kInt64)});
    cast.location = 77;
    return cast;
  };
  command::ApplyOp take = OpByDefault("take", {A(1), A(10)}, {11}, {AttrValue(int64_t{0})});
  take.location = 78;
  ASSERT_EQ(Record(owner.get(), 1, {2}, {index(10), take, ReleaseOf({10})}, {11}), "");
  ASSERT_TRUE(Publish(owner.get()).ok());
  ASSERT_TRUE(Open(holder.get()).ok());
  holder->Fill(5, 1, 3);
  holder->Fill(6, 1, 100);  // there is no such row
  for (const uint32_t line : {5u, 77u, 78u}) {
    const std::string text = "serve.py:" + std::to_string(line);
    ASSERT_TRUE(holder->Do(command::DefineLocation{line, text}).ok());
  }
  Handle result = 20;
  for (const Handle argument : {5, 6, 5, 6, 6}) {  // the last ones by a plan
    command::RunProgram run;
    run.program = 1;
    run.location = 5;
    run.arguments = {argument};
    run.results = {++result};
    SessionOutput output;
    holder->session().Execute({Command(run)}, &output);
    ASSERT_EQ(output.errors.size(), argument == 6 ? 1u : 0u);
    if (argument == 6) {
      EXPECT_EQ(output.errors[0].error->location, "serve.py:5");
      EXPECT_FALSE(holder->Read(result).ok());
    } else {
      EXPECT_EQ(*holder->Read(result), Floats(1, 5));
    }
  }
}

TEST_F(PublishedProgramsTest, WithdrawnIsAnErrorAndFreesMemory) {
  auto owner = New(), holder = New();
  RecordLinear(owner.get(), 1 << 20);
  ASSERT_TRUE(Publish(owner.get()).ok());
  ASSERT_TRUE(Open(holder.get()).ok());
  holder->Fill(2, 1 << 20, 3);
  ASSERT_TRUE(Call(holder.get(), {2}, {3}).ok());
  ASSERT_TRUE(owner->Do(ReleaseOf({1})).ok());
  ASSERT_TRUE(owner->Do(command::ReleaseProgram{1}).ok());
  const int64_t used = devices_.slot(0).used_bytes;
  ASSERT_TRUE(owner->Ask(command::Unpublish{0, "mlp/predict", 1}).ok());
  EXPECT_LE(devices_.slot(0).used_bytes, used - (4 << 20));  // although the holder has it
  const absl::Status status = Call(holder.get(), {2}, {4});
  EXPECT_TRUE(Says(status, "[run_program] the program is not published any more")) << status;
  EXPECT_EQ(KindOf(holder->Read(4).status()), ErrorKind::kContext);
  EXPECT_TRUE(Says(Open(holder.get(), {2}), "expects a name that is published"));
  ASSERT_TRUE(holder->Do(command::ReleaseProgram{1}).ok());
}

TEST_F(PublishedProgramsTest, WithoutArraysItIsWithdrawnToo) {
  auto owner = New(), holder = New();
  owner->Fill(2, 4, 1);
  EXPECT_EQ(Record(owner.get(), 1, {2}, {Op("add", {A(2), S(1.0)}, {3})}, {3}), "");
  ASSERT_TRUE(Publish(owner.get()).ok());
  ASSERT_TRUE(Open(holder.get()).ok());
  holder->Fill(2, 4, 1);
  ASSERT_TRUE(Call(holder.get(), {2}, {3}).ok());
  ASSERT_TRUE(owner->Ask(command::Unpublish{0, "mlp/predict", 0}).ok());
  EXPECT_TRUE(Says(Call(holder.get(), {2}, {4}), "not published any more"));
}

TEST_F(PublishedProgramsTest, TheOwnersEndIsAsItWasChosen) {
  for (const bool keep : {false, true}) {
    auto owner = New(), holder = New();
    RecordLinear(owner.get());
    ASSERT_TRUE(Publish(owner.get(), {1}, keep).ok());
    ASSERT_TRUE(Open(holder.get()).ok());
    holder->Fill(2, 4, 3);
    owner->End();
    const absl::Status status = Call(holder.get(), {2}, {3});
    if (keep) {
      EXPECT_EQ(*holder->Read(3), Floats(4, 35)) << status;
      ASSERT_TRUE(holder->Ask(command::Unpublish{0, "mlp/predict", 0}).ok());
    }
    EXPECT_TRUE(keep ? status.ok() : Says(status, "the session that published this program"));
    EXPECT_FALSE(Call(holder.get(), {2}, {4}).ok());
  }
}

TEST_F(PublishedProgramsTest, OnlyReadersOpenIt) {
  auto owner = New(), stranger = New(NewTenant("other")), reader = New(NewTenant("vision"));
  RecordLinear(owner.get());
  ASSERT_TRUE(Publish(owner.get(), {1}, false, "vision").ok());
  EXPECT_TRUE(Says(Open(stranger.get(), {1}, "lab"), "that this tenant may read"));
  EXPECT_TRUE(Says(Call(stranger.get(), {}, {}), "expects a program of this session"));
  EXPECT_TRUE(Open(reader.get(), {1}, "lab").ok());
  auto none = New(NewTenant("lab", /*may_share=*/false));
  EXPECT_TRUE(Says(Open(none.get()), "features lack shared-names"));
}

TEST_F(PublishedProgramsTest, HostileNumbersAndNamesAreRefused) {
  auto owner = New(), holder = New();
  RecordLinear(owner.get());
  ASSERT_TRUE(Publish(owner.get()).ok());
  for (const Ints& numbers : {Ints{}, Ints{1, 2}, Ints{-1}, Ints(1000, 3)}) {
    EXPECT_FALSE(Open(holder.get(), numbers).ok());
  }
  ASSERT_TRUE(Open(holder.get(), {1}).ok());
  EXPECT_TRUE(Says(Open(holder.get(), {1}), "expects new numbers"));
  // What was opened is not passed on, nor are arrays programs, or programs arrays.
  EXPECT_TRUE(Says(Publish(holder.get()).status(), "one that another session has published"));
  EXPECT_TRUE(Says(holder->Ask(command::Lookup{0, "", "mlp/predict", 0, false, {77}}).status(),
                   "expects a name of arrays"));
  EXPECT_TRUE(Says(holder->Read(77).status(), "expects a name of arrays"));  // was promised
  ASSERT_TRUE(owner->Publish("arrays", Handles{2}).ok());
  EXPECT_TRUE(
      Says(holder->Ask(command::OpenPrograms{0, "", "arrays", 0, {9}}).status(), "of programs"));
  // Arguments of other shapes are errors of operators, and no harm.
  holder->Fill(20, 9, 1);
  EXPECT_FALSE(Call(holder.get(), {20}, {21}).ok());
  EXPECT_FALSE(Call(holder.get(), {20, 20}, {22}).ok());
  EXPECT_FALSE(Call(holder.get(), {}, {}).ok());
  // A client that releases what is the program's has none.
  ASSERT_TRUE(holder->Do(ReleaseOf({kFirstProgramHandle})).ok());
  holder->Fill(23, 4, 1);
  EXPECT_FALSE(Call(holder.get(), {23}, {24}).ok());
  holder->End();
}

TEST_F(PublishedProgramsTest, SeveralShapesShareTheirArrays) {
  auto owner = New(), holder = New();
  constexpr int64_t kSize = 1 << 18;
  RecordLinear(owner.get(), kSize);
  owner->Fill(6, 1, 2);
  EXPECT_EQ(Record(owner.get(), 2, {6}, {Op("add", {A(6), A(1)}, {7})}, {7}), "");
  ASSERT_TRUE(Publish(owner.get(), {1, 2}).ok());
  const absl::StatusOr<std::string> text =
      holder->Ask(command::Lookup{0, "", "mlp/predict", 0, false, {}});
  const SharedTree tree = *DecodeSharedTree(*text);
  ASSERT_EQ(tree.programs.size(), 2u);
  EXPECT_TRUE(tree.arrays.empty());
  EXPECT_EQ(tree.programs[0].arguments[0].shape, Shape({kSize}));
  EXPECT_EQ(tree.programs[1].arguments[0].shape, Shape({1}));
  EXPECT_EQ(tree.programs[1].results[0].shape, Shape({kSize}));
  ASSERT_TRUE(Open(holder.get(), {1, 5}).ok());
  EXPECT_EQ(holder->session().stats().shared_bytes, 4 * kSize);
  holder->Fill(6, 1, 2);
  command::RunProgram run;
  run.program = 5;
  run.arguments = {6};
  run.results = {9};
  ASSERT_TRUE(holder->Do(run).ok());
  EXPECT_EQ(holder->Read(9)->back(), 7);
  const std::vector<SharedName> names = *DecodeSharedNames(*holder->Ask(command::ListNames{}));
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names[0].arrays, 1u);
}

// The owner adds one to two arrays by one run of a program. A holder's call sees both or neither.
TEST_F(PublishedProgramsTest, NobodySeesHalfARun) {
  constexpr int64_t kSize = 1 << 15;
  constexpr int kCalls = 300;
  auto owner = New();
  owner->Fill(1, kSize, 0);
  owner->Fill(2, kSize, 0);
  owner->Fill(3, 1, 0);
  ASSERT_EQ(
      Record(owner.get(), 1, {3},
             {Op("subtract", {A(1), A(2)}, {4}), Op("add", {A(4), A(3)}, {5}), ReleaseOf({4})},
             {5}),
      "");
  ASSERT_EQ(Record(owner.get(), 2, {},
                   {Op("add_", {A(1), S(1.0)}, {}), Op("add_", {A(2), S(1.0)}, {})}, {}),
            "");
  ASSERT_TRUE(Publish(owner.get()).ok());
  auto first = New(), second = New();
  std::atomic<bool> done{false};
  std::atomic<int> halves{0}, calls{0};
  const auto hold = [&](Client* client) {
    ASSERT_TRUE(Open(client).ok());
    client->Fill(3, 1, 0);
    for (int i = 0; i < kCalls; ++i) {
      const Handle result = 10 + i;
      if (!Call(client, {3}, {result}).ok()) ++halves;
      const auto values = client->Read(result);
      ASSERT_TRUE(values.ok()) << values.status();
      for (float value : *values) halves += value != 0 ? 1 : 0;
      client->Do(ReleaseOf({result})).IgnoreError();
      ++calls;
    }
  };
  std::thread one(hold, first.get());
  std::thread other(hold, second.get());
  std::thread writer([&] {
    command::RunProgram run;
    run.program = 2;
    run.times = 20;
    while (!done) EXPECT_TRUE(owner->Do(run).ok());
  });
  one.join();
  other.join();
  done = true;
  writer.join();
  EXPECT_EQ(halves, 0);
  EXPECT_EQ(calls, 2 * kCalls);
  EXPECT_GT(owner->Read(1)->front(), 0);
}

}  // namespace
}  // namespace chx::server
