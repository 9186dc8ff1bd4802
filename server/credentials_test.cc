#include "server/credentials.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <utility>

namespace chx::server {
namespace {

constexpr char kToken[] = "0123456789abcdef";

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio, &data));
  std::string text(data, size);
  BIO_free(bio);
  return text;
}

// A certificate that signs itself, and its key; valid until so many seconds from now.
std::pair<std::string, std::string> MakePair(int seconds = 3600) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  std::pair<std::string, std::string> pair;
  pair.first = TextOf(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  pair.second = TextOf(bio);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    char name[] = "/tmp/chxd-credentials-XXXXXX";
    folder_ = mkdtemp(name);
    files_ = {folder_ + "/tls.crt", folder_ + "/tls.key", folder_ + "/token"};
    const auto [cert, key] = MakePair();
    Write(files_.tls_cert, cert);
    Write(files_.tls_key, key);
    Write(files_.token, std::string(kToken) + "\n");
  }
  ~CredentialsTest() override {
    for (const std::string& file : {files_.tls_cert, files_.tls_key, files_.token}) {
      unlink(file.c_str());
    }
    rmdir(folder_.c_str());
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  std::string Error() const { return std::string(ReadCredentials(files_).status().message()); }
  void ExpectError(const std::string& file, const std::string& why) const {
    EXPECT_NE(Error().find("got " + file), std::string::npos) << Error();
    EXPECT_NE(Error().find(why), std::string::npos) << Error();
  }

  std::string folder_;
  CredentialFiles files_;
};

TEST_F(CredentialsTest, AreRead) {
  const absl::StatusOr<Credentials> read = ReadCredentials(files_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->token, kToken);
  EXPECT_NE(read->tls_cert.find("BEGIN CERTIFICATE"), std::string::npos);
  EXPECT_EQ(read->warning, "");
  EXPECT_TRUE(*ReadCredentials({}) == Credentials());
}

// It was as if the flag had not been given: a listener without TLS.
TEST_F(CredentialsTest, AnEmptyFileIsAnError) {
  for (const std::string& path : {files_.tls_cert, files_.tls_key, files_.token}) {
    std::string before;
    std::getline(std::ifstream(path), before, '\0');
    Write(path, "");
    ExpectError(path, "it is empty");
    Write(path, before);
    EXPECT_EQ(Error(), "");
  }
}

TEST_F(CredentialsTest, ErrorsNameTheFlagTheFileAndTheReason) {
  const CredentialFiles good = files_;
  files_.tls_cert = folder_ + "/none";
  ExpectError(files_.tls_cert, "--tls-cert expects a file that the daemon can read");
  files_.tls_cert = folder_;
  ExpectError(folder_, "Is a directory");
  files_ = good;
  files_.tls_key = good.tls_cert;
  ExpectError(good.tls_cert, "--tls-key expects the PEM key");
  files_ = good;
  files_.tls_key = "";
  EXPECT_EQ(Error(), "--tls-cert and --tls-key go together");
  files_ = good;
  Write(files_.token, "short");
  ExpectError("one of 5 in " + files_.token, "openssl rand -hex 32");
  Write(files_.tls_cert, "nonsense");
  ExpectError(files_.tls_cert, "--tls-cert expects a PEM certificate chain");
}

TEST_F(CredentialsTest, AKeyOfAnotherCertificateIsAnError) {
  Write(files_.tls_key, MakePair().second);
  ExpectError(files_.tls_key, "mismatch");
}

TEST_F(CredentialsTest, AnExpiredCertificateIsAWarning) {
  const auto [cert, key] = MakePair(-3600);
  Write(files_.tls_cert, cert);
  Write(files_.tls_key, key);
  const absl::StatusOr<Credentials> read = ReadCredentials(files_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_NE(read->warning.find(files_.tls_cert + " has expired"), std::string::npos);
}

TEST_F(CredentialsTest, WatchSaysWhatIsNewOnceAndWaitsUntilNobodyWrites) {
  CredentialWatch watch(files_, *ReadCredentials(files_));
  EXPECT_FALSE(watch.Look().has_value());
  const auto [cert, key] = MakePair();
  Write(files_.tls_cert, cert);
  EXPECT_FALSE(watch.Look().has_value());  // it may be under way
  Write(files_.tls_key, key);
  EXPECT_FALSE(watch.Look().has_value());
  const auto read = watch.Look();
  ASSERT_TRUE(read.has_value());
  ASSERT_TRUE(read->ok()) << read->status();
  EXPECT_EQ((*read)->tls_cert, cert);
  EXPECT_EQ((*read)->tls_key, key);
  EXPECT_FALSE(watch.Look().has_value());
}

TEST_F(CredentialsTest, WatchSaysOnceWhatIsWrongAndGoesOn) {
  CredentialWatch watch(files_, *ReadCredentials(files_));
  Write(files_.token, "short");
  EXPECT_FALSE(watch.Look().has_value());
  const auto wrong = watch.Look();
  ASSERT_TRUE(wrong.has_value());
  EXPECT_FALSE(wrong->ok());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(watch.Look().has_value());
  Write(files_.token, "another token of some length");
  EXPECT_FALSE(watch.Look().has_value());
  const auto right = watch.Look();
  ASSERT_TRUE(right.has_value());
  ASSERT_TRUE(right->ok()) << right->status();
  EXPECT_EQ((*right)->token, "another token of some length");
}

// As Kubernetes does: the files are links to links, and one of these is replaced.
TEST_F(CredentialsTest, WatchFollowsLinks) {
  const std::string token = folder_ + "/link", data = folder_ + "/..data";
  const std::string first = folder_ + "/first", second = folder_ + "/second";
  Write(first, "the first token of a secret");
  Write(second, "the second token of a secret");
  ASSERT_EQ(symlink(first.c_str(), data.c_str()), 0);
  ASSERT_EQ(symlink(data.c_str(), token.c_str()), 0);
  CredentialFiles files;
  files.token = token;
  CredentialWatch watch(files, *ReadCredentials(files));
  const std::string made = folder_ + "/..data_tmp";
  ASSERT_EQ(symlink(second.c_str(), made.c_str()), 0);
  ASSERT_EQ(rename(made.c_str(), data.c_str()), 0);
  EXPECT_FALSE(watch.Look().has_value());
  const auto read = watch.Look();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ((*read)->token, "the second token of a secret");
  for (const std::string& path : {token, data, first, second}) unlink(path.c_str());
}

}  // namespace
}  // namespace chx::server
