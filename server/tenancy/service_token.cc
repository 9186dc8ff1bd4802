#include "server/tenancy/service_token.h"

#include <cjose/cjose.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace chx::server {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxKeys = 64;
constexpr int64_t kMinRsaBits = 2048;
constexpr char kSubject[] = "system:serviceaccount:";

struct Free {
  void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
  void operator()(cjose_jws_t* token) const { cjose_jws_release(token); }
};
using KeyPtr = std::unique_ptr<cjose_jwk_t, Free>;
using TokenPtr = std::unique_ptr<cjose_jws_t, Free>;

// A member that is text; empty if there is none.
std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// cjose asserts it of what it decodes: anything else would end the process.
bool IsBase64Url(absl::string_view text) {
  return !text.empty() && text.size() % 4 != 1 && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
}

// Of a public key what cjose is to see; empty: it is none.
std::string PublicKey(const Json& json) {
  Json key = {{"kty", TextOf(json, "kty")}};
  const bool rsa = key["kty"] == "RSA";
  if (!rsa && key["kty"] != "EC") return "";
  if (!rsa) key["crv"] = TextOf(json, "crv");
  for (const char* name : {rsa ? "n" : "x", rsa ? "e" : "y"}) {
    const std::string value = TextOf(json, name);
    if (!IsBase64Url(value)) return "";
    key[name] = value;
  }
  return key.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status Refused(absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat("the service account's token ", why));
}

// Which algorithm a key is for; empty: it is of no use.
std::string AlgorithmOf(const cjose_jwk_t* key, const Json& json) {
  cjose_err error = {};
  const std::string use = TextOf(json, "use");
  if (!use.empty() && use != "sig") return "";
  std::string algorithm;
  switch (cjose_jwk_get_kty(key, &error)) {
    case CJOSE_JWK_KTY_RSA:
      if (static_cast<int64_t>(cjose_jwk_get_keysize(key, &error)) >= kMinRsaBits) {
        algorithm = CJOSE_HDR_ALG_RS256;
      }
      break;
    case CJOSE_JWK_KTY_EC:
      if (cjose_jwk_EC_get_curve(key, &error) == CJOSE_JWK_EC_P_256) {
        algorithm = CJOSE_HDR_ALG_ES256;
      }
      break;
    default:  // a shared secret is none that a daemon may know
      break;
  }
  const std::string named = TextOf(json, "alg");
  return named.empty() || named == algorithm ? algorithm : "";
}

bool IsFor(const Json& claims, absl::string_view audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (found->is_string()) return found->get<std::string>() == audience;
  return found->is_array() && std::any_of(found->begin(), found->end(), [&](const Json& each) {
           return each.is_string() && each.get<std::string>() == audience;
         });
}

// A claim that is a time; false: it is there, and none.
bool ReadTime(const Json& claims, const char* name, absl::Time* time) {
  const auto found = claims.find(name);
  if (found == claims.end()) return true;
  if (!found->is_number()) return false;
  const double seconds = found->get<double>();
  if (!(seconds >= 0 && seconds < 1e12)) return false;
  *time = absl::FromUnixSeconds(static_cast<int64_t>(seconds));
  return true;
}

absl::Status CheckTimes(const Json& claims, absl::Time now) {
  absl::Time ends = absl::InfinitePast();
  absl::Time begins = absl::InfinitePast();
  if (!ReadTime(claims, "exp", &ends) || !ReadTime(claims, "nbf", &begins)) {
    return Refused("has times that are none");
  }
  if (ends == absl::InfinitePast()) return Refused("does not say when it ends");
  if (now >= ends + ServiceKeys::kLeeway) {
    return Refused(absl::StrCat("has expired on ",
                                absl::FormatTime(absl::RFC3339_sec, ends, absl::UTCTimeZone()),
                                ": read it again from its file, which Kubernetes renews"));
  }
  if (now + ServiceKeys::kLeeway < begins) return Refused("is not valid yet");
  return absl::OkStatus();
}

}  // namespace

struct ServiceKeys::Key {
  KeyPtr key;
  std::string id;
  std::string algorithm;
};

ServiceKeys::ServiceKeys() = default;
ServiceKeys::~ServiceKeys() = default;

absl::StatusOr<std::shared_ptr<const ServiceKeys>> ServiceKeys::Parse(const std::string& text) {
  const Json set = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto keys = set.is_object() ? set.find("keys") : set.end();
  if (!set.is_object() || keys == set.end() || !keys->is_array() || keys->size() > kMaxKeys) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expects a JSON web key set, {\"keys\": [...]}, of at most ", kMaxKeys, " keys"));
  }
  std::shared_ptr<ServiceKeys> result(new ServiceKeys);
  result->issuer_ = TextOf(set, "issuer");
  for (const Json& json : *keys) {
    if (!json.is_object()) continue;
    const std::string one = PublicKey(json);
    if (one.empty()) continue;
    cjose_err error = {};
    KeyPtr key(cjose_jwk_import(one.data(), one.size(), &error));
    if (key == nullptr) continue;
    std::string algorithm = AlgorithmOf(key.get(), json);
    if (algorithm.empty()) continue;
    result->keys_.push_back({std::move(key), TextOf(json, "kid"), std::move(algorithm)});
  }
  if (result->keys_.empty()) {
    return absl::InvalidArgumentError(
        "expects at least one public key for RS256 (RSA of 2048 bits or more) or ES256 (P-256)");
  }
  return std::shared_ptr<const ServiceKeys>(std::move(result));
}

bool ServiceKeys::LooksLikeOne(absl::string_view shown) {
  // The base64 of '{"'.
  return absl::StartsWith(shown, "eyJ") && std::count(shown.begin(), shown.end(), '.') == 2;
}

absl::StatusOr<std::string> ServiceKeys::Verify(const std::string& token, absl::Time now) const {
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3 || !std::all_of(parts.begin(), parts.end(), IsBase64Url)) {
    return Refused("is no signed JSON web token");
  }
  cjose_err error = {};
  const TokenPtr jws(cjose_jws_import(token.data(), token.size(), &error));
  if (jws == nullptr) return Refused("is no signed JSON web token");
  cjose_header_t* const header = cjose_jws_get_protected(jws.get());
  const auto header_text = [&](const char* name) {
    const char* const value = cjose_header_get(header, name, &error);
    return std::string(value == nullptr ? "" : value);
  };
  // Before anything is computed: no key is ever used for another algorithm than its own.
  const std::string algorithm = header_text(CJOSE_HDR_ALG);
  if (algorithm != CJOSE_HDR_ALG_RS256 && algorithm != CJOSE_HDR_ALG_ES256) {
    return Refused("is not signed by RS256 or ES256");
  }
  char* const critical = cjose_header_get_raw(header, "crit", &error);
  if (critical != nullptr) {
    std::free(critical);
    return Refused("has a critical extension, of which the daemon knows none");
  }
  const std::string id = header_text(CJOSE_HDR_KID);
  const bool verified = std::any_of(keys_.begin(), keys_.end(), [&](const Key& key) {
    return key.algorithm == algorithm && (id.empty() || key.id.empty() || key.id == id) &&
           cjose_jws_verify(jws.get(), key.key.get(), &error);
  });
  if (!verified) return Refused("is not signed with a key of --jwks-file");
  uint8_t* text = nullptr;  // the token's
  size_t size = 0;
  if (!cjose_jws_get_plaintext(jws.get(), &text, &size, &error)) return Refused("is empty");
  const Json claims = Json::parse(text, text + size, nullptr, /*allow_exceptions=*/false);
  if (!claims.is_object()) return Refused("has no claims");
  if (!IsFor(claims, kAudience)) return Refused("is not for the audience chxd");
  if (!issuer_.empty() && TextOf(claims, "iss") != issuer_) return Refused("is another issuer's");
  const absl::Status valid = CheckTimes(claims, now);
  if (!valid.ok()) return valid;
  const std::string subject = TextOf(claims, "sub");
  absl::string_view account = subject;
  if (!absl::ConsumePrefix(&account, kSubject) || account.find(':') == absl::string_view::npos) {
    return Refused("is not one of a service account");
  }
  return std::string(account);
}

}  // namespace chx::server
