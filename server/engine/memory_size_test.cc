#include "server/engine/memory_size.h"

#include <gtest/gtest.h>

namespace chx::server {
namespace {

constexpr int64_t kWhole = int64_t{10} << 30;

TEST(MemorySizeTest, Parses) {
  const struct {
    const char* text;
    int64_t bytes;
  } cases[] = {
      {"1000", 1000},
      {"1", 1},
      {"9223372036854775807", INT64_MAX},
      {"4GiB", int64_t{4} << 30},
      {"4Gi", int64_t{4} << 30},
      {"4gib", int64_t{4} << 30},
      {"4 GiB", int64_t{4} << 30},
      {"4GB", 4000000000},
      {"4G", 4000000000},
      {"1.5KiB", 1536},
      {"1.5KB", 1500},
      {"3T", 3000000000000},
      {"0.5", kWhole / 2},
      {".25", kWhole / 4},
      {"1.0", kWhole},
      {"80%", kWhole / 10 * 8},
      {"100%", kWhole},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<int64_t> bytes = ParseMemorySize(c.text, kWhole);
    ASSERT_TRUE(bytes.ok()) << c.text << ": " << bytes.status();
    EXPECT_EQ(*bytes, c.bytes) << c.text;
  }
}

TEST(MemorySizeTest, Refuses) {
  for (const char* bad : {"",
                          "-1",
                          "0",
                          "0.0",
                          "1.5",
                          "0%",
                          "101%",
                          "4GXB",
                          "GiB",
                          "B",
                          "9999999TiB",
                          "nan",
                          "inf",
                          "infGiB",
                          "1e3",
                          "0x10",
                          "9223372036854775808",
                          "4GiBB",
                          "%",
                          "0.0000000001KiB",
                          "-0.5"}) {
    const absl::StatusOr<int64_t> bytes = ParseMemorySize(bad, kWhole);
    EXPECT_FALSE(bytes.ok()) << bad << ": " << *bytes;
  }
}

TEST(MemorySizeTest, Formats) {
  EXPECT_EQ(FormatMemorySize(100), "100 bytes");
  EXPECT_EQ(FormatMemorySize(1024), "1 KiB");
  EXPECT_EQ(FormatMemorySize(int64_t{4} << 30), "4 GiB");
  EXPECT_EQ(FormatMemorySize((int64_t{4} << 30) - 1), "3.9 GiB");
  EXPECT_EQ(FormatMemorySize(int64_t{5000} << 40), "5000 TiB");
}

}  // namespace
}  // namespace chx::server
