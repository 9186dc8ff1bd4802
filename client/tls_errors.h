// What is wrong with a TLS handshake, in words that say what to do.
#ifndef CHX_CLIENT_TLS_ERRORS_H_
#define CHX_CLIENT_TLS_ERRORS_H_

#include <openssl/x509.h>

#include <string>

namespace chx {

// Of a certificate that OpenSSL does not accept: `error` is its X509_V_ERR_..., `certificate` the
// one with the fault, and `host` what the client has connected to. What is quoted comes from an
// unknown peer: it is escaped, and bounded.
std::string WhyUntrusted(int error, const X509* certificate, const std::string& host);

// Of a handshake that has failed for another reason, by the oldest error in OpenSSL's queue.
std::string WhyNoHandshake();

}  // namespace chx

#endif  // CHX_CLIENT_TLS_ERRORS_H_
