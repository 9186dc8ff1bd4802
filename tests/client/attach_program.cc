// attach_program ADDRESS SESSION RUN: attaches to a run that another process has started, with the
// arrays of its session that are saved as "model", and stops it. For attach_test.py, which reads
// what it prints: a line for each state, each fetch of the arrays and each event.
#include <cstdio>
#include <string>
#include <vector>

#include "client/run.h"
#include "client/saved_arrays.h"
#include "client/session.h"

namespace chx {
namespace {

constexpr int kFetches = 200;

absl::Status PrintArrays(const char* what, absl::Span<const Array> arrays) {
  std::printf("%s", what);
  for (const Array& array : arrays) {
    std::vector<float> values(static_cast<size_t>(array.spec().size()));
    CHX_RETURN_IF_ERROR(array.CopyTo(values.data(), values.size() * sizeof(float)));
    for (float value : values) std::printf(" %.9g", static_cast<double>(value));
  }
  std::printf("\n");
  return absl::OkStatus();
}

absl::Status PrintState(const Run& run) {
  CHX_ASSIGN_OR_RETURN(const Run::State state, run.state());
  CHX_ASSIGN_OR_RETURN(const int64_t step, run.step());
  std::printf("state %d %lld\n", static_cast<int>(state), static_cast<long long>(step));
  return absl::OkStatus();
}

void Print(const Run::Event& event) {
  std::printf("event %llu %d %lld %.17g %.17g", static_cast<unsigned long long>(event.number),
              static_cast<int>(event.kind), static_cast<long long>(event.step), event.epoch,
              event.unix_time);
  for (const auto& [name, value] : event.metrics) std::printf(" %s=%.17g", name.c_str(), value);
  std::printf(" %s\n", event.reason.c_str());
}

absl::Status Main(const std::string& address, const std::string& name,
                  const std::string& run_name) {
  ConnectOptions options;
  options.session = name;
  CHX_ASSIGN_OR_RETURN(const Ref<Session> session, Session::Connect(address, options));
  CHX_ASSIGN_OR_RETURN(Run run, AttachRun(*session, run_name));
  CHX_ASSIGN_OR_RETURN(const SavedArrays::Tree saved, session->saved().Load("model"));
  const std::vector<Array> model(saved.arrays.begin(), saved.arrays.end());
  CHX_RETURN_IF_ERROR(PrintState(run));
  RunEvents events(run);
  Run::Event event;
  while (event.kind != Run::Event::Kind::kLog) {  // it goes on
    CHX_RETURN_IF_ERROR(events.Next(&event).status());
    Print(event);
  }
  for (int i = 0; i < kFetches; ++i) {
    CHX_ASSIGN_OR_RETURN(const std::vector<Array> weights, run.Weights(model));
    CHX_RETURN_IF_ERROR(PrintArrays("weights", weights));
  }
  CHX_RETURN_IF_ERROR(run.Pause());
  CHX_RETURN_IF_ERROR(PrintState(run));
  CHX_RETURN_IF_ERROR(PrintArrays("paused", model));
  CHX_RETURN_IF_ERROR(run.Resume());
  CHX_RETURN_IF_ERROR(run.Stop());
  for (;;) {
    CHX_ASSIGN_OR_RETURN(const bool more, events.Next(&event));
    if (!more) break;
    Print(event);
  }
  CHX_RETURN_IF_ERROR(PrintState(run));
  return PrintArrays("stopped", model);
}

}  // namespace
}  // namespace chx

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const absl::Status status = chx::Main(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
