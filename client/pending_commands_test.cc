#include "client/pending_commands.h"

#include <gtest/gtest.h>

#include <variant>

namespace chx {
namespace {

std::vector<Command> Decode(const std::string& records) {
  std::vector<Command> commands;
  for (CommandReader reader(records); !reader.AtEnd();) {
    commands.emplace_back();
    if (!reader.Next(&commands.back()).ok()) ADD_FAILURE() << "record " << commands.size();
  }
  return commands;
}

void AppendBarriers(int count, PendingCommands* pending) {
  for (int i = 1; i <= count; ++i) {
    pending->writer().Write(command::Barrier{static_cast<uint64_t>(i)});
    pending->Count();
    pending->SealIfLarge();
  }
}

TEST(PendingCommandsTest, BatchesAreTakenInTheirOrder) {
  PendingCommands pending(1 << 20, 20);  // batches end after 10 commands
  AppendBarriers(25, &pending);
  uint64_t expected = 0;
  bool more = true;
  for (const uint32_t size : {10u, 10u, 5u}) {
    ASSERT_TRUE(more);
    std::string records;
    EXPECT_EQ(pending.Take(&records, &more), size);
    for (const Command& command : Decode(records)) {
      EXPECT_EQ(std::get<command::Barrier>(command).request_id, ++expected);
    }
  }
  EXPECT_FALSE(more);
  EXPECT_EQ(expected, 25u);
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(pending.total_commands(), 25);
}

TEST(PendingCommandsTest, BatchesEndAtHalfOfTheDaemonsBytes) {
  PendingCommands pending(320, 1000);  // a barrier has 16 bytes
  AppendBarriers(15, &pending);
  std::string records;
  bool more = false;
  EXPECT_EQ(pending.Take(&records, &more), 10u);
  EXPECT_EQ(records.size(), 160u);
  EXPECT_TRUE(more);
}

TEST(PendingCommandsTest, ReleasesWaitForACommandOrForEachOther) {
  PendingCommands pending(1 << 20, 1000);
  EXPECT_FALSE(pending.AppendReleases());
  EXPECT_FALSE(pending.Release(7, 100));
  EXPECT_FALSE(pending.empty());
  EXPECT_TRUE(pending.Release(8, 1 << 20));  // much memory: to be sent before the next operator
  EXPECT_TRUE(pending.AppendReleases());
  EXPECT_FALSE(pending.AppendReleases());
  bool append = false;
  int count = 0;
  for (Handle handle = 9; !append; ++handle, ++count) append = pending.Release(handle, 4);
  EXPECT_EQ(count, 32);
  EXPECT_TRUE(pending.AppendReleases());
  std::string records;
  bool more = true;
  EXPECT_EQ(pending.Take(&records, &more), 2u);
  const std::vector<Command> commands = Decode(records);
  EXPECT_EQ(std::get<command::Release>(commands[0]).handles, (Handles{7, 8}));
  EXPECT_EQ(std::get<command::Release>(commands[1]).handles.size(), 32u);
}

TEST(PendingCommandsTest, ABatchEndsWithAStep) {
  PendingCommands pending(1 << 20, 1000);
  AppendBarriers(10, &pending);
  EXPECT_FALSE(pending.StepIsDue());
  AppendBarriers(54, &pending);
  EXPECT_TRUE(pending.StepIsDue());  // of 1 KiB
  EXPECT_FALSE(pending.due());
  pending.Release(7, 4);
  pending.EndStep();
  EXPECT_TRUE(pending.due());
  AppendBarriers(1, &pending);
  std::string records;
  bool more = false;
  EXPECT_EQ(pending.Take(&records, &more), 65u);  // with the release
  EXPECT_TRUE(more);
  EXPECT_FALSE(pending.due());
}

TEST(PendingCommandsTest, ManyCommandsOrBytesAreDue) {
  PendingCommands many(1 << 30, 1 << 30);
  AppendBarriers(511, &many);
  EXPECT_FALSE(many.due());
  AppendBarriers(1, &many);
  EXPECT_TRUE(many.due());
  PendingCommands large(1 << 30, 1 << 30);
  const std::string data((16 << 10) - 1, 'x');
  large.writer().Write(command::Configure{data, Scalar(true)});
  large.Count();
  EXPECT_TRUE(large.due());
}

}  // namespace
}  // namespace chx
