// A CUDA runtime in host memory, for tests of server/cuda/runtime without a GPU: it has the
// functions that are called there, does everything at once, and fails when a test asks it to.
#ifndef CHX_SERVER_CUDA_TESTING_FAKE_CUDA_H_
#define CHX_SERVER_CUDA_TESTING_FAKE_CUDA_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace chx::server::cuda {

// A number that several threads use.
template <typename T>
class FakeNumber {
 public:
  FakeNumber(T value = {}) : value_(value) {}  // NOLINT(google-explicit-constructor)
  FakeNumber(const FakeNumber& other) : value_(other) {}
  FakeNumber& operator=(const FakeNumber& other) {
    value_ = static_cast<T>(other);
    return *this;
  }
  operator T() const { return value_; }  // NOLINT(google-explicit-constructor)
  T operator++() { return ++value_; }
  T operator--() { return --value_; }
  T operator+=(T more) { return value_ += more; }
  T operator-=(T less) { return value_ -= less; }

 private:
  std::atomic<T> value_;
};

// The state of the one fake runtime. Thread-safe, but for ResetFakeCuda.
struct FakeCuda {
  FakeNumber<int> devices = 2;
  FakeNumber<int> compute_capability = 9;  // the major number
  FakeNumber<int64_t> memory = int64_t{1} << 30;
  FakeNumber<bool> one_gpu =
      false;  // all devices are one, to whoever asks for its PCI bus's number

  FakeNumber<cudaError_t> lasting = cudaSuccess;  // what each call returns from now on
  FakeNumber<cudaError_t> next = cudaSuccess;     // what the next copy returns

  FakeNumber<uint64_t> release_threshold = 0;  // of the pool that was made last
  FakeNumber<int64_t> used = 0;                // by pools
  FakeNumber<int64_t> kept = 0;                // freed, and not given back
  FakeNumber<int64_t> outside = 0;             // what libraries have allocated
  FakeNumber<int> priority_of_fills = 0;       // of the stream of the last fill
  FakeNumber<int> destroyed = 0;               // streams and events
  FakeNumber<int> events = 0;                  // that there are
  FakeNumber<int> marks = 0;                   // events that were recorded
  FakeNumber<int64_t> mark_micros = 0;         // what the device works before each of them
  FakeNumber<int> captures = 0;                // of streams that are captured now
  FakeNumber<int> graphs = 0;                  // that can be launched
  FakeNumber<int> graph_launches = 0;
  FakeNumber<cudaError_t> next_capture = cudaSuccess;  // what the end of the next one returns
  FakeNumber<int> not_ready = 0;                       // so many queries of events find them ahead
  FakeNumber<int> priority_of_streams = 0;             // of the stream that was made last
  FakeNumber<int> orders = 0;                          // cudaStreamWaitEvent, of another stream
  FakeNumber<int> peer_copies = 0;
};

FakeCuda& TheFakeCuda();
// As at first.
void ResetFakeCuda();

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_TESTING_FAKE_CUDA_H_
