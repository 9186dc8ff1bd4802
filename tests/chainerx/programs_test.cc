// Programs that are written as for ChainerX, in processes of their own.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx {
namespace {

class ProgramsTest : public server::DaemonTest {};

void WriteIdx(const std::string& path, const std::vector<uint32_t>& dims,
              const std::vector<uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  const auto write = [&file](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
  };
  write(2048 + static_cast<uint32_t>(dims.size()));
  for (uint32_t dim : dims) write(dim);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// Noisy images of ten patterns.
void WriteData(const std::string& prefix, uint32_t count, uint32_t seed) {
  std::mt19937 patterns(7);
  std::vector<std::vector<uint8_t>> pattern(10, std::vector<uint8_t>(784));
  for (auto& pixels : pattern) {
    for (uint8_t& pixel : pixels) pixel = patterns() % 4 == 0 ? 180 : 0;
  }
  std::mt19937 random(seed);
  std::vector<uint8_t> images;
  std::vector<uint8_t> labels;
  for (uint32_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<uint8_t>(random() % 10));
    for (uint8_t pixel : pattern[labels.back()]) {
      images.push_back(static_cast<uint8_t>(pixel + random() % 75));
    }
  }
  WriteIdx(prefix + "-images-idx3-ubyte", {count, 28, 28}, images);
  WriteIdx(prefix + "-labels-idx1-ubyte", {count}, labels);
}

// What the command prints, and whether it succeeds.
std::string Output(const std::string& command) {
  FILE* const output = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  std::string text;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) {
    text.push_back(static_cast<char>(c));
  }
  EXPECT_EQ(pclose(output), 0) << text;
  return text;
}

struct Epoch {
  double loss = 0;
  double accuracy = 0;
};

std::vector<Epoch> Train(const std::string& flags) {
  std::istringstream lines(Output(absl::StrCat(std::getenv("MNIST"), " ", flags)));
  std::vector<Epoch> epochs;
  for (std::string line; std::getline(lines, line);) {
    Epoch epoch;
    if (std::sscanf(line.c_str(), "epoch: %*d loss=%lf accuracy=%lf", &epoch.loss,
                    &epoch.accuracy) == 2) {
      epochs.push_back(epoch);
    } else {
      ADD_FAILURE() << line;
    }
  }
  return epochs;
}

TEST_F(ProgramsTest, MnistIsLearned) {
  StartOnUnixSocket();
  char directory[] = "/tmp/chx-mnist-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  WriteData(absl::StrCat(directory, "/train"), 600, 1);
  WriteData(absl::StrCat(directory, "/t10k"), 200, 2);
  const std::vector<Epoch> epochs =
      Train(absl::StrCat("--connect ", UnixAddress(), " --data ", directory,
                         " --epoch 4 --unit 64 --batchsize 50 --lr 0.1"));
  ASSERT_EQ(epochs.size(), 4U);
  EXPECT_LT(epochs.back().loss, epochs.front().loss / 2);
  EXPECT_GT(epochs.back().accuracy, 0.9);
  EXPECT_EQ(std::system(absl::StrCat("rm -r ", directory).c_str()), 0);
}

TEST_F(ProgramsTest, DocumentedProgramComputesAGradient) {
  StartOnUnixSocket();
  EXPECT_EQ(Output(absl::StrCat("CHX_SERVER=", UnixAddress(), " ", std::getenv("DOCUMENTED"))),
            "array([[2.0, 2.0],\n       [2.0, 2.0],\n       [2.0, 2.0]], shape=(3, 2), "
            "dtype=float32, device='native:0')\n");
}

}  // namespace
}  // namespace chx
