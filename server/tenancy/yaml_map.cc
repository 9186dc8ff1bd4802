#include "server/tenancy/yaml_map.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/error.h"

namespace chx::server {

absl::Status YamlError(const YAML::Node& node, absl::string_view what) {
  const YAML::Mark mark = node.Mark();
  if (mark.is_null()) return absl::InvalidArgumentError(what);
  return absl::InvalidArgumentError(absl::StrCat("line ", mark.line + 1, ": ", what));
}

absl::StatusOr<std::string> YamlText(const YAML::Node& node) {
  if (!node.IsScalar())
    return YamlError(node, "[tenants] expects one value, got a list or mapping");
  return node.Scalar();
}

absl::Status ReadYamlMap(const YAML::Node& node, absl::string_view what,
                         const std::map<std::string, YamlReader>& readers) {
  std::vector<std::string> known;
  known.reserve(readers.size());
  for (const auto& reader : readers) known.push_back(reader.first);
  if (!node.IsMap()) {
    return YamlError(node, absl::StrCat("[tenants] expects ", what, " with the keys ",
                                        absl::StrJoin(known, ", ")));
  }
  std::set<std::string> seen;
  for (const auto& item : node) {
    CHX_ASSIGN_OR_RETURN(const std::string key, YamlText(item.first));
    const auto reader = readers.find(key);
    if (reader == readers.end()) {
      return YamlError(item.first,
                       absl::StrCat("[tenants] expects the keys ", absl::StrJoin(known, ", "),
                                    " in ", what, ", got '", key, "'"));
    }
    if (!seen.insert(key).second) {
      return YamlError(item.first, absl::StrCat("[tenants] expects '", key, "' once in ", what));
    }
    CHX_RETURN_IF_ERROR(reader->second(item.second));
  }
  return absl::OkStatus();
}

absl::Status ReadYamlList(const YAML::Node& node, absl::string_view what,
                          const YamlReader& reader) {
  if (!node.IsSequence())
    return YamlError(node, absl::StrCat("[tenants] expects a list of ", what));
  for (const YAML::Node& item : node) CHX_RETURN_IF_ERROR(reader(item));
  return absl::OkStatus();
}

}  // namespace chx::server
