// Arrays of a device with its own memory move to the host's, or to files, and come back before
// anything uses them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>
#include <utility>

#include "base/sanitizers.h"
#include "ops/basic_index.h"
#include "server/engine/executor.h"
#include "server/engine/spill_folder.h"
#include "tests/session/discrete_device.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kElements = int64_t{512} << 10;  // 2 MiB of float32
constexpr int64_t kBytes = 2 * kMiB;
constexpr int kArrays = 24;

std::string Folder() {
  for (const char* name : {"TEST_TMPDIR", "TMPDIR"}) {
    const char* const path = std::getenv(name);
    if (path != nullptr && SpillFolder::Open(path, 1).ok()) return path;
  }
  return "/var/tmp";
}

// In MiB; 0: there is no such limit.
struct Limits {
  const char* name = "";
  int64_t session = 256;
  int64_t device = 0;
  int64_t tenant_device = 0;
  int64_t tenant_host = 0;
  int64_t folder = 0;
};

class DiscreteSpillTest : public SessionTest {
 protected:
  using Floats = std::vector<float>;

  void TearDown() override { End(); }

  void End() {
    session_ = nullptr;
    if (group_ == nullptr) return;
    EXPECT_EQ(device_->faults(), 0) << "the engine used memory that is not the device's";
    EXPECT_EQ(device_->used(), 0u);
    account_ = nullptr;
    output_.Clear();  // errors are charged, too
    EXPECT_EQ(group_->host().used(), 0);
    EXPECT_EQ(group_->device("discrete:0")->used(), 0);
    EXPECT_EQ(folder_ == nullptr ? 0 : folder_->used(), 0);
  }

  // A session on discrete:0, which is device 0 of it, and native:0.
  void Begin(const Limits& limits) {
    End();
    const auto bytes = [](int64_t mib) { return mib == 0 ? int64_t{1} << 40 : mib * kMiB; };
    discrete_devices_ = std::make_unique<Devices>();
    discrete_ = std::make_unique<DiscreteBackend>(static_cast<size_t>(bytes(limits.device)));
    CHECK_OK(discrete_devices_->Open("discrete:0,native:0", {discrete_.get(), backend_.get()}));
    device_ = static_cast<DiscreteDevice*>(&discrete_devices_->at(0));
    folder_ = limits.folder == 0 ? nullptr : *SpillFolder::Open(Folder(), bytes(limits.folder));
    discrete_devices_->slot(0).spill = discrete_devices_->slot(1).spill = folder_.get();
    group_ =
        std::make_shared<MemoryGroup>("lab", std::vector<std::string>{"discrete:0", "native:0"});
    if (limits.tenant_host != 0) group_->host().set_limit(bytes(limits.tenant_host));
    if (limits.tenant_device != 0) {
      group_->device("discrete:0")->set_limit(bytes(limits.tenant_device));
    }
    account_ = std::make_shared<MemoryAccount>(limits.session * kMiB, nullptr, group_);
    SessionResources resources;
    resources.account = account_;
    SessionLimits session_limits;
    session_limits.memory_bytes = limits.session * kMiB;
    session_ =
        std::make_unique<Session>(discrete_devices_.get(), session_limits, std::move(resources));
    output_.Clear();
  }

  Floats Random(int64_t count) {
    Floats values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random_() % 1000);
    return values;
  }
  Floats Read(Handle handle) {
    const absl::StatusOr<Session::HostCopy> copy = session_->ReadArray(handle);
    EXPECT_TRUE(copy.ok()) << copy.status();
    Floats values(copy.ok() ? copy->data.size() / sizeof(float) : 0);
    if (!values.empty()) std::memcpy(values.data(), copy->data.data(), copy->data.size());
    return values;
  }
  int64_t spilled() const { return session_->stats().spilled_bytes; }
  void ExpectNoErrors() { ASSERT_TRUE(output_.errors.empty()) << LastError(); }
  // `count` arrays of one number each, from `first` on.
  void Fill(Handle first, int count, int64_t elements = kElements) {
    for (int i = 0; i < count; ++i) {
      const Handle handle = first + static_cast<Handle>(i);
      Run({Op("full", {}, {handle},
              {Ints{elements}, Scalar(static_cast<double>(handle)), Dtype::kFloat32})});
    }
  }
  void ExpectFilled(Handle handle, float value, int64_t elements = kElements) {
    EXPECT_EQ(Read(handle), Floats(static_cast<size_t>(elements), value)) << handle;
  }

  static unsigned Seed() {
    const char* const given = std::getenv("CHX_SEED");
    const unsigned seed =
        given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
    std::cout << "CHX_SEED=" << seed << std::endl;
    return seed;
  }

  std::mt19937 random_{Seed()};
  std::unique_ptr<Backend> discrete_;
  std::unique_ptr<Devices> discrete_devices_;
  DiscreteDevice* device_ = nullptr;
  std::unique_ptr<SpillFolder> folder_;
  MemoryGroupPtr group_;
  MemoryAccountPtr account_;
};

class RandomOrderTest : public DiscreteSpillTest, public ::testing::WithParamInterface<Limits> {};

TEST_P(RandomOrderTest, GivesWhatTheSameOperatorsGiveInVectors) {
  Begin(GetParam());
  struct Known {
    Handle handle;
    Floats values;
  };
  std::vector<Known> arrays;
  Handle next = 1;
  const auto upload = [&](int64_t size) {
    const Handle handle = next++;
    Floats values = Random(size);
    Upload(handle, values, {size});
    return Known{handle, std::move(values)};
  };
  // Of two sizes; those of one lie at positions of one parity.
  const auto size_of = [](size_t i) { return i % 2 == 0 ? kElements : kElements / 2 + 1000; };
  for (size_t i = 0; i < kArrays; ++i) arrays.push_back(upload(size_of(i)));
  EXPECT_GT(spilled(), 0);
  const auto like = [&](size_t i) {
    return (i + 2 * (1 + random_() % (kArrays / 2 - 1))) % kArrays;
  };
  for (int step = 0; step < (kSanitized ? 100 : 240); ++step) {
    const size_t i = random_() % kArrays;
    const size_t j = like(i);
    Known& a = arrays[i];
    Known& b = arrays[j];
    const size_t size = a.values.size();
    switch (random_() % 10) {
      case 0:  // in place
        Run({Op("add_", {A(a.handle), A(b.handle)}, {})});
        for (size_t k = 0; k < size; ++k) a.values[k] += b.values[k];
        break;
      case 1: {  // a result takes an operand's memory
        const Handle result = next++;
        Run({Op("maximum", {A(a.handle), A(b.handle)}, {result}), ReleaseOf({a.handle})});
        for (size_t k = 0; k < size; ++k) a.values[k] = std::max(a.values[k], b.values[k]);
        a.handle = result;
        break;
      }
      case 2: {  // through a view
        const Handle view = next++;
        Run({Op("getitem", {A(a.handle)}, {view},
                {IndexBuilder().Slice(1, absl::nullopt, 2).Build()}),
             Op("add_", {A(view), S(3)}, {}), ReleaseOf({view})});
        for (size_t k = 1; k < size; k += 2) a.values[k] += 3;
        break;
      }
      case 3: {  // a cast operand
        const Handle whole = next++;
        const Handle result = next++;
        Run({Op("astype", {A(a.handle)}, {whole}, {Dtype::kInt64}),
             Op("minimum", {A(b.handle), A(whole)}, {result}), ReleaseOf({whole, b.handle})});
        for (size_t k = 0; k < size; ++k) {
          b.values[k] = std::min(b.values[k], std::trunc(a.values[k]));
        }
        b.handle = result;
        break;
      }
      case 4: {  // operands that overlap: one is copied
        const Handle back = next++;
        Run({Op("getitem", {A(a.handle)}, {back},
                {IndexBuilder().Slice(absl::nullopt, absl::nullopt, -1).Build()}),
             Op("subtract_", {A(a.handle), A(back)}, {}), ReleaseOf({back})});
        const Floats before = a.values;
        for (size_t k = 0; k < size; ++k) a.values[k] -= before[size - 1 - k];
        break;
      }
      case 5: {  // lists
        const size_t m = like(j) == i ? j : like(j);
        if (m == i || m == j) break;
        Known& c = arrays[m];
        Run({Op("sgd_update", {A(a.handle), A(b.handle), A(c.handle), A(c.handle)}, {},
                {AttrValue(1.0)})});
        for (size_t k = 0; k < size; ++k) {
          a.values[k] -= c.values[k];
          b.values[k] -= c.values[k];
        }
        break;
      }
      case 6: {  // to another device, and back
        const Handle there = next++;
        const Handle back = next++;
        Run({Op("to_device", {A(a.handle)}, {there}, {AttrValue(int64_t{1})}),
             Op("add_", {A(there), S(1)}, {}),
             Op("to_device", {A(there)}, {back}, {AttrValue(int64_t{0})}),
             ReleaseOf({a.handle, there})});
        for (float& value : a.values) value += 1;
        a.handle = back;
        break;
      }
      case 7:
        Run({ReleaseOf({a.handle})});
        a = upload(static_cast<int64_t>(size));
        break;
      case 8:
        ASSERT_EQ(Read(a.handle), a.values) << step;
        break;
      default: {  // a strided fetch
        const Handle view = next++;
        Run({Op("getitem", {A(a.handle)}, {view},
                {IndexBuilder().Slice(absl::nullopt, absl::nullopt, -1).Build()})});
        ASSERT_EQ(Read(view), Floats(a.values.rbegin(), a.values.rend())) << step;
        Run({ReleaseOf({view})});
      }
    }
    ExpectNoErrors();
    if (HasFatalFailure()) return;
    if (GetParam().tenant_device != 0) {
      EXPECT_LE(group_->device("discrete:0")->used(), GetParam().tenant_device * kMiB);
    }
    EXPECT_LE(account_->used(), GetParam().session * kMiB);
    EXPECT_LE(group_->host().used(), group_->host().limit());
  }
  for (const Known& each : arrays) EXPECT_EQ(Read(each.handle), each.values) << each.handle;
}

INSTANTIATE_TEST_SUITE_P(, RandomOrderTest,
                         ::testing::Values(Limits{"DeviceFull", 256, 16},
                                           Limits{"TenantsPart", 256, 0, 16},
                                           Limits{"TenantsPartThenFiles", 256, 0, 16, 16, 256},
                                           Limits{"SessionsLimit", 20, 0, 0, 0, 256}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(DiscreteSpillTest, TheColdestGoAndAreCounted) {
  Begin({"", 256, 16});
  Fill(1, 7);
  EXPECT_EQ(spilled(), 0);
  Run({Op("add_", {A(1), S(0)}, {})});  // the coldest is 2 now
  Fill(8, 3);
  ExpectNoErrors();
  const DeviceCounters& counters = session_->counters().devices[0];
  EXPECT_EQ(spilled(), counters.spilled_bytes.value());
  EXPECT_GE(spilled(), 2 * kBytes);
  EXPECT_LE(spilled(), 4 * kBytes);
  EXPECT_EQ(account_->used_for(MemoryUse::kAway), spilled());
  EXPECT_GE(group_->host().used(), spilled()) << "the tenant's, too";
  EXPECT_GE(session_->stats().memory_bytes, 10 * kBytes);
  const int64_t before = spilled();
  Run({Op("add_", {A(1), S(0)}, {}), Op("add_", {A(9), S(0)}, {})});
  EXPECT_EQ(spilled(), before) << "they have not gone";
  for (Handle i = 1; i <= 10; ++i) ExpectFilled(i, static_cast<float>(i));
  EXPECT_EQ(spilled(), before) << "a fetch brings nothing back";
  std::vector<Handle> all(10);
  std::iota(all.begin(), all.end(), 1);
  Run({ReleaseOf(all)});
  EXPECT_EQ(spilled(), 0);
  EXPECT_EQ(counters.spilled_bytes.value(), 0);
  EXPECT_EQ(account_->used_for(MemoryUse::kAway), 0);
}

TEST_F(DiscreteSpillTest, AViewOfWhatIsAwayBringsNothingBack) {
  Begin({"", 256, 16});
  const Floats values = Random(kElements);
  Upload(1, values, {kElements});
  Fill(10, kArrays);
  const int64_t before = spilled();
  Run({Op("reshape", {A(1)}, {2}, {AttrValue(Ints{2, kElements / 2})}),
       Op("transpose", {A(2)}, {3}, {AttrValue(Ints{1, 0})})});
  EXPECT_EQ(spilled(), before);
  Run({Op("add_", {A(3), S(7)}, {})});
  Fill(40, kArrays);  // it goes again
  Run({Op("add_", {A(1), S(1)}, {})});
  ExpectNoErrors();
  const Floats transposed = Read(3);
  ASSERT_EQ(static_cast<int64_t>(transposed.size()), kElements);
  for (size_t k = 0; k < values.size(); ++k) {
    ASSERT_EQ(transposed[k], values[k % 2 * (kElements / 2) + k / 2] + 8) << k;
  }
}

TEST_F(DiscreteSpillTest, GradientsOfMoreThanTheDevice) {
  Begin({"", 512, 16});
  std::vector<Floats> values;
  Run({Op("zeros", {}, {500}, {AttrValue(Ints{}), AttrValue(Dtype::kFloat32)})});
  Handle total = 500;
  for (Handle i = 1; i <= kArrays; ++i) {
    values.push_back(Random(kElements));
    Upload(i, values.back(), {kElements});
    const Handle base = 1000 + 10 * i;
    Run({command::RequireGrad{i}, Op("multiply", {A(i), A(i)}, {base}),
         OpByDefault("sum", {A(base)}, {base + 1}), Op("add", {A(total), A(base + 1)}, {base + 2}),
         ReleaseOf({base, base + 1, total})});
    total = base + 2;
  }
  ExpectNoErrors();
  Run({BackwardOf({total}), BackwardOf({total})});
  ExpectNoErrors();
  for (Handle i = 1; i <= kArrays; ++i) {
    Run({GetGradOf(i, 5000 + i)});
    Floats expected = values[i - 1];
    for (float& value : expected) value *= 4;
    EXPECT_EQ(Read(5000 + i), expected) << i;
  }
}

TEST_F(DiscreteSpillTest, AnUploadInPiecesMayMoveMeanwhile) {
  Begin({"", 256, 16});
  const Floats values = Random(kElements);
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float));
  const int64_t shape[] = {kElements};
  absl::StatusOr<Session::UploadSink> sink = session_->BeginUpload(1, Dtype::kFloat32, shape, 0);
  ASSERT_TRUE(sink.ok());
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(sink->Write(bytes.substr(i * bytes.size() / 4, bytes.size() / 4)).ok());
    if (i == 1) Fill(10, kArrays);
    if (i == 2) Run({Op("add_", {A(10), S(0)}, {})});
  }
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(Read(1), values);
  Run({Op("negative", {A(1)}, {2}), Op("negative", {A(2)}, {3})});
  EXPECT_EQ(Read(3), values);
}

TEST_F(DiscreteSpillTest, WithBothMemoriesFullArraysChangePlaces) {
  Begin({"", 256, 16, 0, 10});
  Handle count = 0;
  while (output_.errors.empty() && count < 100) Fill(++count, 1);
  EXPECT_EQ(KindOf(output_.errors.at(0).error->status), ErrorKind::kMemory) << LastError();
  ASSERT_GE(--count, 11u);
  const int64_t before = spilled();
  EXPECT_GE(before, 3 * kBytes);
  output_.Clear();
  for (int round = 1; round <= 2; ++round) {
    for (Handle i = 1; i <= count; ++i) Run({Op("add_", {A(i), S(1)}, {})});
  }
  ExpectNoErrors();
  EXPECT_EQ(spilled(), before);
  for (Handle i = 1; i <= count; ++i) ExpectFilled(i, static_cast<float>(i) + 2);
}

TEST_F(DiscreteSpillTest, WhatCannotComeBackStaysWhereItIs) {
  Begin({"", 256, 16, 0, 7});
  Fill(1, 1, 3 * kElements / 2);  // 3 MiB, and nothing of its size
  Fill(2, 9);
  Handle last = 10;
  while (output_.errors.empty() && last < 100) Fill(++last, 1);
  output_.Clear();
  const int64_t before = spilled();
  Run({Op("add_", {A(1), S(1)}, {}), Op("add", {A(1), A(1)}, {200})});
  ASSERT_EQ(output_.errors.size(), 2u);
  for (const SessionOutput::Error& error : output_.errors) {
    EXPECT_EQ(KindOf(error.error->status), ErrorKind::kMemory);
    EXPECT_THAT(std::string(error.error->status.message()),
                HasSubstr("out of memory: an array of 3 MiB that was moved to host memory cannot "
                          "come back to discrete:0"));
  }
  output_.Clear();
  EXPECT_LE(spilled(), before + kBytes);
  ExpectFilled(1, 1, 3 * kElements / 2);
  for (Handle i = 2; i < last; ++i) ExpectFilled(i, static_cast<float>(i));
  Run({ReleaseOf({8, 9}), Op("add_", {A(1), S(1)}, {})});
  ExpectNoErrors();
  ExpectFilled(1, 2, 3 * kElements / 2);
}

// Host memory counts for it as the device's does.
TEST_F(DiscreteSpillTest, TheSessionsLimitLeavesRoomToComeBack) {
  Begin({"", 24, 16});
  Handle count = 0;
  while (output_.errors.empty() && count < 100) Fill(++count, 1);
  EXPECT_EQ(KindOf(output_.errors.at(0).error->status), ErrorKind::kMemory) << LastError();
  --count;
  EXPECT_GE(count, 8u);
  EXPECT_GT(spilled(), 0);
  output_.Clear();
  for (Handle i = 1; i <= count; ++i) Run({Op("add_", {A(i), S(1)}, {})});
  ExpectNoErrors();
  for (Handle i = 1; i <= count; ++i) ExpectFilled(i, static_cast<float>(i) + 1);
}

TEST_F(DiscreteSpillTest, AtTheSessionsLimitNothingMovesToNoAvail) {
  Begin({"", 16, 0});
  Fill(1, 12);
  EXPECT_FALSE(output_.errors.empty());
  EXPECT_EQ(spilled(), 0);
}

TEST_F(DiscreteSpillTest, AFileTakesWhatHostMemoryHasNoRoomFor) {
  Begin({"", 256, 16, 0, 10, 256});
  Fill(1, kArrays);
  ExpectNoErrors();
  EXPECT_GE(account_->used_for(MemoryUse::kAway), 2 * kBytes) << "host memory first";
  EXPECT_GT(folder_->used(), 8 * kBytes);
  EXPECT_EQ(spilled(), account_->used_for(MemoryUse::kAway) + folder_->used());
  for (Handle i = 1; i <= kArrays; ++i) Run({Op("add_", {A(i), S(1)}, {})});
  ExpectNoErrors();
  for (Handle i = 1; i <= kArrays; ++i) ExpectFilled(i, static_cast<float>(i) + 1);
}

// The array is where it was, whole, whenever the copy is cut.
TEST_F(DiscreteSpillTest, AStopLosesNothing) {
  Begin({"", 256, 16});
  Fill(1, kArrays);
  ExpectNoErrors();
  for (int copies = 1; copies < 8; ++copies) {
    int left = copies;
    device_->before_copy = [&] {
      if (--left == 0) session_->stop().Cancel(1);
    };
    const Handle i = static_cast<Handle>(copies);
    const Command command = Op("add", {A(i), S(100)}, {100 + i});
    session_->Execute({&command, 1}, &output_, 1);
    device_->before_copy = nullptr;
    ASSERT_EQ(output_.errors.size(), 1u) << copies;
    EXPECT_EQ(LastError(), "[add] was cancelled");
    output_.Clear();
    Run({Op("add", {A(i), S(100)}, {200 + i}), ReleaseOf({100 + i})});
    ExpectNoErrors();
    ExpectFilled(200 + i, static_cast<float>(100 + i));
  }
  for (Handle i = 1; i <= kArrays; ++i) ExpectFilled(i, static_cast<float>(i));
}

TEST_F(DiscreteSpillTest, SharingTakesAnArrayFromWhereItIs) {
  Begin({"", 256, 16});
  session_ = nullptr;
  Executor executor(discrete_devices_.get(), account_);
  const ArraySpec spec(Dtype::kFloat32, Shape({kElements}), 0);
  std::vector<Array> arrays;
  std::vector<Floats> values;
  for (int i = 0; i < 12; ++i) {
    executor.EndUses();
    values.push_back(Random(kElements));
    arrays.push_back(*executor.Allocate(spec));
    const absl::string_view bytes(reinterpret_cast<const char*>(values.back().data()), kBytes);
    ASSERT_TRUE(executor.CopyIn(arrays.back(), 0, bytes).ok());
  }
  executor.EndUses();
  ASSERT_TRUE(arrays[0].buffer->spilled());
  const Array view = {arrays[0].buffer, spec};
  for (const size_t i : {size_t{0}, size_t{11}}) {
    const auto storage = executor.MoveToStorage(arrays[i]);
    ASSERT_TRUE(storage.ok()) << storage.status();
    EXPECT_FALSE(arrays[i].buffer->spilled());
    EXPECT_EQ(arrays[i].data(), (*storage)->data());
  }
  EXPECT_FALSE(executor.Share(arrays[1]).ok()) << "no client maps this device's memory";
  values.push_back(values[0]);
  arrays.push_back(view);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const absl::StatusOr<std::string> bytes = executor.CopyOut(arrays[i]);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(std::memcmp(bytes->data(), values[i].data(), bytes->size()), 0) << i;
  }
}

}  // namespace
}  // namespace chx::server
