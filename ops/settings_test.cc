#include "ops/settings.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "ops/error.h"

namespace chx {
namespace {

TEST(SettingsTest, EachNameChangesItsOwnValue) {
  Settings settings;
  EXPECT_TRUE(ChangeSetting("use_cudnn", Scalar(false), &settings).ok());
  EXPECT_FALSE(settings.use_cudnn);
  EXPECT_FALSE(settings.cudnn_deterministic);
  EXPECT_TRUE(ChangeSetting("cudnn_deterministic", Scalar(1), &settings).ok());
  EXPECT_TRUE(settings.cudnn_deterministic);
  EXPECT_FALSE(settings.autotune);
  EXPECT_TRUE(ChangeSetting("autotune", Scalar(true), &settings).ok());
  EXPECT_TRUE(settings.autotune);
  EXPECT_EQ(settings.max_workspace_size, int64_t{256} << 20);
  EXPECT_TRUE(ChangeSetting("max_workspace_size", Scalar(0), &settings).ok());
  EXPECT_EQ(settings.max_workspace_size, 0);
}

TEST(SettingsTest, RefusesWhatItDoesNotKnow) {
  Settings settings;
  const struct {
    absl::string_view name;
    Scalar value;
    ErrorKind kind;
  } cases[] = {{"", Scalar(1), ErrorKind::kValue},
               {"use_cudn", Scalar(1), ErrorKind::kValue},
               {absl::string_view("autotune\0", 9), Scalar(1), ErrorKind::kValue},
               {"autotune", Scalar(2), ErrorKind::kValue},
               {"autotune", Scalar(-1), ErrorKind::kValue},
               {"autotune", Scalar(1.0), ErrorKind::kType},
               {"max_workspace_size", Scalar(int64_t{-1}), ErrorKind::kValue},
               {"max_workspace_size", Scalar(std::nan("")), ErrorKind::kType}};
  for (const auto& c : cases) {
    const absl::Status status = ChangeSetting(c.name, c.value, &settings);
    ASSERT_FALSE(status.ok()) << c.name;
    EXPECT_EQ(KindOf(status), c.kind) << status;
  }
  EXPECT_TRUE(settings.use_cudnn);
  EXPECT_FALSE(settings.autotune);
  EXPECT_EQ(settings.max_workspace_size, int64_t{256} << 20);
}

}  // namespace
}  // namespace chx
