// Reads a mapping of a YAML file, with errors that name the line.
#ifndef CHX_SERVER_TENANCY_YAML_MAP_H_
#define CHX_SERVER_TENANCY_YAML_MAP_H_

#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chx::server {

// "line 7: [tenants] expects ..., got ...".
absl::Status YamlError(const YAML::Node& node, absl::string_view what);

// The text of a scalar.
absl::StatusOr<std::string> YamlText(const YAML::Node& node);

// Reads a value; an error becomes one of its line.
using YamlReader = std::function<absl::Status(const YAML::Node&)>;

// Calls the reader of each key that is there. A key without a reader, or one that occurs twice, is
// an error. `what` is what the mapping describes: "a tenant".
absl::Status ReadYamlMap(const YAML::Node& node, absl::string_view what,
                         const std::map<std::string, YamlReader>& readers);

// Calls `reader` for each item of a list.
absl::Status ReadYamlList(const YAML::Node& node, absl::string_view what, const YamlReader& reader);

}  // namespace chx::server

#endif  // CHX_SERVER_TENANCY_YAML_MAP_H_
