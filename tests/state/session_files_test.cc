// Which snapshots of a session stay in the folder.
#include "server/state/session_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace chx::server {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

class SessionFilesTest : public ::testing::Test {
 protected:
  SessionFilesTest() {
    std::string pattern = std::string(::testing::TempDir()) + "/filesXXXXXX";
    path_ = mkdtemp(&pattern[0]);
    folder_ = *StateFolder::Open(path_);
  }
  SessionFiles Files(int keep) { return {folder_.get(), keep}; }
  static absl::Status Write(SessionFiles* files, const std::string& key, absl::string_view text) {
    return files->Write(key, [&](int fd) {
      EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
      return text == "fails" ? absl::ResourceExhaustedError("full") : absl::OkStatus();
    });
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(path_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // What a session's files say, the newest first.
  std::vector<std::string> Texts(SessionFiles* files, const std::string& key) const {
    std::vector<std::string> texts;
    for (const std::string& name : files->Of(key)) texts.push_back(Read(name));
    return texts;
  }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }
  // All that is in the folder, but for its lock.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().filename() != "lock") names.push_back(entry.path().filename());
    }
    return names;
  }

  std::string path_;
  std::unique_ptr<StateFolder> folder_;
};

TEST_F(SessionFilesTest, TheLastOnesStay) {
  SessionFiles files = Files(3);
  for (const char* text : {"1", "2", "3", "4", "5"}) {
    ASSERT_TRUE(Write(&files, "a", text).ok());
    ASSERT_TRUE(Write(&files, "b", std::string("b") + text).ok());
  }
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("5", "4", "3"));
  EXPECT_THAT(Texts(&files, "b"), ElementsAre("b5", "b4", "b3"));
  EXPECT_EQ(Names().size(), 6u);
  // Another daemon goes on with them, whatever it keeps itself.
  SessionFiles next = Files(2);
  EXPECT_THAT(*next.Load(), ElementsAre("a", "b"));
  EXPECT_THAT(Texts(&next, "a"), ElementsAre("5", "4", "3"));
  ASSERT_TRUE(Write(&next, "a", "6").ok());
  EXPECT_THAT(Texts(&next, "a"), ElementsAre("6", "5"));
  SessionFiles last = Files(1);
  ASSERT_TRUE(last.Load().ok());
  ASSERT_TRUE(Write(&last, "a", "7").ok());
  EXPECT_THAT(Texts(&last, "a"), ElementsAre("7"));
  last.Remove("b");
  EXPECT_THAT(Names(), ElementsAre("a.session"));
}

TEST_F(SessionFilesTest, NumbersAreInOrderAndNotOfText) {
  SessionFiles files = Files(12);
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(Write(&files, "a", std::to_string(i)).ok());
  SessionFiles next = Files(12);
  ASSERT_TRUE(next.Load().ok());
  EXPECT_THAT(Texts(&next, "a"),
              ElementsAre("14", "13", "12", "11", "10", "9", "8", "7", "6", "5", "4", "3"));
}

TEST_F(SessionFilesTest, AFailedWriteLeavesThemAll) {
  SessionFiles files = Files(2);
  for (const char* text : {"1", "2"}) ASSERT_TRUE(Write(&files, "a", text).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(absl::IsResourceExhausted(Write(&files, "a", "fails")));
    EXPECT_THAT(Texts(&files, "a"), ElementsAre("2", "1"));
    EXPECT_EQ(Names().size(), 2u);
  }
  ASSERT_TRUE(Write(&files, "a", "3").ok());
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("3", "2"));
}

// As of a daemon that was killed when the former file had its other name and the new one not yet.
TEST_F(SessionFilesTest, AnotherNameOfTheNewestIsNoFormerOne) {
  {
    SessionFiles files = Files(3);
    for (const char* text : {"1", "2"}) ASSERT_TRUE(Write(&files, "a", text).ok());
    ASSERT_TRUE(folder_->Link("a.session", "a.2.older").ok());
  }
  SessionFiles files = Files(3);
  ASSERT_TRUE(files.Load().ok());
  ASSERT_TRUE(Write(&files, "a", "3").ok());
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("3", "2", "1"));
}

TEST_F(SessionFilesTest, ANewOneIsWorthMoreThanItsFormer) {
  SessionFiles files = Files(2);
  ASSERT_TRUE(Write(&files, "a", "1").ok());
  Put("a.1.older", "in the way");
  ASSERT_TRUE(Write(&files, "a", "2").ok());
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("2"));
}

TEST_F(SessionFilesTest, ReturnsToAnOlderOne) {
  SessionFiles files = Files(4);
  for (const char* text : {"1", "2", "3", "4"}) ASSERT_TRUE(Write(&files, "a", text).ok());
  const std::vector<std::string> names = files.Of("a");
  EXPECT_TRUE(files.ReturnTo("a", names[0]).ok());
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("4", "3", "2", "1"));
  EXPECT_TRUE(absl::IsNotFound(files.ReturnTo("a", "b.session")));
  EXPECT_TRUE(files.ReturnTo("a", names[2]).ok());
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("2", "1"));
  EXPECT_EQ(Names().size(), 2u);
  ASSERT_TRUE(Write(&files, "a", "5").ok());
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("5", "2", "1"));
  EXPECT_TRUE(files.ReturnTo("a", files.Of("a").back()).ok());
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("1"));
  ASSERT_TRUE(Write(&files, "a", "6").ok());
  EXPECT_THAT(Texts(&files, "a"), ElementsAre("6", "1"));
}

TEST_F(SessionFilesTest, WhatEndedSessionsHaveLeftGoes) {
  SessionFiles files = Files(3);
  for (const char* text : {"1", "2", "3"}) {
    for (const char* key : {"a", "b"}) ASSERT_TRUE(Write(&files, key, text).ok());
  }
  // The daemon was killed in the middle of Remove.
  folder_->Remove("a.session");
  const char* const others[] = {"a.0.older",  "a.01.older", "b.older",
                                "b.-1.older", "b.x.older",  "b.99999999999999999999.older"};
  for (const char* name : others) Put(name, "nobody's");
  SessionFiles next = Files(3);
  EXPECT_THAT(*next.Load(), ElementsAre("b"));
  EXPECT_THAT(Texts(&next, "b"), ElementsAre("3", "2", "1"));
  next.Remove("b");
  EXPECT_THAT(Names(), UnorderedElementsAreArray(others));
}

TEST_F(SessionFilesTest, NoNameLeadsOutOfTheFolder) {
  Put("a.session", "1");
  for (const char* name : {"../x", "/tmp/x", ".", "", "a/b", ".hidden", "A"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(folder_->Link("a.session", name))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(folder_->Link(name, "b.session"))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(folder_->Rename("a.session", name))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(folder_->Rename(name, "b.session"))) << name;
    EXPECT_FALSE(folder_->AreSame(name, name)) << name;
  }
  EXPECT_TRUE(folder_->AreSame("a.session", "a.session"));
  EXPECT_THAT(Names(), ElementsAre("a.session"));
}

}  // namespace
}  // namespace chx::server
