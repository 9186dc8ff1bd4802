// The steps of a run, one after the other, as a client of its session's.
#ifndef CHX_SERVER_RUNS_RUN_LOOP_H_
#define CHX_SERVER_RUNS_RUN_LOOP_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/runs/run.h"
#include "server/session/session.h"

namespace chx::server {

// What a thread and its stack may take, and the records of the run.
inline constexpr int64_t kRunBytes = int64_t{192} << 10;

// Used by one thread at a time.
class RunLoop {
 public:
  // Takes from the session what the run needs, whatever becomes of the client's handles; an error
  // if that does not fit.
  static absl::StatusOr<std::unique_ptr<RunLoop>> Make(const std::shared_ptr<Session>& session,
                                                       RunSpec spec);
  // Gives it back, if Work has not.
  ~RunLoop();
  RunLoop(const RunLoop&) = delete;

  const std::shared_ptr<Run>& run() const { return run_; }
  // Runs to the end. Fails in no other way than by the run's last event.
  void Work();

 private:
  // A program with its data, under handles of the run's.
  struct Part {
    const RunCalls* calls = nullptr;
    uint64_t program = 0;
    int64_t rows = 0;
    size_t slots = 0;
    size_t outputs = 0;
    DeviceId device = 0;
    Handles data;
    Handles batch;   // minibatches
    Handles values;  // of the metrics
    Handle index = 0;
  };
  // Why the run ends.
  struct Ending {
    std::string reason;
    std::string text;
  };
  // The means of metrics, so far.
  struct Sums {
    std::vector<double> sums;
    int64_t count = 0;

    void Add(const std::vector<double>& values);
    std::vector<double> Take();
  };
  // What an evaluation's metric has come to.
  struct Best {
    bool any = false;
    double value = 0;
    int64_t since = 0;  // evaluations
  };

  RunLoop(std::shared_ptr<Session> session, RunSpec spec);
  // Under the session's lock.
  absl::Status Take(SessionState* state);
  absl::Status TakePart(const RunCalls& calls, SessionState* state, Part* part);
  absl::Status TakeValues(SessionState* state);
  absl::Status TakeFirst(SessionState* state);
  void GiveBack(SessionState* state);
  void GiveBackAll();

  // Waits while it is paused. False: *ending says why it goes on no more.
  bool MayGoOn(Ending* ending);
  bool Ended(Ending* ending) const;
  Ending WhyFailed(const absl::Status& status) const;
  // Calls the program with these rows.
  absl::Status Call(const Part& part, absl::Span<const int64_t> rows,
                    absl::Span<const int64_t> values, std::vector<double>* metrics);
  absl::Status ReadValues(const Part& part, std::vector<double>* metrics) const;
  absl::Span<const int64_t> RowsOf(int64_t step);
  // One more step, and what follows from it. False: as above.
  bool Step(Ending* ending);
  bool AfterStep(const std::vector<double>& metrics, Ending* ending);
  bool Evaluate(Ending* ending);
  // A rule that ends the run.
  bool BreaksRule(bool of_evaluation, const std::vector<double>& metrics, Ending* ending);
  Ending RunSteps();

  const std::shared_ptr<Session> session_;
  std::shared_ptr<Run> run_;
  const RunSpec* spec_ = nullptr;  // the run's
  RunSpec asked_;                  // until there is a run
  bool holds_ = false;
  MemoryCharge charge_;  // of the run, and what follows
  MemoryCharge values_charge_;
  Part step_part_;
  Part evaluation_part_;
  std::vector<int64_t> values_;
  std::vector<int64_t> order_;
  int64_t order_epoch_ = -1;
  std::vector<int64_t> rows_;
  std::vector<double> first_;
  int64_t step_ = 0;
  Sums log_;
  std::vector<Best> best_;  // by rule
  std::chrono::steady_clock::time_point until_;
  std::vector<Command> window_;
  SessionOutput output_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RUNS_RUN_LOOP_H_
