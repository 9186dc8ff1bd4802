// Contexts, devices, scopes, exceptions and values.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/chainerx/chainerx_fixture.h"

namespace chainerx {
namespace {

class ContextTest : public ChainerxTest {};

TEST_F(ContextTest, DevicesHaveNames) {
  Device& device = GetDevice("native:1");
  EXPECT_EQ(device.name(), "native:1");
  EXPECT_EQ(device.index(), 1);
  EXPECT_EQ(device.backend().GetName(), "native");
  EXPECT_EQ(&device.context(), &*context_);
  EXPECT_EQ(&GetDevice({"native", 1}), &device);
  EXPECT_EQ(&GetDevice("native"), &GetNativeBackend().GetDevice(0));
  EXPECT_EQ(GetBackend("native").GetDeviceCount(), 2);
  EXPECT_THROW(GetBackend("abacus"), BackendError);
  EXPECT_THROW(GetDevice("native:x"), DeviceError);
  EXPECT_THROW(GetDevice(":0"), DeviceError);
  EXPECT_THROW(GetDevice("native:2"), std::out_of_range);
  EXPECT_THROW(CheckEqual(device, GetDevice("native:0")), DeviceError);
  device.Synchronize();
}

TEST_F(ContextTest, DefaultDeviceIsNative0AndOfTheThread) {
  EXPECT_EQ(GetDefaultDevice().name(), "native:0");
  {
    DeviceScope scope(GetDevice("native:1"));
    EXPECT_EQ(Zeros({1}, Dtype::kInt8).device().name(), "native:1");
    std::thread([&] {
      EXPECT_THROW(GetDefaultContext(), ContextError);
      SetDefaultContext(&*context_);
      EXPECT_EQ(GetDefaultDevice().name(), "native:0");
    }).join();
    {
      DeviceScope inner(&GetNativeBackend(), 0);
      EXPECT_EQ(GetDefaultDevice().index(), 0);
      inner.Exit();
      EXPECT_EQ(GetDefaultDevice().index(), 1);
    }
    EXPECT_EQ(GetDefaultDevice().index(), 1);
  }
  EXPECT_EQ(GetDefaultDevice().index(), 0);
}

TEST_F(ContextTest, ContextsAreApart) {
  Context other(UnixAddress());
  const Array here = Zeros({1}, Dtype::kFloat32);
  {
    ContextScope scope(other);
    EXPECT_EQ(&GetDefaultContext(), &other);
    const Array there = Zeros({1}, Dtype::kFloat32);
    EXPECT_EQ(&there.context(), &other);
    EXPECT_THROW(here + there, ContextError);
    EXPECT_THROW(SetDefaultDevice(&here.device()), ContextError);
    EXPECT_THROW(there.RequireGrad(context_->default_backprop_id()), ContextError);
    EXPECT_THROW(here.ToDevice(there.device()), ContextError);
  }
  EXPECT_EQ(&GetDefaultContext(), &*context_);
  SetGlobalDefaultContext(&other);
  std::thread([&other] { EXPECT_EQ(&GetDefaultContext(), &other); }).join();
  SetGlobalDefaultContext(nullptr);
  EXPECT_THROW(GetGlobalDefaultContext(), ContextError);
}

TEST_F(ContextTest, AddressMayBeInTheEnvironment) {
  setenv("CHX_SERVER", UnixAddress().c_str(), 1);
  EXPECT_EQ(Context().GetNativeBackend().GetDeviceCount(), 2);
  unsetenv("CHX_SERVER");
  EXPECT_THROW(Context(), ConnectionError);
  EXPECT_THROW(Context("unix:/nonexistent/socket"), ConnectionError);
}

TEST_F(ContextTest, ArraysGoToDevices) {
  const Array a = Floats({2}, {1, 2});
  const Array b = a.ToDevice(GetDevice("native:1"));
  EXPECT_EQ(b.device().name(), "native:1");
  ExpectArray(b.ToNative(), {2}, {1, 2});
  EXPECT_EQ(b.ToNative().device().name(), "native:0");
  a.ToNative().Fill(3);  // a view: it is there already
  ExpectArray(a, {2}, {3, 3});
  EXPECT_THROW(a + b, DeviceError);
}

TEST_F(ContextTest, ExceptionsAreChainerxs) {
  const Array a = Floats({2}, {1, 2});
  EXPECT_THROW(a + Floats({3}, {1, 2, 3}), DimensionError);
  EXPECT_THROW(a.Reshape({3}), DimensionError);
  EXPECT_THROW(a & a, DtypeError);
  EXPECT_THROW(Build<int32_t>({1}, {1}).RequireGrad(), DtypeError);
  EXPECT_THROW(a.At({2}), IndexError);
  EXPECT_THROW(a.shape()[1], IndexError);
  EXPECT_THROW(GetDtype("float128"), DtypeError);
  EXPECT_THROW(Slice(0, 1, 0), DimensionError);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), DimensionError);
  EXPECT_THROW(Array().shape(), ChainerxError);
  EXPECT_THROW(Array() + 1, ChainerxError);
  EXPECT_THROW(Ones({1 << 20, 1 << 10}, Dtype::kFloat64).Sum().ToString(), OutOfMemoryError);
  try {
    a.Reshape({3});
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("[reshape] expects"), std::string::npos);
  }
}

TEST_F(ContextTest, PropertiesOfArrays) {
  const Array a = Zeros({2, 3}, Dtype::kFloat64);
  EXPECT_EQ(a.GetTotalSize(), 6);
  EXPECT_EQ(a.GetItemSize(), 8);
  EXPECT_EQ(a.GetNBytes(), 48);
  EXPECT_EQ(a.ndim(), 2);
  EXPECT_EQ(a.strides(), Strides(a.shape(), a.dtype()));
  EXPECT_TRUE(a.IsContiguous());
  EXPECT_EQ(a.At({Slice{}, 1}).offset(), 8);
  EXPECT_EQ(a.AsType(Dtype::kFloat64, false).body(), a.body());
  EXPECT_NE(a.AsType(Dtype::kFloat64).body(), a.body());
}

TEST_F(ContextTest, DataIsTheDaemonsMemory) {
  const Array a = Build<int32_t>({2, 3}, {0, 1, 2, 3, 4, 5});
  const Array column = a.At({Slice{}, 2});
  const char* const first = static_cast<const char*>(column.raw_data()) + column.offset();
  EXPECT_EQ(*reinterpret_cast<const int32_t*>(first), 2);
  EXPECT_EQ(*reinterpret_cast<const int32_t*>(first + column.strides()[0]), 5);
  a += 10;
  EXPECT_EQ(*reinterpret_cast<const int32_t*>(first), 12);
  *reinterpret_cast<int32_t*>(column.raw_data()) = 7;  // of a's first element
  ExpectArray(a, {2, 3}, {7, 11, 12, 13, 14, 15});
}

TEST_F(ContextTest, ArraysMayOutliveTheirContext) {
  Array a;
  {
    Context other(UnixAddress());
    a = Ones({2}, Dtype::kFloat32, other.GetDevice("native:0"));
  }
  EXPECT_EQ(a.shape(), (Shape{2}));
}

TEST(OtherDevicesTest, FirstDeviceIsTheDefaultWithoutNative0) {
  class Other : public chx::server::DaemonTest {
   public:
    void TestBody() override {
      options.devices = "native:3,native:1";
      StartOnUnixSocket();
      Context context(UnixAddress());
      SetDefaultContext(&context);
      EXPECT_EQ(GetDefaultDevice().name(), "native:3");
      EXPECT_EQ(GetDevice("native:1").name(), "native:1");
      EXPECT_EQ(Zeros({1}, Dtype::kInt8, GetDevice("native:1")).device().name(), "native:1");
      EXPECT_THROW(GetDevice("native:0"), std::out_of_range);
      SetDefaultContext(nullptr);
    }
  };
  Other().TestBody();
}

// Another kind of connection, over which no memory is shared.
TEST(RemoteContextTest, DataIsACopyOverTcp) {
  class Remote : public chx::server::DaemonTest {
   public:
    void TestBody() override {
      Start();
      Context context(address());
      SetDefaultContext(&context);
      const Array a = Build<int32_t>({2, 3}, {0, 1, 2, 3, 4, 5});
      const Array flipped = Flip(a.Transpose(), 0);
      const char* const first = static_cast<const char*>(flipped.raw_data()) + flipped.offset();
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < 2; ++j) {
          const int64_t at = i * flipped.strides()[0] + j * flipped.strides()[1];
          EXPECT_EQ(*reinterpret_cast<const int32_t*>(first + at), 3 * j + 2 - i);
        }
      }
      const Array wide = Build<int32_t>({1}, {4}).BroadcastTo({3});
      EXPECT_EQ(*static_cast<const int32_t*>(wide.raw_data()), 4);
      a += 10;
      EXPECT_EQ(*static_cast<const int32_t*>(a.raw_data()), 10);
      SetDefaultContext(nullptr);
    }
  };
  Remote().TestBody();
}

TEST(ValuesTest, Dtypes) {
  EXPECT_EQ(GetAllDtypes().size(), 9U);
  for (Dtype dtype : GetAllDtypes()) EXPECT_EQ(GetDtype(GetDtypeName(dtype)), dtype);
  EXPECT_EQ(TypeToDtype<const float>, Dtype::kFloat32);
  EXPECT_EQ(GetItemSize(Dtype::kFloat16), 2);
  EXPECT_EQ(GetKind(Dtype::kUInt8), DtypeKind::kUInt);
  EXPECT_EQ(GetCharCode(Dtype::kFloat64), 'd');
  EXPECT_EQ(PromoteTypes(Dtype::kInt8, Dtype::kUInt8), Dtype::kInt16);
  EXPECT_THROW(CheckEqual(Dtype::kInt8, Dtype::kInt16), DtypeError);
  EXPECT_THROW(GetItemSize(static_cast<Dtype>(0)), DtypeError);
}

TEST(ValuesTest, Scalars) {
  EXPECT_EQ(Scalar(1).kind(), DtypeKind::kInt);
  EXPECT_EQ(Scalar(1U).kind(), DtypeKind::kInt);
  EXPECT_EQ(Scalar(1.F).kind(), DtypeKind::kFloat);
  EXPECT_EQ(Scalar(true).kind(), DtypeKind::kBool);
  EXPECT_EQ(Scalar(Float16(0.5)), Scalar(0.5));
  EXPECT_EQ(Scalar(2) + Scalar(0.5), Scalar(2.5));
  EXPECT_EQ(-Scalar(3), Scalar(-3));
  EXPECT_THROW(-Scalar(true), DtypeError);
  EXPECT_EQ(static_cast<int32_t>(Scalar(2.75)), 2);
  EXPECT_EQ(Scalar(2.0).ToString(), "2.0");
  EXPECT_EQ(Scalar(false).ToString(), "False");
}

// All of the 65536 values, and halves between neighbours.
TEST(ValuesTest, Float16RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const Float16 half = Float16::FromData(static_cast<uint16_t>(bits));
    const auto value = static_cast<float>(half);
    ASSERT_EQ(Float16(value).data(), bits);
    ASSERT_EQ(Float16(-value).data(), bits | 0x8000);
    const auto next = static_cast<float>(Float16::FromData(static_cast<uint16_t>(bits + 1)));
    const float middle = bits + 1 == 0x7c00 ? 65520.F : (value + next) / 2;
    ASSERT_EQ(Float16(middle).data(), bits + (bits & 1)) << bits;
  }
  EXPECT_TRUE(Float16(std::numeric_limits<float>::infinity()).IsInf());
  EXPECT_TRUE(Float16(std::numeric_limits<float>::quiet_NaN()).IsNan());
  EXPECT_EQ(static_cast<float>(Float16(1.5) * Float16(2.0)), 3.F);
}

TEST(ValuesTest, ShortVectors) {
  Shape shape{2, 3};
  shape.push_back(4);
  shape.insert(shape.begin(), 1);
  EXPECT_EQ(shape, (Shape{1, 2, 3, 4}));
  shape.erase(shape.begin() + 1);
  EXPECT_EQ(shape.ToString(), "(1, 3, 4)");
  EXPECT_EQ(Shape(std::vector<int64_t>{5}).ToString(), "(5,)");
  EXPECT_EQ(std::vector<int64_t>(shape.rbegin(), shape.rend()), (std::vector<int64_t>{4, 3, 1}));
  EXPECT_EQ((Axes{1, -1}).ToString(), "(1, -1)");
  EXPECT_THROW(CheckEqual(shape, Shape{}), DimensionError);
}

}  // namespace
}  // namespace chainerx
