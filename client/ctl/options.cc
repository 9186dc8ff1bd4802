#include "client/ctl/options.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ctl/commands.h"
#include "client/ctl/completion.h"

namespace chx::ctl {
namespace {

constexpr char kVersion[] = "0.1.0";

class Builder {
 public:
  explicit Builder(Options* options) : options_(*options) {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.set_version_flag("--version", absl::StrCat("chxctl ", kVersion));
    app_.add_option("--address", options_.address,
                    "Where the daemon listens: unix:PATH or HOST:PORT. Default: $CHX_SERVER, or "
                    "chxd's default socket.");
    app_.add_option("--token-file", options_.token_file,
                    "File with the daemon's token. Default: the token in $CHX_TOKEN.");
    app_.add_option("--tls-roots", options_.tls_roots,
                    "PEM file with certificates to trust; plaintext without it.");
    app_.add_option("--output", output_, "table, or json.")
        ->check(CLI::IsMember({"table", "json"}))
        ->default_str("table");
    AddListings();
    AddSession();
    AddRun();
    AddTrace();
    AddRest();
  }

  CLI::App& app() { return app_; }
  void Finish() { options_.json = output_ == "json"; }

 private:
  CLI::App* Command(CLI::App* parent, const std::string& name, const std::string& help) {
    CLI::App* const command = parent->add_subcommand(name, help);
    command->fallthrough();
    const std::string full = parent == &app_ ? name : absl::StrCat(parent->get_name(), " ", name);
    command->final_callback([this, full] {
      if (options_.command.empty()) options_.command = full;
    });
    return command;
  }
  CLI::App* Command(const std::string& name, const std::string& help) {
    return Command(&app_, name, help);
  }
  void Number(CLI::App* command) {
    command->add_option("NUMBER", options_.session, "The session's number, as sessions lists it.")
        ->required()
        ->check(CLI::PositiveNumber);
  }
  void Recording(CLI::App* command) {
    command->add_option("--seconds", options_.seconds, "How long to record, at most 60.")
        ->check(CLI::Range(0.001, 60.0))
        ->default_str("5");
    command->add_option("-o,--out", options_.out, "Where to write the trace; -: standard output.")
        ->required();
    command
        ->add_option("--merge", options_.merge,
                     "A client's trace of the same time (chx.trace), to be joined with it. "
                     "May be given again.")
        ->type_name("FILE");
  }

  void AddListings() {
    Command("status", "The daemon: version, uptime, sessions, memory.");
    Command("sessions", "All sessions.");
    Command("tenants", "Tenants, and what their sessions take.");
    Command("devices", "Devices and their memory.");
    Command("runs", "Runs: training that the daemon does by itself.");
    CLI::App* const top = Command("top", "Sessions by what they use, live.");
    top->add_flag("--once", options_.once, "Print one table, over --interval, and exit.");
    top->add_option("--interval", options_.interval, "Seconds between two looks.")
        ->check(CLI::Range(0.1, 60.0))
        ->default_str("1");
    top->add_option("--sort", options_.sort, "compute, memory or commands.")
        ->check(CLI::IsMember({"compute", "memory", "commands"}))
        ->default_str("compute");
  }
  void AddSession() {
    CLI::App* const session = app_.add_subcommand("session", "One session.");
    session->fallthrough();
    session->require_subcommand(1);
    Number(Command(session, "kill", "Ends a session and frees what it holds."));
    CLI::App* const limit = Command(session, "limit", "Changes how much a session may hold.");
    Number(limit);
    limit
        ->add_option("--memory", options_.memory,
                     "How much memory, such as 512MiB or 2GiB. What it holds already it keeps.")
        ->required()
        ->transform(CLI::AsSizeValue(true));
    CLI::App* const trace = Command(session, "trace", "Records what one session does.");
    Number(trace);
    Recording(trace);
  }
  void AddRun() {
    CLI::App* const run = app_.add_subcommand("run", "One run.");
    run->fallthrough();
    run->require_subcommand(1);
    for (CLI::App* command : {Command(run, "stop", "Ends a run after the step that it makes."),
                              Command(run, "pause", "Has a run wait after the step that it makes."),
                              Command(run, "resume", "Has a run that was paused go on.")}) {
      Number(command);
      command->add_option("NAME", options_.run, "The run's name, as runs lists it.")->required();
    }
  }
  void AddTrace() {
    CLI::App* const trace =
        Command("trace", "Records what sessions do, for Perfetto or chrome://tracing.");
    Recording(trace);
    trace->add_option("--session", options_.session, "Of this session only.");
    trace->add_option("--from", options_.from,
                      "A trace that chxctl has written, to --merge others with: nothing is "
                      "recorded.");
  }
  void AddRest() {
    Command("snapshot", "Has the state of all sessions written now.");
    CLI::App* const drain =
        Command("drain", "Lets no more sessions in, and tells clients that the daemon will end.");
    drain->add_flag("--wait", options_.wait, "Until there are no sessions any more.");
    drain->add_option("--timeout", options_.timeout, "Seconds to wait at most; 0: without end.")
        ->check(CLI::NonNegativeNumber)
        ->default_str("0");
    Command("completion", "Prints a script that completes chxctl's commands.")
        ->add_option("SHELL", options_.shell, "bash, zsh or fish.")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  }

  Options& options_;
  std::string output_ = "table";
  CLI::App app_{"chxctl: looks after a running chxd.", "chxctl"};
};

Parsed Finished(int exit_code, std::string text, std::string error = "") {
  Parsed parsed;
  parsed.done = true;
  parsed.exit_code = exit_code;
  parsed.text = std::move(text);
  parsed.error = std::move(error);
  return parsed;
}

}  // namespace

// CLI11 reports by exceptions; none leaves this function.
Parsed Parse(int argc, const char* const* argv) {
  Parsed parsed;
  Builder builder(&parsed.options);
  CLI::App& app = builder.app();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Finished(0, app.help());  // of the command that was named
  } catch (const CLI::CallForAllHelp&) {
    return Finished(0, app.help("", CLI::AppFormatMode::All));
  } catch (const CLI::CallForVersion& version) {
    return Finished(0, absl::StrCat(version.what(), "\n"));
  } catch (const CLI::Error& error) {
    return Finished(kUsage, "", absl::StrCat(error.what(), "\nchxctl --help lists the commands\n"));
  }
  builder.Finish();
  return parsed;
}

std::string CompletionScript(const std::string& shell) {
  Options options;
  Builder builder(&options);
  return Completion(builder.app(), shell);
}

}  // namespace chx::ctl
