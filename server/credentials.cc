#include "server/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/engine/host_memory.h"
#include "server/front/tls.h"
#include "server/tenancy/service_token.h"
#include "server/tenancy/tenants_file.h"

namespace chx::server {
namespace {

constexpr size_t kMinTokenBytes = 16;
constexpr size_t kMaxTokenBytes = 1024;
constexpr size_t kMaxFileBytes = 64 << 10;  // they travel in one packet
constexpr size_t kMaxTenantsBytes = 4 << 20;

absl::Status Unreadable(absl::string_view flag, const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " expects a file that the daemon can read, got ", path, ": ", why));
}

absl::StatusOr<std::string> ReadFile(absl::string_view flag, const std::string& path,
                                     size_t max_bytes = kMaxFileBytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    const int error = errno;
    return Unreadable(
        flag, path,
        absl::StrCat(std::strerror(error),
                     error == EACCES ? absl::StrCat(" for user ", geteuid()) : std::string()));
  }
  std::string text(max_bytes + 1, '\0');
  size_t size = 0;
  ssize_t got = 0;
  do {
    got = read(file, &text[size], text.size() - size);
    if (got > 0) size += static_cast<size_t>(got);
  } while (got > 0 || (got < 0 && errno == EINTR));
  const int error = errno;
  close(file);
  if (got < 0) return Unreadable(flag, path, std::strerror(error));
  if (size == 0) return Unreadable(flag, path, "it is empty");
  if (size > max_bytes) {
    return Unreadable(flag, path, absl::StrCat("it has more than ", max_bytes >> 10, " KiB"));
  }
  text.resize(size);
  return text;
}

// An error, with the flag and the file that it is about.
absl::Status InFile(absl::string_view flag, const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(flag, "=", path, ": ", status.message()));
}

absl::Status ReadTenants(const CredentialFiles& files, Credentials* credentials) {
  if (files.tenants.empty()) {
    if (files.client_ca.empty() && files.jwks.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        files.jwks.empty() ? "--tls-client-ca" : "--jwks-file",
        " expects --tenants, which says whose certificates or service accounts those are"));
  }
  if (!files.token.empty()) {
    return absl::InvalidArgumentError(
        "--tenants has the hashes of its tenants' tokens: leave --token-file out");
  }
  CHX_ASSIGN_OR_RETURN(credentials->tenants_text,
                       ReadFile("--tenants", files.tenants, kMaxTenantsBytes));
  absl::StatusOr<std::vector<Tenant>> tenants =
      ParseTenants(credentials->tenants_text, HostMemoryBytes());
  if (!tenants.ok()) return InFile("--tenants", files.tenants, tenants.status());
  credentials->tenants = *std::move(tenants);
  if (!files.client_ca.empty()) {
    if (files.tls_cert.empty()) {
      return absl::InvalidArgumentError("--tls-client-ca expects --tls-cert and --tls-key");
    }
    CHX_ASSIGN_OR_RETURN(credentials->client_ca, ReadFile("--tls-client-ca", files.client_ca));
  }
  if (!files.jwks.empty()) {
    CHX_ASSIGN_OR_RETURN(credentials->service_keys, ReadFile("--jwks-file", files.jwks));
    const auto keys = ServiceKeys::Parse(credentials->service_keys);
    if (!keys.ok()) return InFile("--jwks-file", files.jwks, keys.status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadSecret(absl::string_view flag, const std::string& path) {
  CHX_ASSIGN_OR_RETURN(std::string secret, ReadFile(flag, path));
  absl::StripAsciiWhitespace(&secret);
  if (secret.size() < kMinTokenBytes || secret.size() > kMaxTokenBytes) {
    const absl::string_view what = flag == "--token-file" ? "token" : "secret";
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " expects a ", what, " of ", kMinTokenBytes, " to ", kMaxTokenBytes,
                     " characters, got one of ", secret.size(), " in ", path,
                     "; openssl rand -hex 32 makes one"));
  }
  return secret;
}

absl::StatusOr<Credentials> ReadCredentials(const CredentialFiles& files) {
  Credentials credentials;
  if (files.tls_cert.empty() != files.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together");
  }
  CHX_RETURN_IF_ERROR(ReadTenants(files, &credentials));
  if (!files.tls_cert.empty()) {
    CHX_ASSIGN_OR_RETURN(credentials.tls_cert, ReadFile("--tls-cert", files.tls_cert));
    CHX_ASSIGN_OR_RETURN(credentials.tls_key, ReadFile("--tls-key", files.tls_key));
    CHX_ASSIGN_OR_RETURN(
        const std::shared_ptr<FrontTls> tls,
        FrontTls::Create({credentials.tls_cert, credentials.tls_key, credentials.client_ca,
                          files.tls_cert, files.tls_key, files.client_ca}));
    const std::string why = tls->WhyNotNow();
    if (!why.empty()) {
      credentials.warning =
          absl::StrCat("the certificate in ", files.tls_cert, " ", why, ": clients refuse it");
    }
  }
  if (!files.token.empty()) {
    CHX_ASSIGN_OR_RETURN(credentials.token, ReadSecret("--token-file", files.token));
  }
  return credentials;
}

CredentialWatch::CredentialWatch(CredentialFiles files, Credentials current)
    : files_(std::move(files)), current_(std::move(current)), seen_(State()), read_(seen_) {}

std::string CredentialWatch::State() const {
  std::string state;
  for (const std::string& path : files_.All()) {
    struct stat info = {};
    if (path.empty() || stat(path.c_str(), &info) != 0) {
      absl::StrAppend(&state, "-;");
      continue;
    }
    absl::StrAppend(&state, info.st_dev, " ", info.st_ino, " ", info.st_size, " ",
                    info.st_mtim.tv_sec, " ", info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, " ",
                    info.st_ctim.tv_nsec, ";");
  }
  return state;
}

absl::optional<absl::StatusOr<Credentials>> CredentialWatch::Look() {
  std::string state = State();
  const bool stands = state == seen_;
  seen_ = std::move(state);
  if (!stands || seen_ == read_) return absl::nullopt;
  const Credentials before = current_;
  const std::string error = error_;
  absl::StatusOr<Credentials> read = Read();
  if (read.ok() ? *read == before : read.status().message() == error) return absl::nullopt;
  return read;
}

absl::StatusOr<Credentials> CredentialWatch::Read() {
  std::string state = State();  // what is written meanwhile is seen at the next look
  absl::StatusOr<Credentials> read = ReadCredentials(files_);
  read_ = std::move(state);
  error_ = std::string(read.status().message());
  if (read.ok()) current_ = *read;
  return read;
}

}  // namespace chx::server
