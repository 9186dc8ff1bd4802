#include "server/tenancy/tenants_file.h"

#include <yaml-cpp/yaml.h>

#include <functional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "server/engine/memory_size.h"
#include "server/tenancy/yaml_map.h"

namespace chx::server {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 20;
constexpr size_t kMaxNameBytes = 63;  // a label of Kubernetes
constexpr double kMaxWeight = 1000;
constexpr int kMaxSessions = 1 << 20;

// How an error shows a value. A token's hash is not one of those.
absl::Status Expected(const YAML::Node& node, absl::string_view what) {
  return YamlError(node, absl::StrCat("[tenants] expects ", what, ", got '",
                                      node.IsScalar() ? node.Scalar() : "a list or mapping", "'"));
}

// Readers of values, each into a variable.
YamlReader Name(std::string* out) {
  return [out](const YAML::Node& node) -> absl::Status {
    const std::string name = node.IsScalar() ? node.Scalar() : "";
    bool valid = !name.empty() && name.size() <= kMaxNameBytes && name[0] != '-';
    for (const char c : name) {
      valid = valid && (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-');
    }
    if (!valid) return Expected(node, "a name of lower-case letters, digits and '-'");
    *out = name;
    return absl::OkStatus();
  };
}

YamlReader Weight(double* out) {
  return [out](const YAML::Node& node) -> absl::Status {
    double weight = 0;
    if (!node.IsScalar() || !absl::SimpleAtod(node.Scalar(), &weight) ||
        !(weight >= 1 / kMaxWeight && weight <= kMaxWeight)) {
      return Expected(node, "a weight between 0.001 and 1000");
    }
    *out = weight;
    return absl::OkStatus();
  };
}

YamlReader PriorityClass(Priority* out) {
  return [out](const YAML::Node& node) -> absl::Status {
    const std::string name = node.IsScalar() ? node.Scalar() : "";
    if (name == "low") {
      *out = Priority::kLow;
    } else if (name == "normal") {
      *out = Priority::kNormal;
    } else if (name == "high") {
      *out = Priority::kHigh;
    } else {
      return Expected(node, "low, normal or high");
    }
    return absl::OkStatus();
  };
}

YamlReader Count(int* out) {
  return [out](const YAML::Node& node) -> absl::Status {
    int count = 0;
    if (!node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), &count) || count < 1 ||
        count > kMaxSessions) {
      return Expected(node, absl::StrCat("a number from 1 to ", kMaxSessions));
    }
    *out = count;
    return absl::OkStatus();
  };
}

YamlReader Memory(int64_t* out, int64_t host_bytes) {
  return [out, host_bytes](const YAML::Node& node) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(const std::string text, YamlText(node));
    const absl::StatusOr<int64_t> bytes = ParseMemorySize(text, host_bytes);
    if (!bytes.ok()) {
      return YamlError(node, absl::StrCat("[tenants] ", bytes.status().message()));
    }
    *out = *bytes;
    return absl::OkStatus();
  };
}

YamlReader Switch(bool* out) {
  return [out](const YAML::Node& node) -> absl::Status {
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    if (text != "true" && text != "false") return Expected(node, "true or false");
    *out = text == "true";
    return absl::OkStatus();
  };
}

// What a tenant may use of the operators: all but those that it names.
YamlReader Operators(std::set<std::string>* denied) {
  const YamlReader deny = [denied](const YAML::Node& node) {
    return ReadYamlList(node, "operators", [denied](const YAML::Node& item) -> absl::Status {
      CHX_ASSIGN_OR_RETURN(const std::string name, YamlText(item));
      const OpDef* const op = OpRegistry::Global().Find(name);
      if (op == nullptr || op->name != name) return Expected(item, "the name of an operator");
      denied->insert(name);
      return absl::OkStatus();
    });
  };
  return [deny](const YAML::Node& node) {
    return ReadYamlMap(node, "operators", {{"deny", deny}});
  };
}

YamlReader DeviceMemory(std::map<std::string, int64_t>* out) {
  return [out](const YAML::Node& node) -> absl::Status {
    if (!node.IsMap()) return Expected(node, "a mapping of devices to memory ('cuda:0: 8GiB')");
    for (const auto& item : node) {
      CHX_ASSIGN_OR_RETURN(const std::string device, YamlText(item.first));
      int64_t bytes = 0;
      // A share would be of the host's memory, which is another.
      CHX_RETURN_IF_ERROR(Memory(&bytes, 0)(item.second));
      if (!out->emplace(device, bytes).second) {
        return YamlError(item.first, absl::StrCat("[tenants] expects '", device, "' once"));
      }
    }
    return absl::OkStatus();
  };
}

YamlReader Seconds(std::chrono::seconds* out) {
  return [out](const YAML::Node& node) -> absl::Status {
    absl::Duration duration;
    if (!node.IsScalar() || !absl::ParseDuration(node.Scalar(), &duration) ||
        duration < absl::Seconds(1) || duration > absl::Hours(24 * 366)) {
      return Expected(node, "a duration from 1s to a year, such as 30m or 12h");
    }
    *out = absl::ToChronoSeconds(duration);
    return absl::OkStatus();
  };
}

YamlReader Texts(std::set<std::string>* out, absl::string_view what) {
  return [out, what = std::string(what)](const YAML::Node& node) {
    return ReadYamlList(node, what, [&](const YAML::Node& item) -> absl::Status {
      CHX_ASSIGN_OR_RETURN(const std::string text, YamlText(item));
      if (text.empty()) return Expected(item, what);
      out->insert(text);
      return absl::OkStatus();
    });
  };
}

YamlReader Uids(std::set<uid_t>* out) {
  return [out](const YAML::Node& node) {
    return ReadYamlList(node, "user ids", [out](const YAML::Node& item) -> absl::Status {
      uint32_t uid = 0;
      if (!item.IsScalar() || !absl::SimpleAtoi(item.Scalar(), &uid)) {
        return Expected(item, "a user's id");
      }
      out->insert(uid);
      return absl::OkStatus();
    });
  };
}

YamlReader Features(std::set<Feature>* out) {
  static const auto* const names =
      new std::map<std::string, Feature>{{"shared_names", Feature::kSharedNames},
                                         {"snapshots", Feature::kSnapshots},
                                         {"data_files", Feature::kDataFiles}};
  return [out](const YAML::Node& node) {
    out->clear();
    return ReadYamlList(node, "features", [out](const YAML::Node& item) -> absl::Status {
      const std::string name = item.IsScalar() ? item.Scalar() : "";
      // Its absence would refuse nothing: they come as operators, which do not tell.
      if (name == "user_kernels") {
        return Expected(
            item,
            "shared_names, snapshots or data_files (users' kernels are operators to this daemon: "
            "operators: {deny: [...]} refuses those)");
      }
      const auto found = names->find(name);
      if (found == names->end()) return Expected(item, "shared_names, snapshots or data_files");
      out->insert(found->second);
      return absl::OkStatus();
    });
  };
}

absl::Status ReadToken(const YAML::Node& node, std::vector<TokenHash>* out) {
  TokenHash token;
  const std::map<std::string, YamlReader> readers = {
      {"sha256",
       [&](const YAML::Node& value) -> absl::Status {
         const std::string hex = value.IsScalar() ? value.Scalar() : "";
         bool valid = hex.size() == 64;
         for (const char c : hex) valid = valid && absl::ascii_isxdigit(c);
         // What stands there may be the token itself: it is not repeated.
         if (!valid) {
           return YamlError(value,
                            "[tenants] expects the 64 hexadecimal digits of a token's SHA-256 "
                            "(printf %s TOKEN | sha256sum)");
         }
         token.sha256 = absl::HexStringToBytes(hex);
         return absl::OkStatus();
       }},
      {"expires", [&](const YAML::Node& value) -> absl::Status {
         std::string error;
         if (!value.IsScalar() ||
             !absl::ParseTime(absl::RFC3339_full, value.Scalar(), &token.expires, &error)) {
           return Expected(value, "a time such as 2027-01-31T00:00:00Z");
         }
         return absl::OkStatus();
       }}};
  CHX_RETURN_IF_ERROR(ReadYamlMap(node, "a token", readers));
  if (token.sha256.empty()) return YamlError(node, "[tenants] expects sha256 in each token");
  out->push_back(std::move(token));
  return absl::OkStatus();
}

absl::StatusOr<Tenant> ReadTenant(const YAML::Node& node, int64_t host_bytes) {
  Tenant tenant;
  const std::map<std::string, YamlReader> readers = {
      {"name", Name(&tenant.name)},
      {"tokens",
       [&](const YAML::Node& value) {
         return ReadYamlList(value, "tokens", [&](const YAML::Node& item) {
           return ReadToken(item, &tenant.tokens);
         });
       }},
      {"uids", Uids(&tenant.uids)},
      {"tls_subjects", Texts(&tenant.tls_subjects, "subjects of certificates")},
      {"service_accounts", Texts(&tenant.service_accounts, "service accounts")},
      {"weight", Weight(&tenant.weight)},
      {"priority", PriorityClass(&tenant.priority)},
      {"max_sessions", Count(&tenant.max_sessions)},
      {"memory", Memory(&tenant.memory_bytes, host_bytes)},
      {"guaranteed_memory", Memory(&tenant.guaranteed_bytes, host_bytes)},
      {"session_memory", Memory(&tenant.session_memory_bytes, host_bytes)},
      {"device_memory", DeviceMemory(&tenant.device_memory)},
      {"features", Features(&tenant.features)},
      {"operators", Operators(&tenant.denied_operators)},
      {"admin", Switch(&tenant.admin)},
      {"idle_limit", Seconds(&tenant.idle_limit)},
      {"session_limit", Seconds(&tenant.session_limit)},
      {"named_session_lease", Seconds(&tenant.named_session_lease)},
  };
  CHX_RETURN_IF_ERROR(ReadYamlMap(node, "a tenant", readers));
  if (tenant.name.empty()) return YamlError(node, "[tenants] expects a name for each tenant");
  for (const int64_t most : {tenant.memory_bytes, tenant.session_memory_bytes}) {
    if (most == 0 || tenant.guaranteed_bytes <= most) continue;
    return YamlError(
        node, absl::StrCat("[tenants] expects a guaranteed_memory of at most memory "
                           "and session_memory in '",
                           tenant.name, "', got ", FormatMemorySize(tenant.guaranteed_bytes)));
  }
  return tenant;
}

// Whoever shows an identity is one tenant, and no other.
class Identities {
 public:
  absl::Status Add(const YAML::Node& node, const Tenant& tenant) {
    CHX_RETURN_IF_ERROR(Once(node, "the name", tenant.name));
    for (const TokenHash& token : tenant.tokens) {
      CHX_RETURN_IF_ERROR(Once(node, "the token", absl::BytesToHexString(token.sha256)));
    }
    for (const uid_t uid : tenant.uids) {
      CHX_RETURN_IF_ERROR(Once(node, "uid", absl::StrCat(uid)));
    }
    for (const std::string& subject : tenant.tls_subjects) {
      CHX_RETURN_IF_ERROR(Once(node, "the subject", subject));
    }
    for (const std::string& account : tenant.service_accounts) {
      CHX_RETURN_IF_ERROR(Once(node, "the service account", account));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Once(const YAML::Node& node, absl::string_view kind, const std::string& value) {
    if (seen_.insert(absl::StrCat(kind, " ", value)).second) return absl::OkStatus();
    return YamlError(node,
                     absl::StrCat("[tenants] expects ", kind, " ", value, " in one tenant only"));
  }

  std::set<std::string> seen_;
};

absl::StatusOr<std::vector<Tenant>> ReadTenants(const YAML::Node& file, int64_t host_bytes) {
  std::vector<Tenant> tenants;
  Identities identities;
  const YamlReader add = [&](const YAML::Node& item) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(Tenant tenant, ReadTenant(item, host_bytes));
    CHX_RETURN_IF_ERROR(identities.Add(item, tenant));
    tenants.push_back(std::move(tenant));
    return absl::OkStatus();
  };
  CHX_RETURN_IF_ERROR(ReadYamlMap(
      file, "a tenants file",
      {{"tenants", [&](const YAML::Node& node) { return ReadYamlList(node, "tenants", add); }}}));
  if (tenants.empty()) return absl::InvalidArgumentError("[tenants] expects at least one tenant");
  return tenants;
}

}  // namespace

absl::StatusOr<std::vector<Tenant>> ParseTenants(absl::string_view text, int64_t host_bytes) {
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("[tenants] expects at most ", kMaxFileBytes, " bytes, got ", text.size()));
  }
  try {  // which is how the library reports errors
    return ReadTenants(YAML::Load(std::string(text)), host_bytes);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("[tenants] expects YAML: ", error.what()));
  }
}

}  // namespace chx::server
