// What administrators see, as JSON: the names of the structs' fields. Bytes and seconds are
// numbers.
#ifndef CHX_CLIENT_ADMIN_JSON_H_
#define CHX_CLIENT_ADMIN_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/admin/admin.h"

namespace chx {

using Json = nlohmann::ordered_json;

Json ToJson(const DaemonStatus& daemon);
Json ToJson(const DeviceStatus& device);
Json ToJson(const SessionStatus& session);
Json ToJson(const TenantStatus& tenant);
// A metric that is not finite is null.
Json ToJson(const RunStatus& run);

template <typename Status>
Json ToJson(const std::vector<Status>& list) {
  Json json = Json::array();
  for (const Status& each : list) json.push_back(ToJson(each));
  return json;
}

// One line of ASCII; what is not UTF-8 is replaced.
std::string Dump(const Json& json);

}  // namespace chx

#endif  // CHX_CLIENT_ADMIN_JSON_H_
