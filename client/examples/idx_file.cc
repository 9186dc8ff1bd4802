#include "client/examples/idx_file.h"

#include <zlib.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace chx {
namespace {

constexpr unsigned char kUnsignedByte = 8;
constexpr int64_t kMaxBytes = int64_t{1} << 31;

struct Closer {
  void operator()(gzFile file) const { gzclose(file); }
};

}  // namespace

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path) {
  const std::unique_ptr<gzFile_s, Closer> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  const absl::Status invalid = absl::InvalidArgumentError(
      absl::StrCat(path, " is not an IDX file of unsigned bytes, or is cut short"));
  unsigned char bytes[4];
  if (gzread(file.get(), bytes, 4) != 4) return invalid;
  // Two zeros, the type, the number of dimensions; then these, big-endian.
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != kUnsignedByte || bytes[3] == 0) return invalid;
  IdxFile result;
  int64_t size = 1;
  for (int left = bytes[3]; left > 0; --left) {
    if (gzread(file.get(), bytes, 4) != 4) return invalid;
    const int64_t dim = int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
    if (dim > 0 && size > kMaxBytes / dim) return invalid;
    size *= dim;
    result.dims.push_back(dim);
  }
  result.data.resize(static_cast<size_t>(size));
  if (gzread(file.get(), result.data.data(), static_cast<unsigned>(size)) != size) return invalid;
  return result;
}

}  // namespace chx
