// Random programs: what runs of them do is what their commands do, to the last bit.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_split.h"
#include "tests/session/programs_fixture.h"
#include "tests/session/random_step.h"

namespace chx::server {
namespace {

// Of steps on square arrays.
struct Reached {
  int planned = 0;
  int fused = 0;  // in blocks
};

// Whether an explanation has a step of several operators, for each of so many elements.
bool HasBlocks(const std::string& explanation) {
  for (absl::string_view line : absl::StrSplit(explanation, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
    if (fields[0] == "step" && fields.size() > 2 && fields[2] != "0") return true;
  }
  return false;
}

class RandomProgramsTest : public ProgramsTest {
 protected:
  void Compare(int64_t side, uint32_t steps, Reached* reached);
};

void RandomProgramsTest::Compare(int64_t side, uint32_t steps, Reached* reached) {
  const uint32_t first_seed = std::random_device()();
  printf("seed %u\n", first_seed);
  for (uint32_t seed = first_seed; seed < first_seed + steps; ++seed) {
    std::vector<Floats> found;
    for (const bool recorded : {false, true}) {
      Reset(SessionLimits());
      std::mt19937 random(seed);
      const auto values = [&random, side] {
        Floats floats(static_cast<size_t>(side * side));
        for (float& value : floats) value = static_cast<float>(random() % 2000) / 1000 - 1;
        return floats;
      };
      for (Handle handle = 1; handle <= 4; ++handle) Upload(handle, values(), {side, side});
      Run({command::RequireGrad{1}, command::RequireGrad{2}});
      Floats all;
      const auto note = [&](Handle handle) {
        RootErrorPtr error;
        Floats read = Fetch(handle, &error);
        for (float& value : read) {  // which NaN it is may differ
          if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
        }
        all.insert(all.end(), read.begin(), read.end());
        all.push_back(error == nullptr ? 0 : -1);
      };
      for (Handle run = 0; run < 4; ++run) {
        const Handle argument = 1000 * (run + 1);
        Upload(argument, values(), {side, side});
        RandomStep step(seed, seed % 10 == 0 ? 300 : 0);  // the same one, with other handles
        const std::vector<Command> commands = step.Make(WireId, argument + 1, argument);
        Handle output = step.output();
        if (!recorded) {
          Run(commands);
        } else if (run == 0) {
          reached->planned += Record({argument}, commands, {output}).empty() ? 1 : 0;
          Run({command::ExplainProgram{8, 1, false}});
          reached->fused += HasBlocks(output_.values.back().data) ? 1 : 0;
        } else {
          output = argument + 1;
          Run({RunOf({argument}, {output})});
        }
        note(output);
        for (Handle handle : {3, 4}) note(handle);
        // What the run has made is gone, but for gradients.
        Handles made;
        for (Handle handle = argument + 1; handle < step.end(); ++handle) {
          if (session_->Holds(handle)) made.push_back(handle);
        }
        Run({command::Release{made}});
        for (Handle handle : {1, 2}) {
          Run({GetGradOf(handle, 900000 + handle)});
          note(900000 + handle);
          Run({ReleaseOf({900000 + handle})});
        }
      }
      found.push_back(all);
    }
    ASSERT_EQ(found[0].size(), found[1].size()) << "seed " << seed;
    ASSERT_EQ(std::memcmp(found[0].data(), found[1].data(), found[0].size() * sizeof(float)), 0)
        << "seed " << seed;
  }
}

TEST_F(RandomProgramsTest, AreEqualToTheLastBit) {
  Reached reached;
  ASSERT_NO_FATAL_FAILURE(Compare(3, 200, &reached));
  EXPECT_GT(reached.planned, 150);
}

// Elements enough for operators to be fused, in several blocks. The sanitizers' builds run it, too.
TEST_F(RandomProgramsTest, FusedOnesAreEqualToTheLastBit) {
  Reached reached;
  ASSERT_NO_FATAL_FAILURE(Compare(130, 20, &reached));
  EXPECT_GT(reached.planned, 12);
  EXPECT_GT(reached.fused, 5);
}

}  // namespace
}  // namespace chx::server
