// The header of a .safetensors file: eight bytes, little-endian, with the length of a JSON object;
// the object: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}, in
// which "__metadata__" is an object of strings. Then the elements, little-endian, in C order. The
// tensors cover all bytes after the header.
#ifndef CHX_FORMATS_SAFETENSORS_HEADER_H_
#define CHX_FORMATS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"

namespace chx {

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = Dtype::kFloat32;
  Shape shape;
  uint64_t begin = 0;  // among the elements
  uint64_t end = 0;
};
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

constexpr uint64_t kMaxSafetensorsHeader = 100 << 20;  // the reference's limit

// `data_bytes`: how many bytes come after the header.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes);
// The eight bytes and the object, padded so that what follows is aligned. The entries' offsets are
// set, in their order.
absl::StatusOr<std::string> SafetensorsPrefix(SafetensorsHeader* header);

}  // namespace chx

#endif  // CHX_FORMATS_SAFETENSORS_HEADER_H_
