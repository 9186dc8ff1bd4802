// Settings arrive at a device's stream, whether it was in use before or not; what the wire may send
// instead of a setting is an error and changes nothing.
#include "ops/settings.h"
#include "server/native/native_backend.h"

#include <string>
#include <utility>
#include <vector>

#include "ops/error.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

// What the streams of the last kernels said.
std::vector<Settings>& Seen() {
  static auto* const seen = new std::vector<Settings>;
  return *seen;
}

absl::Status Remember(const KernelArgs& args) {
  Seen().push_back(args.stream.settings());
  return absl::OkStatus();
}

// A native device whose 'negative' remembers the settings.
class RememberingDevice : public Device {
 public:
  explicit RememberingDevice(std::unique_ptr<Device> native)
      : native_(std::move(native)), kernels_(native_->kernels()) {
    kernels_.Set("negative", Remember);
  }
  const std::string& name() const override { return native_->name(); }
  size_t memory_bytes() const override { return native_->memory_bytes(); }
  const KernelTable& kernels() const override { return kernels_; }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override { return native_->NewStream(); }
  absl::StatusOr<void*> AllocateSlab(size_t bytes) override { return native_->AllocateSlab(bytes); }
  void FreeSlab(void* slab, size_t bytes) override { native_->FreeSlab(slab, bytes); }

 private:
  const std::unique_ptr<Device> native_;
  KernelTable kernels_;
};

class RememberingBackend : public Backend {
 public:
  const std::string& name() const override { return native_->name(); }
  int device_count() const override { return 1; }
  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(int index) override {
    CHX_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, native_->OpenDevice(index));
    return std::unique_ptr<Device>(std::make_unique<RememberingDevice>(std::move(device)));
  }

 private:
  const std::unique_ptr<Backend> native_ = CreateNativeBackend({});
};

class SettingsTest : public SessionTest {
 protected:
  SettingsTest() {
    CHECK_OK(remembering_devices_.Open("native:0", {&remembering_}));
    session_ = std::make_unique<Session>(&remembering_devices_, SessionLimits());
    Seen().clear();
  }
  ~SettingsTest() override { session_.reset(); }

  static command::Configure Set(absl::string_view name, Scalar value) { return {name, value}; }
  Settings Now() {
    Run({Op("negative", {A(1)}, {next_})});
    ++next_;
    return Seen().back();
  }

  RememberingBackend remembering_;
  Devices remembering_devices_;
  Handle next_ = 2;
};

TEST_F(SettingsTest, ReachStreamsThatAreOpenAndThatAreNot) {
  Run({Set("cudnn_deterministic", Scalar(true))});
  Upload(1, {1, 2}, {2});
  EXPECT_TRUE(Now().cudnn_deterministic);
  EXPECT_TRUE(Now().use_cudnn);
  Run({Set("use_cudnn", Scalar(0)), Set("max_workspace_size", Scalar(5))});
  const Settings settings = Now();
  EXPECT_FALSE(settings.use_cudnn);
  EXPECT_TRUE(settings.cudnn_deterministic);
  EXPECT_EQ(settings.max_workspace_size, 5);
  EXPECT_EQ(LastError(), "");
}

TEST_F(SettingsTest, OfOneSessionAreNotThoseOfAnother) {
  Upload(1, {1}, {1});
  Run({Set("autotune", Scalar(true))});
  EXPECT_TRUE(Now().autotune);
  session_ = std::make_unique<Session>(&remembering_devices_, SessionLimits());
  Upload(1, {1}, {1});
  EXPECT_FALSE(Now().autotune);
}

TEST_F(SettingsTest, AnythingElseIsAnError) {
  Upload(1, {1}, {1});
  const std::string endless(100000, 'x');
  const std::vector<command::Configure> wrong = {
      Set("autotune", Scalar(7)),
      Set("", Scalar(true)),
      Set(endless, Scalar(true)),
      Set("max_workspace_size", Scalar(int64_t{INT64_MIN})),
      Set("max_workspace_size", Scalar(0.5)),
  };
  for (const command::Configure& command : wrong) {
    output_.Clear();
    Run({command});
    EXPECT_EQ(LastError().substr(0, 11), "[configure]") << command.name;
    EXPECT_LT(LastError().size(), 300u);
  }
  const Settings settings = Now();
  EXPECT_FALSE(settings.autotune);
  EXPECT_EQ(settings.max_workspace_size, Settings().max_workspace_size);
}

}  // namespace
}  // namespace chx::server
