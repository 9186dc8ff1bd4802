// The encoding: 64-bit words; a text has a word of length first.
#include "proto/saved_arrays.h"

#include <cstring>

#include "ops/error.h"

namespace chx {
namespace {

constexpr size_t kLongBytes = sizeof(uint64_t);

void Append(uint64_t word, std::string* data) {
  data->append(reinterpret_cast<const char*>(&word), kLongBytes);
}

void AppendText(absl::string_view text, std::string* data) {
  Append(text.size(), data);
  data->append(text.data(), text.size());
}

// False: it is not there.
bool Take(absl::string_view* data, uint64_t* word) {
  if (data->size() < kLongBytes) return false;
  std::memcpy(word, data->data(), kLongBytes);
  data->remove_prefix(kLongBytes);
  return true;
}

bool TakeText(absl::string_view* data, std::string* text) {
  uint64_t size = 0;
  if (!Take(data, &size) || size > data->size()) return false;
  *text = std::string(data->substr(0, size));
  data->remove_prefix(size);
  return true;
}

bool TakeDims(absl::string_view* data, uint64_t count, Dims* dims) {
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t value = 0;
    if (!Take(data, &value)) return false;
    dims->push_back(static_cast<int64_t>(value));
  }
  return true;
}

// {flags | dtype << 8 | ndim << 16 | device << 32, offset}, shape, strides
bool TakeArray(absl::string_view* data, SavedTree::Array* array) {
  uint64_t head = 0;
  uint64_t offset = 0;
  if (!Take(data, &head) || !Take(data, &offset)) return false;
  const uint64_t ndim = head >> 16 & 0xff;
  const uint64_t dtype = head >> 8 & 0xff;
  if ((head & 0xff) > 3 || dtype >= kNumDtypes || ndim > kMaxNdim || head >> 48 != 0) return false;
  array->requires_grad = (head & 1) != 0;
  array->has_grad = (head & 2) != 0;
  array->spec.dtype = static_cast<Dtype>(dtype);
  array->spec.device = static_cast<DeviceId>(head >> 32);
  array->spec.offset = static_cast<int64_t>(offset);
  return TakeDims(data, ndim, &array->spec.shape) && TakeDims(data, ndim, &array->spec.strides) &&
         CheckShape("load", array->spec.shape.span(), array->spec.dtype).ok();
}

absl::Status Malformed(absl::string_view what) {
  return ValueError("[load] expects ", what, ", got an answer that cannot be read");
}

}  // namespace

std::string EncodeSavedTree(const SavedTree& saved) {
  std::string data;
  Append(saved.version, &data);
  AppendText(saved.tree, &data);
  for (const SavedTree::Array& array : saved.arrays) {
    const ArraySpec& spec = array.spec;
    const uint64_t flags = (array.requires_grad ? 1 : 0) | (array.has_grad ? 2 : 0);
    Append(flags | static_cast<uint64_t>(spec.dtype) << 8 |
               static_cast<uint64_t>(spec.ndim()) << 16 | static_cast<uint64_t>(spec.device) << 32,
           &data);
    Append(static_cast<uint64_t>(spec.offset), &data);
    for (int64_t dim : spec.shape) Append(static_cast<uint64_t>(dim), &data);
    for (int64_t stride : spec.strides) Append(static_cast<uint64_t>(stride), &data);
  }
  return data;
}

absl::StatusOr<SavedTree> DecodeSavedTree(absl::string_view data) {
  SavedTree saved;
  if (!Take(&data, &saved.version) || !TakeText(&data, &saved.tree)) return Malformed("a tree");
  while (!data.empty()) {
    saved.arrays.emplace_back();
    if (!TakeArray(&data, &saved.arrays.back())) return Malformed("a tree's arrays");
  }
  return saved;
}

std::string EncodeNames(const std::vector<std::string>& names) {
  std::string data;
  for (const std::string& name : names) AppendText(name, &data);
  return data;
}

absl::StatusOr<std::vector<std::string>> DecodeNames(absl::string_view data) {
  std::vector<std::string> names;
  while (!data.empty()) {
    names.emplace_back();
    if (!TakeText(&data, &names.back())) return Malformed("names");
  }
  return names;
}

std::string EncodeCount(uint64_t count) {
  std::string data;
  Append(count, &data);
  return data;
}

absl::StatusOr<uint64_t> DecodeCount(absl::string_view data) {
  uint64_t count = 0;
  if (!Take(&data, &count) || !data.empty()) return Malformed("a count");
  return count;
}

}  // namespace chx
