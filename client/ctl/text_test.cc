#include "client/ctl/text.h"

#include <gtest/gtest.h>

namespace chx::ctl {
namespace {

TEST(TextTest, Bytes) {
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(FormatLimit(0), "-");
}

TEST(TextTest, SecondsAndCounts) {
  EXPECT_EQ(FormatSeconds(0), "0.0s");
  EXPECT_EQ(FormatSeconds(-1), "0.0s");
  EXPECT_EQ(FormatSeconds(9.97), "10s");
  EXPECT_EQ(FormatSeconds(185), "3m05s");
  EXPECT_EQ(FormatSeconds(7800), "2h10m");
  EXPECT_EQ(FormatSeconds(86400 * 5 + 3 * 3600), "5d03h");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999.4), "999");
  EXPECT_EQ(FormatCount(999.6), "1.0k");
  EXPECT_EQ(FormatCount(12345), "12.3k");
  EXPECT_EQ(FormatCount(4e6), "4.0M");
}

TEST(TextTest, NothingSteersATerminal) {
  EXPECT_EQ(Plain("résumé 模型"), "résumé 模型");
  EXPECT_EQ(Plain("a\x1b[2Jb\n\x7f"), "a\\x1b[2Jb\\x0a\\x7f");
  EXPECT_EQ(Plain("\xc2\x9b"
                  "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(Plain("\xff\xe2\x80\xae"), "\\xff\\xe2\\x80\\xae");
  EXPECT_EQ(Plain("\xe2\x80"), "\\xe2\\x80");
}

TEST(TextTest, ColumnsAreAligned) {
  Table table({{"NAME"}, {"MEMORY", Table::kRight}, {"LAST"}});
  table.Add({"é", "1.0 KiB", "add"});
  table.Add({"longer", "0"});
  EXPECT_EQ(table.Render(),
            "NAME     MEMORY  LAST\n"
            "é       1.0 KiB  add\n"
            "longer        0\n");
  EXPECT_EQ(table.Render(true).substr(0, 4), "\x1b[1m");
}

TEST(TextTest, CellsAreShortenedAndEscaped) {
  Table table({{"NAME"}});
  table.Add({std::string(100, 'x')});
  table.Add({"\x1b]0;evil\a"});
  EXPECT_EQ(table.Render(), "NAME\n" + std::string(37, 'x') + "...\n\\x1b]0;evil\\x07\n");
}

}  // namespace
}  // namespace chx::ctl
