#include "server/log/printable.h"

#include <gtest/gtest.h>

namespace chx::server {
namespace {

TEST(Printable, TextStaysText) {
  for (const char* text : {"", "trainer-7", "größe 𝛼 ✓", "a b/c:d"})
    EXPECT_EQ(Printable(text), text);
  EXPECT_EQ(Printable("a\\x1b"), "a\\\\x1b");  // not to be taken for an escape
}

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(Printable("a\x1b[31mb\r\n\t"), "a\\x1b[31mb\\x0d\\x0a\\x09");
  EXPECT_EQ(Printable(absl::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(Printable("\x7f\xc2\x9b"), "\\x7f\\xc2\\x9b");  // C1's CSI
  EXPECT_EQ(Printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb");  // right to left
  EXPECT_EQ(PrintableLines("a\nb\x1b\\"), "a\nb\\x1b\\");
}

TEST(Printable, BytesThatAreNoUtf8AreEscaped) {
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Printable("\xc0\x80"), "\\xc0\\x80");  // overlong
  EXPECT_EQ(Printable("\xe0\x80\x80"), "\\xe0\\x80\\x80");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Printable("\xe2\x82"), "\\xe2\\x82");  // cut off
  EXPECT_EQ(Printable("\xe2\x82"
                      "a"),
            "\\xe2\\x82"
            "a");
}

}  // namespace
}  // namespace chx::server
