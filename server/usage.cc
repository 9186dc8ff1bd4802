#include "server/usage.h"

#include <algorithm>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace chx::server {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kIndent = 6;

struct Group {
  const char* title;
  std::vector<const char*> flags;
};

// What is not named here comes under "Other".
const std::vector<Group>& Groups() {
  static const auto* const groups = new std::vector<Group>{
      {"Devices", {"devices", "threads", "plugins", "plugin_dir"}},
      {"Where it listens, and who may come in",
       {"listen", "token_file", "tls_cert", "tls_key", "allow_unauthenticated_loopback"}},
      {"Limits",
       {"memory", "session_memory", "max_sessions", "max_sessions_per_peer", "max_command_time",
        "function_deadline", "lease"}},
      {"Its end", {"drain_timeout", "lifeline_fd"}},
      {"Instead of a daemon", {"health"}},
  };
  return *groups;
}

std::string Wrapped(absl::string_view text) {
  std::string out;
  size_t column = kColumns;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipWhitespace())) {
    if (column + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, out.empty() ? "" : "\n", std::string(kIndent, ' '), word);
      column = kIndent + word.size();
    } else {
      absl::StrAppend(&out, " ", word);
      column += 1 + word.size();
    }
  }
  return out;
}

std::string Describe(const absl::CommandLineFlag& flag) {
  const std::string value = flag.DefaultValue();
  const std::string help = flag.Help();
  const bool says_default = absl::StrContains(help, "efault:");
  const std::string name = absl::StrReplaceAll(flag.Name(), {{"_", "-"}});
  const bool is_switch = value == "false";
  return absl::StrCat("  --", name, value.empty() || is_switch ? "" : "=", is_switch ? "" : value,
                      "\n", Wrapped(help), says_default || !value.empty() ? "" : " Default: none.",
                      "\n");
}

// Ours: of a file of the daemon's.
bool IsOurs(const absl::CommandLineFlag& flag) {
  return absl::StartsWith(flag.Filename(), "server/");
}

}  // namespace

std::string Usage() {
  std::string text =
      "chxd [FLAGS]: a daemon that holds arrays and autograd graphs for many clients.\n"
      "Values after '=' are the defaults.\n";
  std::vector<absl::string_view> named;
  for (const Group& group : Groups()) {
    absl::StrAppend(&text, "\n", group.title, ":\n");
    for (const char* name : group.flags) {
      const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
      named.push_back(name);
      if (flag != nullptr) absl::StrAppend(&text, Describe(*flag));
    }
  }
  // Abseil's.
  absl::StrAppend(&text, "  --version\n      Print the version and exit.\n",
                  "  --help\n      Print this text and exit.\n");
  std::string others;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    const bool known = std::find(named.begin(), named.end(), name) != named.end();
    if (!known && IsOurs(*flag)) absl::StrAppend(&others, Describe(*flag));
  }
  return absl::StrCat(text, others.empty() ? "" : "\nOther:\n", others);
}

}  // namespace chx::server
