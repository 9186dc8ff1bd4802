#include "server/tenancy/service_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace chx::server {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

std::string Bytes(const unsigned char* data, size_t size) {
  return std::string(reinterpret_cast<const char*>(data), size);
}

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Pair = std::unique_ptr<EVP_PKEY, FreeKey>;

std::string Number(const EVP_PKEY* key, const char* name, int size = 0) {
  BIGNUM* number = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key, name, &number), 1);
  std::string bytes(static_cast<size_t>(std::max(size, BN_num_bytes(number))), '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(&bytes[0]), static_cast<int>(bytes.size()));
  BN_free(number);
  return absl::WebSafeBase64Escape(bytes);
}

std::string Signed(EVP_PKEY* key, const std::string& text) {
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  std::string signature(1024, '\0');
  size_t size = signature.size();
  EXPECT_EQ(EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key), 1);
  EXPECT_EQ(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(&signature[0]), &size,
                           reinterpret_cast<const unsigned char*>(text.data()), text.size()),
            1);
  EVP_MD_CTX_free(context);
  signature.resize(size);
  return signature;
}

// Of ES256: two numbers of 32 bytes, where OpenSSL has a sequence.
std::string Plain(const std::string& der) {
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* const signature = d2i_ECDSA_SIG(nullptr, &begin, static_cast<long>(der.size()));
  unsigned char bytes[64];
  BN_bn2binpad(ECDSA_SIG_get0_r(signature), bytes, 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature), bytes + 32, 32);
  ECDSA_SIG_free(signature);
  return Bytes(bytes, sizeof(bytes));
}

class ServiceTokenTest : public ::testing::Test {
 protected:
  ServiceTokenTest() : rsa_(EVP_RSA_gen(2048)), ec_(EVP_EC_gen("P-256")) {
    keys_ = {{"issuer", "https://cluster"},
             {"keys",
              {{{"kty", "RSA"},
                {"kid", "r"},
                {"n", Number(rsa_.get(), OSSL_PKEY_PARAM_RSA_N)},
                {"e", "AQAB"}},
               {{"kty", "EC"},
                {"kid", "e"},
                {"crv", "P-256"},
                {"x", Number(ec_.get(), OSSL_PKEY_PARAM_EC_PUB_X, 32)},
                {"y", Number(ec_.get(), OSSL_PKEY_PARAM_EC_PUB_Y, 32)}}}}};
    claims_ = {{"aud", {"another", "chxd"}},
               {"iss", "https://cluster"},
               {"exp", 1'800'000'100},
               {"nbf", 1'799'999'900},
               {"sub", "system:serviceaccount:research:trainer"}};
    header_ = {{"alg", "RS256"}, {"kid", "r"}};
  }

  std::string Text() const {
    return absl::StrCat(absl::WebSafeBase64Escape(header_.dump()), ".",
                        absl::WebSafeBase64Escape(claims_.dump()));
  }
  std::string With(const std::string& signature) const {
    return absl::StrCat(Text(), ".", absl::WebSafeBase64Escape(signature));
  }
  std::string Rs256() const { return With(Signed(rsa_.get(), Text())); }
  std::string Es256() {
    const Json header = std::exchange(header_, {{"alg", "ES256"}, {"kid", "e"}});
    std::string token = With(Plain(Signed(ec_.get(), Text())));
    header_ = header;
    return token;
  }
  absl::StatusOr<std::string> Verify(const std::string& token) const {
    return (*ServiceKeys::Parse(keys_.dump()))->Verify(token, kNow);
  }
  // Why a token is refused.
  std::string Refusal(const std::string& token) const {
    const absl::StatusOr<std::string> account = Verify(token);
    EXPECT_EQ(account.status().code(), absl::StatusCode::kUnauthenticated);
    return std::string(account.status().message());
  }

  const Pair rsa_;
  const Pair ec_;
  Json keys_, claims_, header_;
};

TEST_F(ServiceTokenTest, BothAlgorithms) {
  EXPECT_EQ(*Verify(Rs256()), "research:trainer");
  EXPECT_EQ(*Verify(Es256()), "research:trainer");
  EXPECT_TRUE(ServiceKeys::LooksLikeOne(Rs256()));
  EXPECT_FALSE(ServiceKeys::LooksLikeOne("the token of vision"));
  claims_["aud"] = "chxd";
  EXPECT_TRUE(Verify(Rs256()).ok());
  keys_.erase("issuer");
  claims_["iss"] = "https://another";
  EXPECT_TRUE(Verify(Rs256()).ok());
}

TEST_F(ServiceTokenTest, OtherAlgorithmsAreRefusedWhateverTheySign) {
  header_["alg"] = "none";
  EXPECT_THAT(Refusal(absl::StrCat(Text(), ".")), HasSubstr("token"));
  EXPECT_THAT(Refusal(With("x")), HasSubstr("token"));
  // Signed with the public key as if it were a shared secret.
  header_["alg"] = "HS256";
  const std::string secret = keys_["keys"][0]["n"];
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const std::string text = Text();
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  EXPECT_THAT(Refusal(With(Bytes(digest, size))), HasSubstr("not signed by RS256 or ES256"));
  header_["alg"] = "RS512";
  EXPECT_THAT(Refusal(With(Signed(rsa_.get(), Text()))), HasSubstr("not signed by RS256"));
  // One algorithm's key for the other.
  header_ = {{"alg", "ES256"}, {"kid", "r"}};
  EXPECT_THAT(Refusal(With(Signed(rsa_.get(), Text()))), HasSubstr("not signed with a key"));
}

TEST_F(ServiceTokenTest, ForeignAndChangedSignaturesAreRefused) {
  const Pair other(EVP_RSA_gen(2048));
  EXPECT_THAT(Refusal(With(Signed(other.get(), Text()))), HasSubstr("not signed with a key"));
  const std::string good = Signed(rsa_.get(), Text());
  claims_["sub"] = "system:serviceaccount:kube-system:admin";
  EXPECT_THAT(Refusal(With(good)), HasSubstr("not signed with a key"));
  header_["kid"] = "e";
  EXPECT_THAT(Refusal(Rs256()), HasSubstr("not signed with a key"));
  header_ = {{"alg", "RS256"}, {"crit", {"exp"}}};
  EXPECT_THAT(Refusal(Rs256()), HasSubstr("token"));
}

TEST_F(ServiceTokenTest, ClaimsAreChecked) {
  const Json good = claims_;
  const auto refusal = [&](const char* name, const Json& value) {
    claims_ = good;
    claims_[name] = value;
    if (value.is_null()) claims_.erase(name);
    return Refusal(Rs256());
  };
  EXPECT_THAT(refusal("aud", "another"), HasSubstr("audience chxd"));
  EXPECT_THAT(refusal("aud", nullptr), HasSubstr("audience chxd"));
  EXPECT_THAT(refusal("aud", Json::array()), HasSubstr("audience chxd"));
  EXPECT_THAT(refusal("iss", "https://another"), HasSubstr("another issuer's"));
  EXPECT_THAT(refusal("exp", 1'799'999'900), HasSubstr("has expired on 2027-01-15"));
  EXPECT_THAT(refusal("exp", nullptr), HasSubstr("does not say when it ends"));
  EXPECT_THAT(refusal("exp", "tomorrow"), HasSubstr("times that are none"));
  EXPECT_THAT(refusal("exp", 1e300), HasSubstr("times that are none"));
  EXPECT_THAT(refusal("nbf", 1'800'000'100), HasSubstr("is not valid yet"));
  EXPECT_THAT(refusal("sub", "system:node:a"), HasSubstr("not one of a service account"));
  EXPECT_THAT(refusal("sub", "system:serviceaccount:alone"), HasSubstr("service account"));
  // The clocks may differ a little.
  claims_ = good;
  claims_["exp"] = 1'799'999'990;
  claims_["nbf"] = 1'800'000'010;
  EXPECT_TRUE(Verify(Rs256()).ok());
}

TEST_F(ServiceTokenTest, BytesThatAreNoToken) {
  for (const std::string& bad :
       {std::string(), std::string(".."), std::string("eyJ.eyJ.eyJ"), std::string(4096, '['),
        std::string("eyJhb.e30.AA"), std::string("a.b.c\0", 6)}) {
    EXPECT_FALSE(Verify(bad).ok()) << bad;
  }
  const std::string good = Rs256();
  for (size_t size = 0; size < good.size(); size += 7) {
    EXPECT_FALSE(Verify(good.substr(0, size)).ok()) << size;
  }
}

TEST_F(ServiceTokenTest, KeySetsOfNoUseAreRefused) {
  for (const char* bad : {"", "[]", "{}", R"({"keys": 1})", R"({"keys": []})",
                          R"({"keys": [1, {}]})", R"({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]})",
                          R"({"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]})"}) {
    EXPECT_EQ(ServiceKeys::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  keys_["keys"][0]["use"] = "enc";
  keys_["keys"][1]["alg"] = "ES384";
  EXPECT_FALSE(ServiceKeys::Parse(keys_.dump()).ok());
}

}  // namespace
}  // namespace chx::server
