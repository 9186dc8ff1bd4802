// STORM ADDRESS COMMANDS [SEED]: random commands by tests/fuzz/generator.h to a chxd that runs,
// over its socket, in session after session. Beside them an innocent session counts. Prints what
// was sent; exits 1 if a session ends that should not, or the count is wrong.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/ops.h"
#include "client/session.h"
#include "ops/registry.h"
#include "proto/command_codec.h"
#include "tests/fuzz/command_counts.h"
#include "tests/fuzz/generator.h"

namespace chx {
namespace {

constexpr size_t kBatchBytes = 256 << 10;
constexpr uint32_t kBatchCommands = 500;
constexpr uint64_t kBarrier = uint64_t{1} << 40;  // beyond the generator's numbers of requests

// One fuzzed session, used by one thread.
class Storm {
 public:
  explicit Storm(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {
    for (const Command& command : InitialArrays()) Write(command);
  }

  // OK until the session ends, or does not answer.
  absl::Status Run(CommandGenerator* generator, CommandCounts* counts) {
    Command command;
    while (generator->Next(&command)) {
      if (TakesLong(command)) continue;
      counts->Add(command);
      Write(command);
      if (batch_.size() < kBatchBytes && commands_ < kBatchCommands) continue;
      CHX_RETURN_IF_ERROR(Flush());
    }
    return Flush();
  }
  int64_t errors() const { return errors_; }
  absl::Status Close() { return connection_->Close(); }

 private:
  void Write(Command command) {
    if (auto* const apply = std::get_if<command::ApplyOp>(&command)) {
      apply->op = connection_->WireId(OpRegistry::Global().at(static_cast<OpId>(apply->op - 1)));
    }
    CommandWriter(&batch_).Write(command);
    ++commands_;
  }

  absl::Status Flush() {
    CommandWriter(&batch_).Write(command::Barrier{++barrier_});
    ++commands_;
    CHX_RETURN_IF_ERROR(connection_->Send([this](std::string* commands) {
      commands->swap(batch_);
      return std::exchange(commands_, 0);
    }));
    batch_.clear();
    const absl::Status answered = connection_->WaitFor(barrier_).status();
    errors_ += static_cast<int64_t>(connection_->TakeErrors().size());
    return answered;
  }

  const std::unique_ptr<Connection> connection_;
  std::string batch_;
  uint32_t commands_ = 0;
  uint64_t barrier_ = kBarrier;
  int64_t errors_ = 0;
};

int Main(int argc, char** argv) {
  if (argc < 3) return 2;
  const uint64_t wanted = std::strtoull(argv[2], nullptr, 10);
  uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device()();
  std::cout << "seed " << seed << std::endl;
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Ref<Session>> innocent = Session::Connect(argv[1]);
  if (!innocent.ok()) {
    std::cerr << innocent.status() << std::endl;
    return 1;
  }
  Array count = zeros(**innocent, {}, Dtype::kInt64);
  CommandCounts counts;
  int64_t sessions = 0;
  int64_t errors = 0;
  while (counts.total() < wanted) {
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(1 << (8 + random() % 10));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    Choices choices(bytes.data(), bytes.size());
    CommandGenerator generator(&choices);
    absl::StatusOr<std::unique_ptr<Connection>> connection = Connection::Open(argv[1], {});
    absl::Status status = connection.status();
    if (status.ok()) {
      Storm storm(*std::move(connection));
      status = storm.Run(&generator, &counts);
      errors += storm.errors();
      // Some go without a word.
      if (status.ok() && random() % 4 != 0) status = storm.Close();
    }
    ++sessions;
    const absl::Status counted = count += 1;
    const absl::StatusOr<double> total = count.Item();
    if (!status.ok() || !counted.ok() || !total.ok() || *total != static_cast<double>(sessions)) {
      std::cerr << "at seed " << seed << ": " << status << ", " << counted << ", " << total.status()
                << ", " << total.value_or(-1) << " of " << sessions << std::endl;
      return 1;
    }
    ++seed;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << sessions << " sessions, " << errors << " errors reported, " << seconds.count()
            << " s\n"
            << counts.ToString() << std::flush;
  return 0;
}

}  // namespace
}  // namespace chx

int main(int argc, char** argv) { return chx::Main(argc, argv); }
