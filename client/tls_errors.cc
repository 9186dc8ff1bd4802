#include "client/tls_errors.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace chx {
namespace {

constexpr size_t kMaxNames = 8;
constexpr size_t kMaxText = 200;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
using Buffer = std::unique_ptr<BIO, Free>;

std::string TextOf(const Buffer& buffer) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(buffer.get(), &text);  // NOLINT(google-runtime-int)
  return absl::CHexEscape(absl::string_view(text, static_cast<size_t>(size)).substr(0, kMaxText));
}

std::string TextOf(const X509_NAME* name) {
  const Buffer buffer(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(buffer.get(), name, 0, XN_FLAG_ONELINE);
  return TextOf(buffer);
}

std::string TextOf(const ASN1_TIME* time) {
  const Buffer buffer(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(buffer.get(), time);
  return TextOf(buffer);
}

std::string TextOf(const GENERAL_NAME* name) {
  int type = 0;
  const auto* const value = static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(name, &type));
  if (type != GEN_DNS && type != GEN_IPADD) return "";
  const unsigned char* const data = ASN1_STRING_get0_data(value);
  const auto size = static_cast<size_t>(ASN1_STRING_length(value));
  if (type == GEN_DNS) {
    const absl::string_view text(reinterpret_cast<const char*>(data), size);
    return absl::StrCat("DNS:", absl::CHexEscape(text.substr(0, kMaxText)));
  }
  char text[INET6_ADDRSTRLEN] = "";
  if (size == 4) inet_ntop(AF_INET, data, text, sizeof(text));
  if (size == 16) inet_ntop(AF_INET6, data, text, sizeof(text));
  return absl::StrCat("IP:", text);
}

// Whom the certificate is for; its subject's name is not looked at, nor is it by OpenSSL where
// there are others.
std::string NamesIn(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, Free> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> texts;
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names.get());
  for (int i = 0; i < count && texts.size() < kMaxNames; ++i) {
    std::string text = TextOf(sk_GENERAL_NAME_value(names.get(), i));
    if (!text.empty()) texts.push_back(std::move(text));
  }
  return texts.empty() ? TextOf(X509_get_subject_name(certificate)) : absl::StrJoin(texts, ", ");
}

std::string Explanation(int error, const X509* certificate, const std::string& host) {
  switch (error) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return absl::StrCat("is for ", NamesIn(certificate), ", not for ", host,
                          ": connect by a name that it has, or give the daemon a certificate for "
                          "this one");
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrCat("(", TextOf(X509_get_subject_name(certificate)), ") has expired on ",
                          TextOf(X509_get0_notAfter(certificate)),
                          ": give the daemon a new one, in the file of its --tls-cert");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat("(", TextOf(X509_get_subject_name(certificate)), ") is valid from ",
                          TextOf(X509_get0_notBefore(certificate)),
                          " on: are the clocks here and there right?");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return absl::StrCat("is signed by ", TextOf(X509_get_issuer_name(certificate)),
                          ", whose certificate is not in tls_roots: tls_roots expects that of the "
                          "authority that has signed the daemon's");
    default:
      return "is not to be trusted";
  }
}

}  // namespace

std::string WhyUntrusted(int error, const X509* certificate, const std::string& host) {
  const std::string what =
      certificate == nullptr ? "is missing" : Explanation(error, certificate, host);
  return absl::StrCat("its certificate ", what, " (", X509_verify_cert_error_string(error), ")");
}

std::string WhyNoHandshake() {
  const unsigned long code = ERR_get_error();  // NOLINT(google-runtime-int): OpenSSL's type
  const int reason = ERR_GET_REASON(code);
  const bool of_tls = ERR_GET_LIB(code) == ERR_LIB_SSL;
  if (of_tls && (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
                 reason == SSL_R_PACKET_LENGTH_TOO_LONG)) {
    return "it does not speak TLS there: leave tls_roots out if the port is the daemon's, on its "
           "own machine";
  }
  if (of_tls && reason == SSL_R_UNSUPPORTED_PROTOCOL) {
    return "TLS: it speaks no version that is safe; expects 1.2 or newer";
  }
  const char* const text = ERR_reason_error_string(code);
  return text != nullptr ? absl::StrCat("TLS: ", text)
                         : "TLS: the connection is cut in the handshake; is the port chxd's, with "
                           "--tls-cert?";
}

}  // namespace chx
