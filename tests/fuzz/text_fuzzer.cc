// What the daemon's command line takes: listeners, sizes, plug-ins. The first byte says which.
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/engine/memory_size.h"
#include "server/options.h"
#include "tests/fuzz/target.h"

namespace chx {
namespace {

using server::Listener;
using server::ParseListen;
using server::ParseMemorySize;
using server::ParsePlugins;

constexpr size_t kParsers = 3;
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

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  bool (*const parsers[chx::kParsers])(absl::string_view) = {chx::ListenIsSane, chx::BytesAreSane,
                                                             chx::PluginsAreSane};
  const size_t which = data[0] % chx::kParsers;
  ++chx::counts[which][parsers[which](text) ? 0 : 1];
  return 0;
}

namespace chx {

std::string FuzzCounts() {
  std::string text;
  const char* const names[] = {"--listen", "sizes", "--plugins"};
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
          "\2example=/usr/lib/libexample.so,other=/a"s};
}

}  // namespace chx
