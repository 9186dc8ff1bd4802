#include "server/engine/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "absl/strings/string_view.h"

namespace chx::server {
namespace {

// The number of a line "NAME:   1234 kB", in bytes.
int64_t Line(absl::string_view status, absl::string_view name) {
  const size_t at = status.find(name);
  int64_t kilobytes = 0;
  if (at == absl::string_view::npos) return 0;
  std::sscanf(status.data() + at + name.size(), "%ld", &kilobytes);
  return kilobytes * 1024;
}

}  // namespace

int64_t HeldProcessBytes() {
  std::array<char, 4096> text;
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = read(fd, text.data(), text.size() - 1);
  close(fd);
  text[size > 0 ? static_cast<size_t>(size) : 0] = '\0';
  return Line(text.data(), "\nRssAnon:") + Line(text.data(), "\nRssShmem:");
}

}  // namespace chx::server
