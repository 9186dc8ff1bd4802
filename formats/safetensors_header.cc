#include "formats/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx {
namespace {

using Json = nlohmann::json;

constexpr char kMetadata[] = "__metadata__";
constexpr int kMaxDepth = 3;  // {"name": {"shape": [...]}}
constexpr size_t kMostDims = 64;
constexpr size_t kHeaderAlignment = 8;

struct NamedDtype {
  absl::string_view name;
  Dtype dtype;
};
constexpr NamedDtype kNames[] = {{"BOOL", Dtype::kBool},   {"I8", Dtype::kInt8},
                                 {"I16", Dtype::kInt16},   {"I32", Dtype::kInt32},
                                 {"I64", Dtype::kInt64},   {"U8", Dtype::kUint8},
                                 {"F16", Dtype::kFloat16}, {"F32", Dtype::kFloat32},
                                 {"F64", Dtype::kFloat64}, {"BF16", Dtype::kBfloat16}};

// Discarded unless it is valid, not too deep, and has no key twice in one object.
Json ParseStrictly(absl::string_view text) {
  std::vector<std::set<std::string>> keys;
  bool valid = true;
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMaxDepth) valid = false;
    if (!valid) return false;  // keeps nothing more
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      valid = keys.back().insert(value.get_ref<const std::string&>()).second;
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  return valid ? json : Json(Json::value_t::discarded);
}

// A member of an object; null if there is none.
const Json* Member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// An array of integers that are not negative.
bool ToInts(const Json* json, size_t most, std::vector<uint64_t>* values) {
  if (json == nullptr || !json->is_array() || json->size() > most) return false;
  for (const Json& value : *json) {
    if (!value.is_number_unsigned()) return false;
    values->push_back(value.get<uint64_t>());
  }
  return true;
}

absl::Status ParseDtype(const Json* json, Dtype* dtype) {
  if (json == nullptr || !json->is_string()) return ValueError("expects a dtype");
  const std::string& name = json->get_ref<const std::string&>();
  for (const NamedDtype& code : kNames) {
    if (code.name != name) continue;
    *dtype = code.dtype;
    return absl::OkStatus();
  }
  return DtypeError("expects a dtype of chx, got ", name.substr(0, 40));
}

absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& name, const Json& json) {
  SafetensorsEntry entry;
  entry.name = name;
  if (!json.is_object()) return ValueError("expects an object with dtype, shape and data_offsets");
  CHX_RETURN_IF_ERROR(ParseDtype(Member(json, "dtype"), &entry.dtype));
  std::vector<uint64_t> dims, offsets;
  if (!ToInts(Member(json, "shape"), kMostDims, &dims)) {
    return ValueError("expects a shape of at most ", kMostDims, " dimensions");
  }
  std::vector<int64_t> shape;
  shape.reserve(dims.size());
  for (uint64_t dim : dims)
    shape.push_back(static_cast<int64_t>(std::min<uint64_t>(dim, INT64_MAX)));
  CHX_RETURN_IF_ERROR(CheckShape("safetensors", shape, entry.dtype));
  entry.shape = Shape(shape);
  if (!ToInts(Member(json, "data_offsets"), 2, &offsets) || offsets.size() != 2 ||
      offsets[0] > offsets[1]) {
    return ValueError("expects data_offsets of a begin and an end");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const auto want = static_cast<uint64_t>(NumElements(entry.shape) * ItemSize(entry.dtype));
  if (entry.end - entry.begin == want) return entry;
  return ValueError("expects ", want, " bytes for shape ", entry.shape.ToString(), ", got ",
                    entry.end - entry.begin);
}

absl::Status ParseMetadata(const Json& json, std::map<std::string, std::string>* metadata) {
  if (!json.is_object()) return ValueError("expects an object of strings");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return ValueError("expects an object of strings");
    (*metadata)[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status Named(const std::string& name, const absl::Status& status) {
  return status.ok() ? status
                     : MakeError(KindOf(status), absl::StrCat("'", name, "': ", status.message()));
}

// Without holes: what nobody reads could hide anything.
absl::Status CheckCovered(const std::vector<SafetensorsEntry>& entries, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != end) {
      return Named(entry.name,
                   ValueError("expects data_offsets that begin at ", end, ", got ", entry.begin));
    }
    end = entry.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return ValueError("expects ", end, " bytes of elements, as the header says, got ", data_bytes);
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         uint64_t data_bytes) {
  const Json json = ParseStrictly(text);
  if (!json.is_object()) {
    return ValueError("expects a header that is a JSON object of tensors, each named once");
  }
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      CHX_RETURN_IF_ERROR(Named(name, ParseMetadata(value, &header.metadata)));
      continue;
    }
    absl::StatusOr<SafetensorsEntry> entry = ParseEntry(name, value);
    CHX_RETURN_IF_ERROR(Named(name, entry.status()));
    header.entries.push_back(*std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.begin, a.end) < std::make_pair(b.begin, b.end);
  });
  CHX_RETURN_IF_ERROR(CheckCovered(header.entries, data_bytes));
  return header;
}

absl::StatusOr<std::string> SafetensorsPrefix(SafetensorsHeader* header) {
  Json json = Json::object();
  if (!header->metadata.empty()) json[kMetadata] = header->metadata;
  uint64_t end = 0;
  for (SafetensorsEntry& entry : header->entries) {
    entry.begin = end;
    end += static_cast<uint64_t>(NumElements(entry.shape) * ItemSize(entry.dtype));
    entry.end = end;
    const auto* const code =
        std::find_if(std::begin(kNames), std::end(kNames),
                     [&](const NamedDtype& c) { return c.dtype == entry.dtype; });
    if (entry.name == kMetadata) return ValueError("expects no array named ", kMetadata);
    json[entry.name] = {{"dtype", std::string(code->name)},
                        {"shape", std::vector<int64_t>(entry.shape.begin(), entry.shape.end())},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::ignore);
  // What is no UTF-8 was left out, and names have become others.
  if (ParseStrictly(text) != json) return ValueError("expects names and metadata in UTF-8");
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

}  // namespace chx
