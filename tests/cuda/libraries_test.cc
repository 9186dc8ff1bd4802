// The paths through cuDNN (emulated from its definition) against those without it, for random
// windows, and what sessions' settings make of them. Decompositions: emulated_libraries_test,
// against NumPy.
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/registry.h"
#include "server/cuda/testing/emulated_backend.h"
#include "server/cuda/testing/emulated_libraries.h"
#include "tests/cuda/two_devices_test.h"

namespace chx::server {
namespace {

constexpr DeviceId kPlain = 0;
constexpr DeviceId kLibraries = 1;

class LibrariesTest : public TwoDevicesTest {
 protected:
  LibrariesTest()
      : TwoDevicesTest(cuda::NewEmulatedBackend("plain"),
                       cuda::NewEmulatedBackend("libraries", true)) {}

  static int64_t Calls() { return cuda::EmulatedLibraryCalls(); }

  // Small integers, of which sums are exact.
  std::vector<float> Values(const Shape& shape) {
    std::vector<float> values(NumElements(shape));
    for (float& value : values) value = static_cast<float>(Int(-4, 4));
    return values;
  }
  Array Upload(const Shape& shape, const std::vector<float>& values, DeviceId device) {
    const ArraySpec spec(Dtype::kFloat32, shape, device);
    Array array = *executor_->Allocate(spec);
    const auto* const bytes = reinterpret_cast<const char*>(values.data());
    EXPECT_TRUE(executor_->CopyIn(array, 0, absl::string_view(bytes, spec.nbytes())).ok());
    return array;
  }
  std::vector<float> Run(const std::string& op, const std::vector<Shape>& shapes,
                         const std::vector<std::vector<float>>& values, const Attrs& attrs,
                         DeviceId device) {
    std::vector<Array> arrays;
    for (size_t i = 0; i < shapes.size(); ++i) {
      arrays.push_back(Upload(shapes[i], values[i], device));
    }
    const OpDef& def = *OpRegistry::Global().Find(op);
    std::vector<ArrayOperand> inputs(def.inputs.size());
    for (size_t i = 0; i < arrays.size(); ++i) inputs[i] = ArrayOperand(&arrays[i]);
    RunOutputs outputs;
    const absl::Status status = executor_->Run({def, inputs, attrs, device}, &outputs);
    EXPECT_TRUE(status.ok()) << op << ": " << status;
    if (!status.ok()) return {};
    const std::string bytes = *executor_->CopyOut(outputs[0]);
    std::vector<float> result(bytes.size() / sizeof(float));
    if (!result.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  // On both devices; returns how often libraries were called.
  int64_t Compare(const std::string& op, const std::vector<Shape>& shapes, const Attrs& attrs) {
    std::vector<std::vector<float>> values;
    values.reserve(shapes.size());
    for (const Shape& shape : shapes) values.push_back(Values(shape));
    const int64_t before = Calls();
    const std::vector<float> want = Run(op, shapes, values, attrs, kPlain);
    EXPECT_EQ(Calls(), before) << op;
    const std::vector<float> got = Run(op, shapes, values, attrs, kLibraries);
    EXPECT_FALSE(want.empty());
    EXPECT_EQ(got, want) << op << " " << shapes[0].ToString();
    return Calls() - before;
  }
};

TEST_F(LibrariesTest, ConvolutionsAreTheSameWithAndWithout) {
  int64_t calls = 0;
  for (int round = 0; round < 60; ++round) {
    const int ndim = static_cast<int>(Int(1, 4));
    Shape x = {Int(1, 3), Int(1, 3)};
    Shape w = {Int(1, 3), x[1]};
    Shape y = {x[0], w[0]};
    Ints kernel;
    Ints stride;
    Ints pad;
    const bool cover_all = Int(0, 3) == 0;
    for (int d = 0; d < ndim; ++d) {
      const int64_t k = Int(1, 3);
      const int64_t s = Int(1, 3);
      const int64_t p = Int(0, 2);
      const int64_t image = Int(k, 6);
      const int64_t rest = image + 2 * p - k;
      x.push_back(image);
      w.push_back(k);
      y.push_back((cover_all ? rest + s - 1 : rest) / s + 1);
      kernel.push_back(k);
      stride.push_back(s);
      pad.push_back(p);
    }
    Shape image_of_y = x;
    image_of_y[1] = w[1];
    const Ints outsize(x.begin() + 2, x.end());
    const AttrValue ksize(kernel);
    const AttrValue steps(stride);
    const AttrValue pads(pad);
    const Shape bias = {w[0]};
    int64_t now = 0;
    now +=
        Compare("conv", Int(0, 1) != 0 ? std::vector<Shape>{x, w} : std::vector<Shape>{x, w, bias},
                {steps, pads, AttrValue(cover_all)});
    now += Compare("conv_transpose", {y, w}, {steps, pads, AttrValue(outsize)});
    now += Compare("conv_grad_weight", {x, y}, {ksize, steps, pads});
    if (!cover_all) {
      EXPECT_EQ(now, ndim <= 3 ? 3 : 0) << "round " << round;
    }
    calls += now;
  }
  EXPECT_GT(calls, 0);
}

// What networks compute is checked by emulated_libraries_test and recurrent_test.
TEST_F(LibrariesTest, RecurrentNetworksAreTheLibrarysWhereItHasThem) {
  Settings settings;
  const auto calls = [&](const char* op, const Ints& rows, int64_t batch, int64_t input = 3) {
    const Shape y = {std::accumulate(rows.begin(), rows.end(), int64_t{0}), 4};
    const Shape state = {2, batch, 2};
    std::vector<Shape> shapes = {{y[0], input}, state, state};
    for (int direction = 0; direction < 2; ++direction) {
      shapes.insert(shapes.end(), 4, {2, input});
      shapes.insert(shapes.end(), 4, {2, 2});
      shapes.insert(shapes.end(), 8, {2});
    }
    if (op == std::string("rnn_grad")) shapes.insert(shapes.end(), {y, state, state});
    std::vector<Array> arrays;
    arrays.reserve(shapes.size());
    for (const Shape& shape : shapes) arrays.push_back(Upload(shape, Values(shape), kLibraries));
    std::vector<ArrayOperand> inputs(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) inputs[i] = ArrayOperand(&arrays[i]);
    executor_->Configure(settings);
    const int64_t before = Calls();
    RunOutputs outputs;
    const absl::Status status =
        executor_->Run({*OpRegistry::Global().Find(op),
                        inputs,
                        {AttrValue(rows), AttrValue(1), AttrValue(2), AttrValue(0)},
                        kLibraries},
                       &outputs);
    EXPECT_TRUE(status.ok() || absl::IsUnimplemented(status)) << status;
    EXPECT_EQ(status.ok(), Calls() > before && settings.max_workspace_size > 0) << status;
    return Calls() - before;
  };
  for (const char* const op : {"rnn", "rnn_grad"}) {
    settings = Settings();
    EXPECT_EQ(calls(op, {3, 2, 2}, 3), 1);
    EXPECT_EQ(calls(op, {3, 2, 0}, 3), 1);
    // What the composition is for.
    EXPECT_EQ(calls(op, {3, 2, 2}, 4), 0);
    EXPECT_EQ(calls(op, {0}, 3), 0);
    EXPECT_EQ(calls(op, {3, 2, 2}, 3, 0), 0);
    settings.max_workspace_size = 0;  // asked, and it declines
    EXPECT_EQ(calls(op, {3, 2, 2}, 3), 1);
    settings = Settings();
    settings.cudnn_deterministic = true;
    EXPECT_EQ(calls(op, {3, 2, 2}, 3), 0);
    settings = Settings();
    settings.use_cudnn = false;
    EXPECT_EQ(calls(op, {3, 2, 2}, 3), 0);
  }
}

TEST_F(LibrariesTest, SettingsDecide) {
  const std::vector<Shape> shapes = {{1, 2, 5, 5}, {3, 2, 3, 3}};
  const Attrs attrs = {AttrValue(Ints{1}), AttrValue(Ints{1}), AttrValue(false)};
  const auto calls = [&](const Settings& settings) {
    executor_->Configure(settings);
    return Compare("conv", shapes, attrs);
  };
  Settings settings;
  EXPECT_EQ(calls(settings), 1);
  settings.use_cudnn = false;
  EXPECT_EQ(calls(settings), 0);
  settings.use_cudnn = true;
  settings.cudnn_deterministic = true;
  EXPECT_EQ(calls(settings), 1);
  // No algorithm works without memory: asked, and the result is still right.
  settings.max_workspace_size = 0;
  EXPECT_EQ(calls(settings), 1);
}

}  // namespace
}  // namespace chx::server
