// What the daemon's command line takes: listeners, sizes, plug-ins; tenants files, key sets, and
// tokens of service accounts. The first byte says which.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/memory_size.h"
#include "server/options.h"
#include "server/tenancy/service_token.h"
#include "server/tenancy/tenants_file.h"
#include "tests/fuzz/target.h"

namespace chx {
namespace {

using server::Listener;
using server::ParseListen;
using server::ParseMemorySize;
using server::ParsePlugins;
using server::ParseTenants;
using server::ServiceKeys;
using server::Tenant;

constexpr size_t kParsers = 6;
uint64_t counts[kParsers][2];  // taken, refused

bool ListenIsSane(absl::string_view text) {
  if (text.find_first_not_of(", ") == absl::string_view::npos)
    return false;  // the default's folder
  const absl::StatusOr<std::vector<Listener>> listeners = ParseListen(text);
  if (!listeners.ok()) return false;
  if (listeners->empty()) std::abort();
  for (const Listener& listener : *listeners) {
    if (listener.address.empty()) std::abort();
    if (listener.unix_socket && listener.address.size() > 100) std::abort();
  }
  return true;
}

bool BytesAreSane(absl::string_view text) {
  const absl::StatusOr<int64_t> bytes = ParseMemorySize(text, int64_t{1} << 34);
  if (bytes.ok() && *bytes <= 0) std::abort();
  return bytes.ok();
}

bool PluginsAreSane(absl::string_view text) {
  const auto plugins = ParsePlugins(text);
  if (!plugins.ok()) return false;
  for (const auto& [name, path] : *plugins) {
    if (name.empty() || name == "native" || path.empty() || path[0] != '/') std::abort();
  }
  return true;
}

bool TenantsAreSane(absl::string_view text) {
  const absl::StatusOr<std::vector<Tenant>> tenants = ParseTenants(text, int64_t{1} << 34);
  if (!tenants.ok()) return false;
  if (tenants->empty()) std::abort();
  for (const Tenant& tenant : *tenants) {
    if (tenant.name.empty() || tenant.memory_bytes < 0 || !(tenant.weight > 0)) std::abort();
  }
  return true;
}

bool KeysAreSane(absl::string_view text) { return ServiceKeys::Parse(std::string(text)).ok(); }

// Whose private key is gone. It has signed one token.
constexpr char kModulus[] =
    "od9k686SZkFJfT8Ttx9J1mwAJZwJ4GeAIEYz2jBEp2dyjbmHXHF7nk8oDFwYsprnOvE_MYRmKmjmoQND"
    "h2VetPLDiFuXqfl9eQ3QUfDkn4XY-TPbEzjd41ItfmSYyKBEht5F4vuwY9T7w9gyxFLRPZky1dMDFeiE"
    "N7B4e0uNDCyADNA_v-HXw68r2XF2zU2TKvZ-JWSqcrAul_Y5YvDcj_KqcWuGIjEZ_ajJte7YZfl5lNAM"
    "IRrrL6_WAI9vWxScrsj7BW-U6FgV7f65OMs4ERtcRJlqoPP-I178Toc1RT9bsYYdyOhNGbk1zbnjCmWO"
    "cSlZb6184wYZLXopSg4TcQ";
constexpr char kToken[] =
    "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJhdWQiOlsiY2h4ZCJdLCJleHAiOjQwMDAwMDAwMDAsI"
    "nN1YiI6InN5c3RlbTpzZXJ2aWNlYWNjb3VudDphOmIifQ.GDIauGEA2NQXyAlWdL66VtWZb0DhY2W-ZK"
    "djeDiRsg-bSbAUTasvf-jn6yExDXHiYoi0R9B7jZYqobbRoLWPcO9eFmUB_0ktXYe4wHsDdspCQIxnEs"
    "HZ_avpjAHeR33ZBLowiGHd8ZzMldGUFl0P47gEURye4ujfrlFY0eaGKPrrV2jjr-4ttKK2UrgNRAyOMH"
    "4Yyn5fVADbqFlXTB98ttPVcoFNBobCcXRxwZos0d4uC3lW2oGPKypxZJX90w9fu7XqaN4cC0FvIVaLKw"
    "6PGGn9mc9X0GDc1cLFB-bZ_RPdCZU7CsRIjmOIPUUN4ezSj6HfGV91X6vDgh2Zt1dMvA";

std::string KeySet() {
  return absl::StrCat(R"({"keys": [{"kty": "RSA", "kid": "1", "e": "AQAB", "n": ")", kModulus,
                      R"("}]})");
}

bool TokenIsSane(absl::string_view text) {
  static const auto* const keys =
      new std::shared_ptr<const ServiceKeys>(*ServiceKeys::Parse(KeySet()));
  const std::string token(text);
  const auto account = (*keys)->Verify(token, absl::FromUnixSeconds(1'800'000'000));
  // Only what is signed is ever good: the last characters may have bits that say nothing.
  const absl::string_view is_signed = absl::string_view(kToken).substr(0, sizeof(kToken) - 8);
  if (account.ok() && (*account != "a:b" || token.substr(0, is_signed.size()) != is_signed)) {
    std::abort();
  }
  return account.ok();
}

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  bool (*const parsers[chx::kParsers])(absl::string_view) = {
      chx::ListenIsSane,   chx::BytesAreSane, chx::PluginsAreSane,
      chx::TenantsAreSane, chx::KeysAreSane,  chx::TokenIsSane};
  const size_t which = data[0] % chx::kParsers;
  ++chx::counts[which][parsers[which](text) ? 0 : 1];
  return 0;
}

namespace chx {

std::string FuzzCounts() {
  std::string text;
  const char* const names[] = {"--listen", "sizes", "--plugins", "tenants", "key sets", "tokens"};
  for (size_t i = 0; i < kParsers; ++i) {
    absl::StrAppend(&text, "  ", names[i], " taken ", counts[i][0], ", refused ", counts[i][1],
                    "\n");
  }
  return text;
}

std::vector<std::string> FuzzSeeds() {
  using std::string_literals::operator""s;
  return {"\0unix:/run/chxd/chxd.sock,127.0.0.1:8765,[::1]:0"s,
          "\0localhost:0"s,
          "\0unix:x"s,
          "\1512MiB"s,
          "\00118446744073709551616TiB"s,
          "\0010x10"s,
          "\0011.5GB"s,
          "\00180%"s,
          "\2example=/usr/lib/libexample.so,other=/a"s,
          "\3tenants:\n- name: a\n  uids: [1]\n  memory: 1GiB\n  operators: {deny: [svd]}\n"s,
          "\3tenants: [{name: a, tokens: [{sha256: '0'}]}, {name: b, weight: 3}]"s,
          "\4"s + KeySet(),
          "\4{\"keys\": [{\"kty\": \"EC\", \"crv\": \"P-256\", \"x\": \"AA\", \"y\": \"AA\"}]}"s,
          "\5"s + kToken};
}

}  // namespace chx
