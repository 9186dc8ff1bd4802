#include "server/flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/config_file.h"
#include "server/flags_help.h"
#include "server/rpc/version.h"

namespace chx::server {
namespace {

// Adds flags to the parser, each with the group in the help text that was begun last.
class Adder {
 public:
  Adder(CLI::App* app, bool environment) : app_(app), environment_(environment) {}

  void Group(const std::string& title) { group_ = title; }
  void Text(const std::string& name, std::string* value, const std::string& help) {
    Finish(app_->add_option("--" + name, *value, help), name, *value);
  }
  void Text(const std::string& name, absl::optional<std::string>* value, const std::string& help) {
    Finish(app_->add_option_function<std::string>(
               "--" + name, [value](const std::string& text) { *value = text; }, help),
           name, "");
  }
  void Number(const std::string& name, int* value, const std::string& help) {
    Finish(app_->add_option("--" + name, *value, help), name, absl::StrCat(*value));
  }
  void Switch(const std::string& name, bool* value, const std::string& help) {
    Finish(app_->add_flag("--" + name, *value, help), name, "");
  }
  template <typename Value>  // a Duration, or an optional one
  void Duration(const std::string& name, Value* value, const std::string& shown,
                const std::string& help) {
    const auto parse = [name, value](const std::string& text) {
      absl::Duration duration;
      if (!absl::ParseDuration(text, &duration)) {
        throw CLI::ValidationError("--" + name,
                                   "expects a duration such as 30s, 10m or 1h, got " + text);
      }
      *value = duration;
    };
    Finish(app_->add_option_function<std::string>("--" + name, parse, help), name, shown);
  }
  // The last one: only for whoever starts the program, not for files and the environment.
  void OnlyHere() const { last_->configurable(false)->envname(""); }

 private:
  void Finish(CLI::Option* option, const std::string& name, const std::string& shown) {
    last_ = option->group(group_)->default_str(shown);
    if (environment_) last_->envname(EnvironmentName(name));
  }
  // Kubernetes sets CHXD_PORT and CHXD_SERVICE_* where a service is named chxd: no flags' names.
  static std::string EnvironmentName(const std::string& name) {
    return "CHXD_" + absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}}));
  }

  CLI::App* const app_;
  const bool environment_;
  std::string group_;
  CLI::Option* last_ = nullptr;
};

void AddDevices(Adder* add, Flags* flags) {
  add->Group("Devices");
  add->Text(
      "devices", &flags->devices,
      "Devices to serve, separated by commas: native:0 is the CPU, cuda:N a GPU, NAME:N one of "
      "a plug-in. Without a device of the host, native:0 is added.");
  add->Number(
      "threads", &flags->threads,
      "Threads of the CPU device, at most 1024; 0: one for each core that the process or its "
      "control group may use.");
  add->Text("plugins", &flags->plugins,
            "Further backends, separated by commas: NAME=/PATH of a shared library.");
  add->Text("plugin-dir", &flags->plugin_dir,
            "Where libchxd_cuda.so is. Default: beside the executable, in ../lib/chxd, or in the "
            "Python package chx-cuda.");
}

void AddNetwork(Adder* add, Flags* flags) {
  add->Group("Where it listens, and who may come in");
  add->Text("listen", &flags->listen,
            "Where to listen, separated by commas: unix:PATH or HOST:PORT. Default: a Unix socket, "
            "$XDG_RUNTIME_DIR/chxd.sock or /tmp/chxd-UID/chxd.sock. Port 0 picks a free one.");
  add->Text("token-file", &flags->token_file, "File with the token that clients must present.");
  add->Text(
      "tls-cert", &flags->tls_cert,
      "PEM file with the server's certificate chain. It, the key and the token are read again "
      "when their files change, and on SIGHUP.");
  add->Text("tls-key", &flags->tls_key, "PEM file with its private key.");
  add->Text(
      "tenants", &flags->tenants,
      "YAML file with the tenants of the daemon: their tokens' hashes and other identities, and "
      "what each may have. In place of --token-file; it is read again as the others are.");
  add->Text("tls-client-ca", &flags->tls_client_ca,
            "PEM file with the authorities for certificates of clients, whose subjects are "
            "tenants'.");
  add->Text("jwks-file", &flags->jwks_file,
            "JSON file with the keys of a Kubernetes cluster, whose service accounts' tokens for "
            "the audience chxd are tenants'.");
  add->Text("socket-group", &flags->socket_group,
            "Group, by name or number, whose members may connect to the Unix sockets. Default: the "
            "daemon's own user only.");
  add->Switch("allow-unauthenticated-loopback", &flags->allow_unauthenticated_loopback,
              "Listen on a loopback port without --token-file: every user and container of this "
              "network namespace may then use the daemon.");
}

void AddPeers(Adder* add, Flags* flags) {
  add->Group("Process groups of several daemons");
  add->Text("peer-listen", &flags->peer_listen,
            "HOST:PORT where other daemons connect to this one, who know the same secret. "
            "Default: none do.");
  add->Text("peer-address", &flags->peer_address,
            "HOST:PORT by which they reach it. Default: --peer-listen.");
  add->Text("peers", &flags->peers,
            "Where groups may meet, beside this daemon: HOST:PORT of others, separated by commas. "
            "* and ? stand for any characters: chxd-*.chxd:7710.");
  add->Text("peer-secret-file", &flags->peer_secret_file,
            "File with the secret of all daemons that belong together.");
  add->Text("peer-encryption", &flags->peer_encryption,
            "Of what passes between daemons: tls, by a key of that secret, or none, where nobody "
            "else can read or change what is on their network. The same at all of them.");
  add->Switch("peer-nccl", &flags->peer_nccl,
              "GPUs of several daemons exchange arrays by NCCL, if all of these say so. Its "
              "connections are its own, which anybody who reaches them can read and change, on the "
              "network that NCCL_SOCKET_IFNAME in the environment names.");
}

void AddLimits(Adder* add, Flags* flags) {
  add->Group("Limits");
  add->Text(
      "memory", &flags->memory,
      "How much of the host's memory the daemon may hold, with all sessions; written as for "
      "--session-memory. Default: 90 % of the machine's or the control group's, less a reserve "
      "of 256 MiB.");
  add->Text("session-memory", &flags->session_memory,
            "How much memory each session may hold: 512MiB, 4GiB, 4GB, or a share of the host's "
            "memory, such as 0.5 or 50%. No more than --memory.");
  add->Text(
      "spill-dir", &flags->spill_dir,
      "Folder on a disk for arrays that a session has no memory for: those that it has not used "
      "for longest lie there, in files without names. Default: none; such a session gets errors, "
      "but for what moves from a GPU to the host's memory.");
  add->Text(
      "spill-size", &flags->spill_size,
      "How much all of them may take; written as for --session-memory. Default: as --memory.");
  add->Number("max-sessions", &flags->max_sessions, "How many sessions there may be.");
  add->Number(
      "max-sessions-per-peer", &flags->max_sessions_per_peer,
      "How many of them one user of this machine, or one address with one token, may have.");
  add->Duration(
      "max-command-time", &flags->max_command_time, "",
      "How long one command of a client, an operator or a backward, may run before it is "
      "stopped with an error; 0s: for ever. Default: 10m, or for ever with --lifeline-fd.");
  add->Duration("function-deadline", &flags->function_deadline, "1h",
                "How long a gradient that the client computes may take before its backward fails; "
                "0s: for ever.");
  add->Duration("collective-timeout", &flags->collective_timeout, "1m",
                "How long a rank of a process group waits for the others, when the group is made "
                "and in each collective, before all of them get an error.");
  add->Duration("lease", &flags->lease, "30s",
                "How long a session is kept after its client's stream was cut.");
  add->Duration("named-lease", &flags->named_lease, "24h",
                "How long what was saved in a session with a name waits for another client.");
}

void AddObservability(Adder* add, Flags* flags) {
  add->Group("What it shows of itself, over HTTP");
  add->Text("metrics-listen", &flags->metrics_listen,
            "HOST:PORT where Prometheus reads /metrics, with the token as bearer token. Off "
            "loopback it needs TLS, as --listen does.");
  add->Switch("metrics-open", &flags->metrics_open,
              "Let whoever reaches --metrics-listen read it: no token, and no TLS.");
  add->Text("status-listen", &flags->status_listen,
            "HOST:PORT of a page for browsers that shows devices, tenants and sessions. It asks "
            "for the token. Off loopback it needs TLS.");
}

void AddRest(Adder* add, Flags* flags) {
  add->Group("Log, on standard error");
  add->Duration("slow-command", &flags->slow_command, "1s",
                "From when on a command of a client is slow: it is logged, and shown on the status "
                "page; 0s: never.");
  add->Switch(
      "recognize-windows", &flags->recognize_windows,
      "Run windows of commands that a client sends again and again as one plan; false: each "
      "command by itself.");
  add->Text("log-level", &flags->log_level,
            "The least important messages to log: debug, info, warning, error, or off. Default: "
            "info, or warning with --lifeline-fd.");
  add->Text("log-format", &flags->log_format, "text, or json: one object per line.");
  add->Group("Sessions on disk");
  add->Text("state-dir", &flags->state_dir,
            "A folder of its own for sessions: they are written at SIGTERM, and the daemon that is "
            "started next takes them up. Default: none are kept.");
  add->Duration("snapshot-interval", &flags->snapshot_interval, "0s",
                "How often sessions that changed are written in between; 0s: never.");
  add->Number("state-keep", &flags->state_keep,
              "How many snapshots of each session stay: if the newest is damaged, the session is "
              "taken up from the one before.");
  add->Group("Data");
  add->Text("data-root", &flags->data_root,
            "A folder with .npy, .npz and .safetensors files that every session may read. Default: "
            "none.");
  add->Group("Its end");
  add->Duration("drain-timeout", &flags->drain_timeout, "20s",
                "How long SIGTERM lets open streams go on; with --state-dir: their last batches.");
  add->Number("lifeline-fd", &flags->lifeline_fd,
              "Exit when this pipe is closed: for a client that starts a daemon of its own.");
  add->OnlyHere();
  add->Group("Instead of a daemon");
  add->Text("health", &flags->health,
            "Ask the daemon at this address for its health and exit: 0 if it is serving.");
  add->OnlyHere();
}

// Names may have underscores. "--name=" is an empty value, where CLI11 would take the next argument
// for it. In the order that CLI11 expects.
std::vector<std::string> Arguments(const std::vector<std::string>& args) {
  std::vector<std::string> all;
  for (std::string arg : args) {
    const size_t end = std::min(arg.find('='), arg.size());
    const bool named = absl::StartsWith(arg, "--");
    if (named) std::replace(arg.begin(), arg.begin() + static_cast<ptrdiff_t>(end), '_', '-');
    const bool no_value = named && end + 1 == arg.size();
    all.push_back(no_value ? arg.substr(0, end) : arg);
    if (no_value) all.emplace_back();
  }
  std::reverse(all.begin(), all.end());
  return all;
}

bool IsPrivate(const std::vector<std::string>& args) {
  return std::any_of(args.begin(), args.end(), [](const std::string& arg) {
    return absl::StartsWith(absl::StrReplaceAll(arg, {{"_", "-"}}), "--lifeline-fd");
  });
}

absl::Status Stray(const std::string& argument) {
  const bool flag = absl::StartsWith(argument, "-");
  return absl::InvalidArgumentError(
      absl::StrCat(flag ? absl::StrCat("there is no flag ", argument.substr(0, argument.find('=')))
                        : absl::StrCat("expects flags only, got '", argument, "'"),
                   "; chxd --help lists the flags"));
}

}  // namespace

// CLI11 reports by exceptions; none leaves this function.
absl::Status ParseFlags(const std::vector<std::string>& args, Flags* flags) {
  CLI::App app(
      "chxd: a daemon that holds arrays and autograd graphs for many clients.\nValues after '=' "
      "are "
      "the defaults.");
  app.option_defaults()->take_last();
  app.formatter(std::make_shared<FlagsHelp>());
  app.config_formatter(std::make_shared<ConfigFile>());
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.allow_extras();
  const bool environment = !IsPrivate(args);
  Adder add(&app, environment);
  AddDevices(&add, flags);
  AddNetwork(&add, flags);
  AddPeers(&add, flags);
  AddLimits(&add, flags);
  AddObservability(&add, flags);
  AddRest(&add, flags);
  app.set_config("--config", "",
                 "TOML file with flags, without the dashes before their names: session-memory = "
                 "\"4GiB\". The command line goes before it, and it before the environment, where "
                 "$CHXD_SESSION_MEMORY is that flag.")
      ->group("About all of these");
  app.set_version_flag("--version", absl::StrCat("chxd ", kVersion), "Print the version and exit.")
      ->group("About all of these");
  app.set_help_flag("--help,-h", "Print this text and exit.")->group("About all of these");
  try {
    app.parse(Arguments(args));
  } catch (const CLI::CallForHelp&) {
    flags->text = app.help();
    return absl::OkStatus();
  } catch (const CLI::CallForVersion& version) {
    flags->text = absl::StrCat(version.what(), "\n");
    return absl::OkStatus();
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  const std::vector<std::string> rest = app.remaining();
  return rest.empty() ? absl::OkStatus() : Stray(rest.front());
}

}  // namespace chx::server
