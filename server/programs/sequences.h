// Runs of a plan's steps that a device repeats as one (Stream::Capture): CUDA graphs.
#ifndef CHX_SERVER_PROGRAMS_SEQUENCES_H_
#define CHX_SERVER_PROGRAMS_SEQUENCES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/engine/executor.h"

namespace chx::server {

// A sequence has the addresses of its kernels' arrays, and the numbers that they were given. They
// are usually the same ones in each run, or again soon: there are sequences for some sets of them,
// made when a set is seen for the second time.
class Sequences {
 public:
  // Steps [begin, end) of the plan, whose kernels are on one device, do not wait for it, and do the
  // same in each run, with arrays that are usually where they were.
  struct Part {
    size_t begin = 0;
    size_t end = 0;
    DeviceId device = 0;
    std::vector<OpId> kernels;
  };
  static constexpr size_t kLeastKernels = 2;  // of a part that is worth it
  static constexpr size_t kMostSets = 4;
  static constexpr int kMostCaptures = 64;  // of a plan: each takes as long as some runs

  void Add(Part part) { parts_.push_back(std::move(part)); }

  // Before a run with these addresses, and numbers that kernels of parts are given. Whether all
  // parts may run as one now.
  bool Start(const Executor& executor, const std::vector<char*>& addresses,
             absl::Span<const int64_t> numbers);
  // The part that begins with a step and may run as one now; null: there is none.
  const Part* At(size_t step) const;
  // Runs it: again as one, or by run(). False: neither, and nothing has been done.
  absl::StatusOr<bool> Run(Executor& executor, const Part& part,
                           absl::FunctionRef<absl::Status()> run);
  bool empty() const { return parts_.empty(); }
  // Of all parts.
  size_t steps() const;
  // How many runs of parts were repetitions.
  int64_t repeats() const { return repeats_; }

 private:
  struct Set {
    std::vector<char*> addresses;
    std::vector<int64_t> numbers;
    uint64_t configured = 0;                           // Executor::configured
    uint64_t used = 0;                                 // when, by runs
    bool again = false;                                // it has been seen before
    std::vector<std::unique_ptr<Sequence>> sequences;  // by part; null: not yet
  };

  std::vector<Part> parts_;
  std::vector<Set> sets_;
  Set* now_ = nullptr;
  uint64_t runs_ = 0;
  int captures_ = 0;
  int64_t repeats_ = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_SEQUENCES_H_
