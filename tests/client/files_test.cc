// Arrays in files and back, and what becomes of a file after an error.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "client/files/npz.h"
#include "client/files/safetensors.h"
#include "client/optimizers.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

class FilesTest : public ClientTest {
 protected:
  FilesTest() { EXPECT_NE(mkdtemp(directory_), nullptr); }
  ~FilesTest() override { EXPECT_EQ(std::system(absl::StrCat("rm -r ", directory_).c_str()), 0); }
  std::string Path(absl::string_view name) const { return absl::StrCat(directory_, "/", name); }
  static std::string Bytes(const Array& array) {
    EXPECT_TRUE(array.ok()) << array.status();
    if (!array.ok()) return "";
    std::string bytes(static_cast<size_t>(array.spec().nbytes()), '\0');
    EXPECT_TRUE(array.CopyTo(&bytes[0], bytes.size()).ok());
    return bytes;
  }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // Every dtype of NumPy's in several shapes, and a name that is not ASCII.
  ArrayMap All() {
    ArrayMap arrays;
    for (int d = 0; d < kNumDtypes; ++d) {
      const auto dtype = static_cast<Dtype>(d);
      if (dtype != Dtype::kBfloat16) AddOf(dtype, &arrays);
    }
    return arrays;
  }
  void AddOf(Dtype dtype, ArrayMap* arrays) {
    for (const Shape& shape : {Shape({}), Shape({0, 3}), Shape({2, 3, 4}), Shape({5})}) {
      std::string data(static_cast<size_t>(NumElements(shape) * ItemSize(dtype)), '\0');
      for (size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<char>(dtype == Dtype::kBool ? i % 2 : i * 7 + 1);
      }
      (*arrays)[absl::StrCat(DtypeName(dtype), "/", shape.ToString(), "ü")] =
          Array::FromHost(*session_, data.data(), shape, dtype);
    }
  }
  static void ExpectSame(const ArrayMap& got, const ArrayMap& want) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [name, array] : want) {
      ASSERT_EQ(got.count(name), 1u) << name;
      EXPECT_EQ(got.at(name).dtype(), array.dtype()) << name;
      EXPECT_EQ(got.at(name).shape(), array.shape()) << name;
      EXPECT_EQ(Bytes(got.at(name)), Bytes(array)) << name;
    }
  }

  char directory_[32] = "/tmp/chx-files-XXXXXX";
};

TEST_F(FilesTest, NpzComesBack) {
  const ArrayMap arrays = All();
  for (const bool compressed : {false, true}) {
    ASSERT_OK(SaveNpz(Path("all.npz"), arrays, {compressed}));
    const absl::StatusOr<ArrayMap> loaded = LoadNpz(*session_, Path("all.npz"));
    ASSERT_OK(loaded.status());
    ExpectSame(*loaded, arrays);
  }
}

TEST_F(FilesTest, EqualArraysMakeEqualFiles) {
  ASSERT_OK(SaveNpz(Path("a.npz"), All()));
  ASSERT_OK(SaveNpz(Path("b.npz"), All()));
  EXPECT_EQ(Content(Path("a.npz")), Content(Path("b.npz")));
}

TEST_F(FilesTest, CompressionMakesFilesSmaller) {
  const ArrayMap arrays = {{"x", zeros(*session_, {1000, 100})}};
  ASSERT_OK(SaveNpz(Path("stored.npz"), arrays));
  ASSERT_OK(SaveNpz(Path("deflated.npz"), arrays, {true}));
  EXPECT_GT(Content(Path("stored.npz")).size(), 400000u);
  EXPECT_LT(Content(Path("deflated.npz")).size(), 10000u);
}

TEST_F(FilesTest, NpyComesBack) {
  for (const auto& [name, array] : All()) {
    ASSERT_OK(SaveNpy(Path("x.npy"), array));
    const Array loaded = LoadNpy(*session_, Path("x.npy"));
    ASSERT_OK(loaded.status());
    ExpectSame({{name, loaded}}, {{name, array}});
  }
}

TEST_F(FilesTest, NumpysFilesHaveNoBfloat16) {
  ArrayMap arrays;
  AddOf(Dtype::kBfloat16, &arrays);
  for (const absl::Status& status :
       {SaveNpy(Path("x.npy"), arrays.begin()->second), SaveNpz(Path("x.npz"), arrays)}) {
    EXPECT_EQ(KindOf(status), ErrorKind::kDtype) << status;
    EXPECT_NE(status.message().find("got bfloat16"), absl::string_view::npos) << status;
  }
  EXPECT_EQ(access(Path("x.npy").c_str(), F_OK), -1);
  EXPECT_EQ(access(Path("x.npz").c_str(), F_OK), -1);
}

TEST_F(FilesTest, SafetensorsComeBack) {
  ArrayMap arrays = All();
  AddOf(Dtype::kBfloat16, &arrays);
  const SafetensorsMetadata metadata = {{"format", "chx"}, {"größe", "\"1\"\n"}};
  ASSERT_OK(SaveSafetensors(Path("all.safetensors"), arrays, metadata));
  SafetensorsMetadata read;
  const absl::StatusOr<ArrayMap> loaded =
      LoadSafetensors(*session_, Path("all.safetensors"), 0, &read);
  ASSERT_OK(loaded.status());
  ExpectSame(*loaded, arrays);
  EXPECT_EQ(read, metadata);
  ASSERT_OK(SaveSafetensors(Path("none.safetensors"), {}));
  EXPECT_EQ(LoadSafetensors(*session_, Path("none.safetensors"))->size(), 0u);
}

TEST_F(FilesTest, AnOptimizerGoesOnFromAFile) {
  Array w = MakeParam({1, -2});
  optimizers::Adam first;
  first.alpha = 0.1;
  ASSERT_OK(first.Setup({w}));
  ASSERT_OK(w.SetGrad(Make({1, 3})));
  ASSERT_OK(first.Update());
  const absl::StatusOr<ArrayMap> state = first.State();
  ASSERT_OK(state.status());
  ASSERT_OK(SaveNpz(Path("adam.npz"), *state));
  ASSERT_OK(SaveNpy(Path("w.npy"), w));

  Array copy = LoadNpy(*session_, Path("w.npy")).RequireGrad();
  optimizers::Adam second;
  ASSERT_OK(second.Setup({copy}));
  ASSERT_OK(second.LoadState(*LoadNpz(*session_, Path("adam.npz"))));
  ASSERT_OK(copy.SetGrad(Make({1, 3})));
  ASSERT_OK(first.Update());
  ASSERT_OK(second.Update());
  EXPECT_EQ(Values(copy), Values(w));
}

TEST_F(FilesTest, AfterAnErrorTheOldFileIsThere) {
  const std::map<std::string, std::function<absl::Status(const std::string&, const ArrayMap&)>>
      savers = {
          {"x.npz", [](const auto& p, const auto& a) { return SaveNpz(p, a); }},
          {"x.npy", [](const auto& p, const auto& a) { return SaveNpy(p, a.at("x")); }},
          {"x.safetensors", [](const auto& p, const auto& a) { return SaveSafetensors(p, a); }}};
  ArrayMap arrays = {{"x", Make({1, 2, 3})}};
  // Only when it is read does this array fail.
  const int64_t outside = 7;
  const Array index = Array::FromHost(*session_, &outside, {}, Dtype::kInt64);
  const ArrayMap bad = {{"x", take(arrays["x"], index, 0)}};
  for (const auto& [name, save] : savers) {
    ASSERT_OK(save(Path(name), arrays));
    const std::string before = Content(Path(name));
    EXPECT_EQ(KindOf(save(Path(name), bad)), ErrorKind::kIndex) << name;
    EXPECT_EQ(Content(Path(name)), before);
    const absl::Status nowhere = save(Path("no/folder/" + name), arrays);
    EXPECT_FALSE(nowhere.ok());
    EXPECT_NE(nowhere.message().find("no/folder"), absl::string_view::npos) << nowhere;
  }
  // Nothing else is left behind.
  EXPECT_EQ(std::system(absl::StrCat("test $(ls ", directory_, " | wc -l) = 3").c_str()), 0);
}

TEST_F(FilesTest, RefusesNamesThatTheFormatDoesNotHave) {
  const Array x = Make({1});
  EXPECT_EQ(KindOf(SaveSafetensors(Path("x"), {{"\xff", x}})), ErrorKind::kValue);
  EXPECT_EQ(KindOf(SaveSafetensors(Path("x"), {{"__metadata__", x}})), ErrorKind::kValue);
  EXPECT_EQ(KindOf(SaveNpz(Path("x"), {})), ErrorKind::kValue);
  EXPECT_TRUE(absl::IsDataLoss(SaveNpz(Path("x"), {{"x", Array(absl::DataLossError("no"))}})));
}

TEST_F(FilesTest, WhatIsNoFile) {
  const auto all_refuse = [this](const std::string& path, absl::string_view why) {
    for (const absl::Status& status :
         {LoadNpz(*session_, path).status(), LoadNpy(*session_, path).status(),
          LoadSafetensors(*session_, path).status()}) {
      EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
      EXPECT_NE(status.message().find(std::string(why)), absl::string_view::npos) << status;
    }
  };
  all_refuse(Path("missing"), "No such file");
  all_refuse(directory_, "regular file");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  all_refuse(Path("pipe"), "regular file");  // and nothing waits
}

}  // namespace
}  // namespace chx
