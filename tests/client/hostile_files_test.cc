// Files that are cut short, changed or made up: an error that names the file, never a crash, and
// no memory for what is not there.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "client/files/npy_format.h"
#include "client/files/npz.h"
#include "client/files/npz_reader.h"
#include "client/files/safetensors.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

class HostileFilesTest : public ClientTest {
 protected:
  HostileFilesTest() { EXPECT_NE(mkdtemp(directory_), nullptr); }
  ~HostileFilesTest() override {
    EXPECT_EQ(std::system(absl::StrCat("rm -r ", directory_).c_str()), 0);
  }
  std::string Path(absl::string_view name) const { return absl::StrCat(directory_, "/", name); }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string Write(const std::string& content) const {
    std::ofstream(Path("file"), std::ios::binary) << content;
    return Path("file");
  }
  absl::Status Npy(const std::string& content) {
    return LoadNpy(*session_, Write(content)).status();
  }
  absl::Status Npz(const std::string& content) {
    return LoadNpz(*session_, Write(content)).status();
  }
  absl::Status Safetensors(const std::string& content) {
    return LoadSafetensors(*session_, Write(content)).status();
  }
  // A version 1 file with this header.
  static std::string NpyOf(const std::string& header, const std::string& data) {
    const auto size = static_cast<uint16_t>(header.size());
    std::string bytes("\x93NUMPY\1\0", 8);
    bytes += static_cast<char>(size & 0xff);
    bytes += static_cast<char>(size >> 8);
    return bytes + header + data;
  }
  static std::string SafetensorsOf(const std::string& json, const std::string& data) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(json.size() >> (8 * i) & 0xff);
    return bytes + json + data;
  }
  static void ExpectSays(const absl::Status& status, absl::string_view text) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(std::string(text)), absl::string_view::npos)
        << status << " does not say " << text;
  }

  char directory_[32] = "/tmp/chx-files-XXXXXX";
};

TEST_F(HostileFilesTest, EveryTruncationIsAnError) {
  const ArrayMap arrays = {{"w", Make({1, 2, 3})}, {"b", zeros(*session_, {2, 2})}};
  ASSERT_OK(SaveNpz(Path("npz"), arrays, {true}));
  ASSERT_OK(SaveNpy(Path("npy"), arrays.at("w")));
  ASSERT_OK(SaveSafetensors(Path("safetensors"), arrays));
  const std::string npz = Content(Path("npz"));
  const std::string npy = Content(Path("npy"));
  const std::string safetensors = Content(Path("safetensors"));
  for (size_t i = 0; i < npz.size(); ++i) EXPECT_FALSE(Npz(npz.substr(0, i)).ok()) << i;
  for (size_t i = 0; i < npy.size(); ++i) EXPECT_FALSE(Npy(npy.substr(0, i)).ok()) << i;
  for (size_t i = 0; i < safetensors.size(); ++i) {
    EXPECT_FALSE(Safetensors(safetensors.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(Npy(npy + "x").ok());
  EXPECT_FALSE(Safetensors(safetensors + "x").ok());
}

TEST_F(HostileFilesTest, EveryChangedByteIsAnErrorOrAnArray) {
  const ArrayMap arrays = {{"w", Make({1, 2, 3})}};
  ASSERT_OK(SaveNpz(Path("npz"), arrays, {true}));
  ASSERT_OK(SaveSafetensors(Path("safetensors"), arrays));
  const auto sink = [](const std::string&, HostArray array) {
    EXPECT_EQ(array.data.size(),
              static_cast<size_t>(NumElements(array.shape) * ItemSize(array.dtype)));
    return absl::OkStatus();
  };
  const std::string npz = Content(Path("npz"));
  const std::string safetensors = Content(Path("safetensors"));
  for (const int change : {1, 0x40, 0xff}) {
    for (size_t i = 0; i < npz.size(); ++i) {
      std::string changed = npz;
      changed[i] = static_cast<char>(changed[i] ^ change);
      ReadNpzBytes(changed, sink).IgnoreError();
    }
    for (size_t i = 0; i + 24 < safetensors.size(); ++i) {
      std::string changed = safetensors;
      changed[i] = static_cast<char>(changed[i] ^ change);
      Safetensors(changed).IgnoreError();
    }
  }
}

TEST_F(HostileFilesTest, NpyHeaders) {
  const auto header = [](const std::string& descr, const std::string& shape) {
    return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }\n";
  };
  const std::string two(16, '\1');
  ASSERT_OK(Npy(NpyOf(header("'<f8'", "(2,)"), two)));
  ASSERT_OK(Npy(NpyOf("{\"shape\":(2L,),\"descr\":\">f8\",\"fortran_order\":True}", two)));
  // More than there is: no memory is allocated for it.
  ExpectSays(Npy(NpyOf(header("'<f8'", "(1000000000000,)"), two)), "8000000000000 bytes");
  ExpectSays(Npy(NpyOf(header("'<f8'", "(4611686018427387904, 4)"), two)), "2^62");
  for (const char* shape :
       {"(-2,)", "(2", "2", "(2,, )", "(99999999999999999999,)", "[2]", "(1e3,)", ""}) {
    EXPECT_EQ(KindOf(Npy(NpyOf(header("'<f8'", shape), two))), ErrorKind::kValue) << shape;
  }
  std::string many = "(";
  for (int i = 0; i < 1000; ++i) many += "1,";
  EXPECT_FALSE(Npy(NpyOf(header("'<f8'", many + ")"), two)).ok());
  EXPECT_FALSE(Npy(NpyOf(header("'<f8'", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2)"), two)).ok());
  for (const char* descr : {"'<u2'", "'|O'", "'<U4'", "'<c8'", "[('a', '<f8')]", "'<f8xxxxxxxx'"}) {
    const absl::Status status = Npy(NpyOf(header(descr, "(2,)"), two));
    EXPECT_EQ(KindOf(status), ErrorKind::kDtype) << descr << status;
  }
  ExpectSays(Npy(NpyOf("{'descr': '<f8', 'descr': '<f8'}", two)), "expects a header");
  ExpectSays(Npy(NpyOf(header("'<f8'", "(2,)") + "__import__('os')", two)), "expects a header");
  ExpectSays(Npy("PK\3\4 something else"), "NUMPY");
  std::string future = NpyOf(header("'<f8'", "(2,)"), two);
  future[6] = 9;
  ExpectSays(Npy(future), "version");
}

TEST_F(HostileFilesTest, BoolsAreZeroOrOne) {
  const Array bools = LoadNpy(
      *session_,
      Write(NpyOf("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\2\xff\1")));
  char values[3];
  ASSERT_OK(bools.CopyTo(values, 3));
  EXPECT_EQ(std::string(values, 3), "\1\1\1");
}

TEST_F(HostileFilesTest, SafetensorsHeaders) {
  const auto load = [this](const std::string& json) {
    return Safetensors(SafetensorsOf(json, std::string(8, '\1')));
  };
  ASSERT_OK(load(R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})"));
  const char* const bad[] = {
      "",
      "[]",
      "nul",
      "{\"w\": 1}",
      "{\"w\": {}}",
      "{}",
      R"({"w": {"dtype": 1, "shape": [2], "data_offsets": [0, 8]}})",
      R"({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})",
      R"({"w": {"dtype": "F32", "shape": [2.5], "data_offsets": [0, 8]}})",
      R"({"w": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})",
      R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})",
      R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]}})",
      R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [18446744073709551608, 0]}})",
      R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",  // a hole
      R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
      R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
          "v": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",  // overlap
      R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
          "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
      R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "__metadata__": {"a": 1}})",
      "{\"\xff\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}"};
  for (const char* json : bad) EXPECT_EQ(KindOf(load(json)), ErrorKind::kValue) << json;
  ExpectSays(load(R"({"w": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}})"),
             "F8_E4M3");
  ExpectSays(load(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}})"), "'w'");
  ExpectSays(load(R"({"w": {"dtype": "F32", "shape": [9223372036854775807, 9223372036854775807],
                      "data_offsets": [0, 8]}})"),
             "2^62");
  // A length beyond the file's end.
  std::string length(8, '\xff');
  ExpectSays(Safetensors(length + "{}"), "18446744073709551615");
  length[7] = 0;
  EXPECT_FALSE(Safetensors(length + "{}").ok());
}

TEST_F(HostileFilesTest, DeepJson) {
  for (const char* const open : {"[", "{\"a\":"}) {
    std::string json = "{\"w\":";
    for (int i = 0; i < 1000000; ++i) json += open;
    EXPECT_EQ(KindOf(Safetensors(SafetensorsOf(json, ""))), ErrorKind::kValue);
  }
}

TEST_F(HostileFilesTest, NpzMembers) {
  ASSERT_OK(SaveNpz(Path("npz"), {{"w", Make({1, 2, 3})}}));
  const std::string npz = Content(Path("npz"));
  const auto changed = [&npz](const std::string& from, const std::string& to) {
    std::string result = npz;
    for (size_t at = result.find(from); at != std::string::npos; at = result.find(from, at + 1)) {
      result.replace(at, from.size(), to);
    }
    EXPECT_NE(result, npz);
    return result;
  };
  ExpectSays(Npz(changed("w.npy", "w.txt")), "'w.txt'");
  // The array's own header says more than the member has.
  ExpectSays(Npz(changed("(3,)", "(9,)")), "72 bytes");
  ExpectSays(Npz(changed("(3,)", "(9,)")), "'w.npy'");
  // A changed element: the checksum.
  ExpectSays(Npz(changed(std::string("\x08\x40", 2), std::string("\x09\x40", 2))), "CRC");
  ExpectSays(Npz("not a zip"), "ZIP archive");
}

}  // namespace
}  // namespace chx
