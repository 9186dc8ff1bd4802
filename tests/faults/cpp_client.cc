// A C++ client of the fault harness: CPP_CLIENT ADDRESS SECONDS SEED [TOKEN [ROOTS]]. Increments,
// float operations and uploads against local copies, compared to the last bit. Prints what it did,
// and a line for each session that it lost; exits 1 if a value was wrong.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "client/ops.h"
#include "client/session.h"

namespace chx {
namespace {

using Clock = std::chrono::steady_clock;

struct Counts {
  int64_t calls = 0;
  int64_t reads = 0;
  int64_t sessions = 0;
  int64_t lost = 0;
  int64_t refused = 0;
  int64_t failed_transfers = 0;
  int64_t not_closed = 0;
  int64_t wrong = 0;
  double longest_wait = 0;
  Clock::time_point heard;  // when the daemon answered last
};

// One session's arrays and what they should hold.
class Client {
 public:
  Client(Ref<Session> session, uint64_t seed, Counts* counts)
      : session_(std::move(session)), random_(seed), counts_(counts) {
    number_ = zeros(*session_, {3}, Dtype::kInt64);
    chain_ = zeros(*session_, {kElements}, Dtype::kFloat32);
    local_chain_.assign(kElements, 0.0f);
  }

  // Calls and reads until `end` or the session's end: false if that came first.
  bool Run(Clock::time_point end) {
    while (Clock::now() < end) {
      for (uint64_t n = random_() % 50; n > 0; --n) {
        if (!Call()) return false;
      }
      if (!Read()) return false;
    }
    // Where each try is cut, the session ends by its lease.
    if (!session_->Close().ok()) ++counts_->not_closed;
    return true;
  }

 private:
  static constexpr int64_t kElements = 40000;

  bool Call() {
    ++counts_->calls;
    if (random_() % 200 == 0) {
      for (float& value : local_upload_) value = static_cast<float>(random_() % 1000) / 7;
      const Array fresh =
          Array::FromHost(*session_, local_upload_.data(), {kElements}, Dtype::kFloat32);
      if (!fresh.ok()) {
        if (!session_->Synchronize().ok()) return false;
        ++counts_->failed_transfers;
        return true;
      }
      chain_ = fresh;
      local_chain_ = local_upload_;
      return true;
    }
    if (random_() % 2 == 0) {
      const int step = static_cast<int>(random_() % 7);
      local_number_ += step;
      return (number_ += step).ok();
    }
    const double term = static_cast<double>(random_() % 100) / 16;
    for (float& value : local_chain_) {
      value *= 0.75f;
      value += static_cast<float>(term);
    }
    return (chain_ *= 0.75).ok() && (chain_ += term).ok();
  }

  bool Read() {
    ++counts_->reads;
    const Clock::time_point start = Clock::now();
    int64_t numbers[3] = {};
    absl::Status status = number_.CopyTo(numbers, sizeof(numbers));
    if (!status.ok()) return false;
    for (int64_t number : numbers) Compare(number == local_number_, "increments");
    if (random_() % 5 == 0) {
      std::vector<float> chain(kElements);
      status = chain_.CopyTo(chain.data(), kElements * sizeof(float));
      if (status.ok()) {
        Compare(std::memcmp(chain.data(), local_chain_.data(), kElements * sizeof(float)) == 0,
                "float operations");
      } else {
        if (!session_->Synchronize().ok()) return false;
        ++counts_->failed_transfers;
      }
    }
    counts_->heard = Clock::now();
    const std::chrono::duration<double> waited = counts_->heard - start;
    counts_->longest_wait = std::max(counts_->longest_wait, waited.count());
    return true;
  }

  void Compare(bool equal, const char* what) {
    if (equal) return;
    ++counts_->wrong;
    std::cout << "wrong: " << what << std::endl;
  }

  Ref<Session> session_;
  std::mt19937_64 random_;
  Counts* counts_;
  Array number_;
  Array chain_;
  int64_t local_number_ = 0;
  std::vector<float> local_chain_;
  std::vector<float> local_upload_ = std::vector<float>(kElements);
};

int Main(int argc, char** argv) {
  if (argc < 4) return 2;
  ConnectOptions options;
  options.client_name = "faults in C++";
  if (argc > 4) options.token = argv[4];
  if (argc > 5) {
    std::ostringstream text;
    text << std::ifstream(argv[5]).rdbuf();
    options.tls_roots = text.str();
  }
  const auto end =
      Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(1000 * std::atof(argv[2])));
  uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  Counts counts;
  while (Clock::now() < end) {
    absl::StatusOr<Ref<Session>> session = Session::Connect(argv[1], options);
    if (!session.ok()) {
      ++counts.refused;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    ++counts.sessions;
    counts.heard = Clock::now();
    if (Client(*session, seed++, &counts).Run(end)) continue;
    ++counts.lost;
    const std::chrono::duration<double> silence = Clock::now() - counts.heard;
    std::cout << "lost after " << silence.count() << " s: " << (*session)->connection().status()
              << std::endl;
  }
  std::cout << "calls " << counts.calls << " reads " << counts.reads << " sessions "
            << counts.sessions << " lost " << counts.lost << " refused " << counts.refused
            << " failed_transfers " << counts.failed_transfers << " not_closed "
            << counts.not_closed << " wrong " << counts.wrong << " longest_wait "
            << counts.longest_wait << std::endl;
  return counts.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace chx

int main(int argc, char** argv) { return chx::Main(argc, argv); }
