#include "client/ctl/completion.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace chx::ctl {
namespace {

// A command, or one of a command: "", "session", "session kill".
struct Entry {
  std::string path;
  std::vector<std::string> words;  // that may come next
};

std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      // Each command has its own; the common ones have it, too.
      if (name != "help" || app.get_parent() == nullptr) flags.push_back("--" + name);
    }
  }
  return flags;
}

void Collect(const CLI::App& app, const std::string& path, const std::vector<std::string>& common,
             std::vector<Entry>* entries) {
  Entry entry{path, {}};
  for (const CLI::App* inner : app.get_subcommands(nullptr)) {
    entry.words.push_back(inner->get_name());
  }
  for (std::string& flag : FlagsOf(app)) entry.words.push_back(std::move(flag));
  if (path == "completion") entry.words.insert(entry.words.begin(), {"bash", "zsh", "fish"});
  if (!path.empty()) entry.words.insert(entry.words.end(), common.begin(), common.end());
  entries->push_back(std::move(entry));
  for (const CLI::App* inner : app.get_subcommands(nullptr)) {
    Collect(*inner, absl::StrCat(path, path.empty() ? "" : " ", inner->get_name()), common,
            entries);
  }
}

// For bash, and for zsh by its emulation of bash's completion. The words before the cursor that are
// commands make a path; what may follow it is listed.
std::string Bash(const std::vector<Entry>& entries) {
  std::string cases;
  for (const Entry& entry : entries) {
    absl::StrAppend(&cases, "    '", entry.path, "') words='", absl::StrJoin(entry.words, " "),
                    "' ;;\n");
  }
  std::string paths;
  for (const Entry& entry : entries) {
    if (!entry.path.empty())
      absl::StrAppend(&paths, paths.empty() ? "" : "|", "'", entry.path, "'");
  }
  return absl::StrReplaceAll(R"(_chxctl() {
  local current=${COMP_WORDS[COMP_CWORD]} path= word words= i
  local previous=${COMP_WORDS[COMP_CWORD-1]}
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    case "${path:+$path }$word" in
    @PATHS@) path="${path:+$path }$word" ;;
    esac
  done
  case $previous in
  --token-file|--tls-roots|--out|-o|--merge|--from)
    COMPREPLY=($(compgen -f -- "$current"))
    return ;;
  --output)
    COMPREPLY=($(compgen -W 'table json' -- "$current"))
    return ;;
  --sort)
    COMPREPLY=($(compgen -W 'compute memory commands' -- "$current"))
    return ;;
  esac
  case $path in
@CASES@  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _chxctl chxctl
)",
                             {{"@PATHS@", paths}, {"@CASES@", cases}});
}

std::string Fish(const std::vector<Entry>& entries) {
  std::string script = "complete -c chxctl -f\n";
  for (const Entry& entry : entries) {
    std::string condition = "__fish_use_subcommand";
    if (!entry.path.empty()) {
      condition = absl::StrCat("__fish_seen_subcommand_from ",
                               absl::StrReplaceAll(entry.path, {{" ",
                                                                 "; and __fish_seen_"
                                                                 "subcommand_from "}}));
    }
    for (const std::string& word : entry.words) {
      absl::StrAppend(&script, "complete -c chxctl -n '", condition, "' ",
                      absl::StartsWith(word, "--") ? absl::StrCat("-l ", word.substr(2))
                                                   : absl::StrCat("-a ", word),
                      "\n");
    }
  }
  return script;
}

}  // namespace

std::string Completion(const CLI::App& app, const std::string& shell) {
  std::vector<Entry> entries;
  Collect(app, "", FlagsOf(app), &entries);
  if (shell == "bash") return Bash(entries);
  if (shell == "zsh") {
    return absl::StrCat("autoload -U +X bashcompinit && bashcompinit\n", Bash(entries));
  }
  return shell == "fish" ? Fish(entries) : "";
}

}  // namespace chx::ctl
