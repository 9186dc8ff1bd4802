#include "client/ctl/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx::ctl {
namespace {

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string AddressOf(const Options& options) {
  if (!options.address.empty()) return options.address;
  const std::string server = Environment("CHX_SERVER");
  if (!server.empty()) return server;
  const std::string runtime = Environment("XDG_RUNTIME_DIR");
  if (!runtime.empty()) return absl::StrCat("unix:", runtime, "/chxd.sock");
  return absl::StrCat("unix:/tmp/chxd-", geteuid(), "/chxd.sock");
}

absl::StatusOr<ConnectOptions> ConnectOptionsOf(const Options& options) {
  ConnectOptions connect;
  connect.client_name = "chxctl";
  connect.token = Environment("CHX_TOKEN");
  if (!options.token_file.empty()) {
    CHX_ASSIGN_OR_RETURN(connect.token, ReadFile("--token-file", options.token_file));
    absl::StripAsciiWhitespace(&connect.token);
  }
  if (!options.tls_roots.empty()) {
    CHX_ASSIGN_OR_RETURN(connect.tls_roots, ReadFile("--tls-roots", options.tls_roots));
    if (!absl::StrContains(connect.tls_roots, "-----BEGIN ")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--tls-roots expects certificates in PEM, got ", options.tls_roots, ", which has none"));
    }
  }
  return connect;
}

absl::StatusOr<std::string> ReadFile(const std::string& flag, const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  std::string text;
  bool failed = file == nullptr;
  int error = errno;
  while (!failed) {
    char piece[1 << 14];
    const size_t got = std::fread(piece, 1, sizeof(piece), file);
    text.append(piece, got);
    if (got == sizeof(piece)) continue;
    failed = std::ferror(file) != 0;
    error = errno;
    break;
  }
  if (file != nullptr) std::fclose(file);
  if (!failed) return text;
  return absl::InvalidArgumentError(absl::StrCat(flag, " expects a file that can be read, got ",
                                                 path, ": ", std::strerror(error)));
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  const bool to_stdout = path == "-";
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".part");
  std::FILE* const file = to_stdout ? stdout : std::fopen(temporary.c_str(), "wbe");
  bool written = file != nullptr;
  if (written) written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) {
    written = (to_stdout ? std::fflush(file) : std::fclose(file)) == 0 && written;
  }
  if (!to_stdout && written) written = std::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return absl::OkStatus();
  const int error = errno;
  if (!to_stdout) std::remove(temporary.c_str());
  return absl::InvalidArgumentError(absl::StrCat("--out expects a file that can be written, got ",
                                                 path, ": ", std::strerror(error)));
}

}  // namespace chx::ctl
