#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <string>

#include "client/examples/idx_file.h"
#include "client/examples/shuffle.h"

namespace chx {
namespace {

class IdxFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<IdxFile> Read(const std::string& content) {
    char path[] = "/tmp/chx-idx-XXXXXX";
    const int fd = mkstemp(path);
    EXPECT_EQ(write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    close(fd);
    absl::StatusOr<IdxFile> file = ReadIdxFile(path);
    std::remove(path);
    return file;
  }
};

TEST_F(IdxFileTest, Reads) {
  const absl::StatusOr<IdxFile> file =
      Read(std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
                       "abcdef",
                       18));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::string(file->data.begin(), file->data.end()), "abcdef");
}

TEST_F(IdxFileTest, RefusesWhatIsNotOne) {
  EXPECT_FALSE(Read("").ok());
  EXPECT_FALSE(Read("P5 28 28 255").ok());
  EXPECT_FALSE(Read(std::string("\0\0\x08\x01\0\0\0\x05"
                                "abc",
                                11))
                   .ok());  // cut short
  EXPECT_FALSE(Read(std::string("\0\0\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff", 12)).ok());
  EXPECT_FALSE(ReadIdxFile("/nonexistent").ok());
}

// The same numbers are in the test of the Python example.
TEST(ShufflerTest, IsTheOneInTheHeadersComment) {
  std::vector<int64_t> values(8);
  std::iota(values.begin(), values.end(), 0);
  Shuffler shuffler(1);
  shuffler.Shuffle(&values);
  EXPECT_EQ(values, (std::vector<int64_t>{7, 4, 3, 2, 5, 0, 1, 6}));
  shuffler.Shuffle(&values);
  EXPECT_EQ(values, (std::vector<int64_t>{4, 6, 7, 3, 2, 5, 0, 1}));
}

}  // namespace
}  // namespace chx
