// Random programs: what runs of them do is what their commands do, to the last bit.
#include <cstring>
#include <random>

#include "tests/session/programs_fixture.h"
#include "tests/session/random_step.h"

namespace chx::server {
namespace {

TEST_F(ProgramsTest, RandomStepsAreEqualToTheLastBit) {
  const uint32_t first_seed = std::random_device()();
  printf("seed %u\n", first_seed);
  int planned = 0;
  for (uint32_t seed = first_seed; seed < first_seed + 200; ++seed) {
    std::vector<Floats> found;
    for (const bool recorded : {false, true}) {
      Reset(SessionLimits());
      std::mt19937 random(seed);
      const auto values = [&random] {
        Floats floats(9);
        for (float& value : floats) value = static_cast<float>(random() % 2000) / 1000 - 1;
        return floats;
      };
      for (Handle handle = 1; handle <= 4; ++handle) Upload(handle, values(), {3, 3});
      Run({command::RequireGrad{1}, command::RequireGrad{2}});
      Floats all;
      const auto note = [&](Handle handle) {
        RootErrorPtr error;
        const Floats read = Fetch(handle, &error);
        all.insert(all.end(), read.begin(), read.end());
        all.push_back(error == nullptr ? 0 : -1);
      };
      for (Handle run = 0; run < 4; ++run) {
        const Handle argument = 1000 * (run + 1);
        Upload(argument, values(), {3, 3});
        RandomStep step(seed, seed % 10 == 0 ? 300 : 0);  // the same one, with other handles
        const std::vector<Command> commands = step.Make(WireId, argument + 1, argument);
        Handle output = step.output();
        if (!recorded) {
          Run(commands);
        } else if (run == 0) {
          planned += Record({argument}, commands, {output}).empty() ? 1 : 0;
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
  EXPECT_GT(planned, 150);
}

}  // namespace
}  // namespace chx::server
