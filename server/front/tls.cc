#include "server/front/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace chx::server {
namespace {

constexpr int kMaxChain = 8;           // certificates between a client's and one that is trusted
constexpr int64_t kMaxSubject = 1024;  // bytes

struct PemFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

std::unique_ptr<BIO, PemFree> BioOf(const std::string& text) {
  return std::unique_ptr<BIO, PemFree>(
      BIO_new_mem_buf(text.data(), static_cast<int>(std::min<size_t>(text.size(), INT_MAX))));
}

// A passphrase has nobody to ask.
int NoPassphrase(char*, int, int, void*) { return 0; }

bool UseChain(SSL_CTX* context, const std::string& pem) {
  const auto bio = BioOf(pem);
  if (bio == nullptr) return false;
  std::unique_ptr<X509, PemFree> leaf(
      PEM_read_bio_X509_AUX(bio.get(), nullptr, NoPassphrase, nullptr));
  if (leaf == nullptr || SSL_CTX_use_certificate(context, leaf.get()) != 1) return false;
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    std::unique_ptr<X509, PemFree> owned(next);
    if (SSL_CTX_add0_chain_cert(context, next) != 1) return false;
    static_cast<void>(owned.release());
  }
  ERR_clear_error();  // the end of the text is one
  return true;
}

bool UseKey(SSL_CTX* context, const std::string& pem) {
  const auto bio = BioOf(pem);
  if (bio == nullptr) return false;
  const std::unique_ptr<EVP_PKEY, PemFree> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
         SSL_CTX_check_private_key(context) == 1;
}

// A client need not have a certificate; one that it shows must be good.
bool AskClients(SSL_CTX* context, const std::string& pem) {
  const auto bio = BioOf(pem);
  if (bio == nullptr) return false;
  int found = 0;
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    const std::unique_ptr<X509, PemFree> owned(next);
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), next) != 1 ||
        SSL_CTX_add_client_CA(context, next) != 1) {
      return false;
    }
    ++found;
  }
  if (found == 0) return false;
  ERR_clear_error();  // the end of the text is one
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_verify_depth(context, kMaxChain);
  return SSL_CTX_set_purpose(context, X509_PURPOSE_SSL_CLIENT) == 1;
}

absl::Status TlsError(absl::string_view what, absl::string_view advice = "") {
  const unsigned long code = ERR_peek_last_error();  // NOLINT(google-runtime-int)
  const char* const reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(what, reason == nullptr ? "" : ": ", reason == nullptr ? "" : reason, advice));
}

absl::Status KeyError(const std::string& key_pem, const std::string& name) {
  const std::string what =
      absl::StrCat("--tls-key expects the PEM key of --tls-cert's certificate, got ", name);
  if (absl::StrContains(key_pem, "ENCRYPTED")) {
    return TlsError(absl::StrCat(what, ", which is encrypted"),
                    "; nobody is there to be asked for the passphrase: openssl pkey removes it");
  }
  return TlsError(what);
}

}  // namespace

absl::StatusOr<std::shared_ptr<FrontTls>> FrontTls::Create(const FrontTlsFiles& files) {
  auto result = std::make_shared<FrontTls>();
  result->context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const context = result->context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    return TlsError("cannot use TLS");
  }
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // Idle streams keep no buffers; a write may be tried again from another place.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_read_ahead(context, 1);  // header and body of a record in one call
  ERR_clear_error();
  if (!UseChain(context, files.cert)) {
    return TlsError(
        absl::StrCat("--tls-cert expects a PEM certificate chain, text with -----BEGIN "
                     "CERTIFICATE-----, got ",
                     files.cert_name));
  }
  if (!UseKey(context, files.key)) return KeyError(files.key, files.key_name);
  if (!files.client_ca.empty() && !AskClients(context, files.client_ca)) {
    return TlsError(
        absl::StrCat("--tls-client-ca expects PEM certificates, got ", files.client_ca_name));
  }
  return result;
}

std::string FrontTls::WhyNotNow() const {
  const X509* const certificate = SSL_CTX_get0_certificate(context_.get());
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) return "has expired";
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) return "is not valid yet";
  return "";
}

FrontTlsStream::FrontTlsStream(const FrontTls& context, int socket)
    : stream_(SSL_new(context.get())) {
  if (stream_ == nullptr || SSL_set_fd(stream_.get(), socket) != 1) {
    stream_ = nullptr;
  } else {
    SSL_set_accept_state(stream_.get());
  }
}

IoResult FrontTlsStream::ResultOf(int returned) {
  switch (SSL_get_error(stream_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return IoResult::kWait;
    case SSL_ERROR_ZERO_RETURN:
      return IoResult::kEnd;
    default:
      return IoResult::kBroken;
  }
}

IoResult FrontTlsStream::Handshake() {
  if (stream_ == nullptr) return IoResult::kBroken;
  ERR_clear_error();
  const int returned = SSL_do_handshake(stream_.get());
  return returned == 1 ? IoResult::kDone : ResultOf(returned);
}

IoResult FrontTlsStream::Read(char* buffer, size_t size, size_t* received) {
  if (stream_ == nullptr) return IoResult::kBroken;
  ERR_clear_error();
  errno = 0;
  const int returned = SSL_read_ex(stream_.get(), buffer, size, received);
  if (returned == 1) return IoResult::kDone;
  // OpenSSL says the same of an empty socket and of a record that was for itself.
  const bool empty = errno == EAGAIN || errno == EWOULDBLOCK;
  const IoResult result = ResultOf(returned);
  return result == IoResult::kWait && !empty ? IoResult::kAgain : result;
}

IoResult FrontTlsStream::Write(const char* data, size_t size) {
  if (stream_ == nullptr) return IoResult::kBroken;
  ERR_clear_error();
  size_t written = 0;
  const int returned = SSL_write_ex(stream_.get(), data, size, &written);
  return returned == 1 ? IoResult::kDone : ResultOf(returned);
}

std::string FrontTlsStream::VerifiedSubject() const {
  if (stream_ == nullptr || SSL_get_verify_result(stream_.get()) != X509_V_OK) return "";
  const X509* const certificate = SSL_get0_peer_certificate(stream_.get());
  const std::unique_ptr<BIO, PemFree> bio(BIO_new(BIO_s_mem()));
  if (certificate == nullptr || bio == nullptr) return "";
  const unsigned long flags = XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB;  // NOLINT: OpenSSL's type
  if (X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0, flags) < 0) return "";
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return size <= 0 || size > kMaxSubject ? "" : std::string(text, static_cast<size_t>(size));
}

void FrontTlsStream::End() {
  if (stream_ == nullptr) return;
  ERR_clear_error();
  SSL_shutdown(stream_.get());
  ERR_clear_error();
}

}  // namespace chx::server
