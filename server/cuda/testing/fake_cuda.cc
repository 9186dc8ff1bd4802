#include "server/cuda/testing/fake_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "server/cuda/runtime/probe.h"

namespace chx::server::cuda {
namespace {

// Of pools, with their sizes.
struct FakeBlocks {
  std::mutex mutex;
  std::map<void*, int64_t> sizes;

  void Add(void* memory, int64_t size) {
    const std::lock_guard<std::mutex> lock(mutex);
    sizes[memory] = size;
  }
  // -1: there is none.
  int64_t Take(void* memory) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = sizes.find(memory);
    if (found == sizes.end()) return -1;
    const int64_t size = found->second;
    sizes.erase(found);
    return size;
  }
};
FakeBlocks& Blocks() {
  static auto* const blocks = new FakeBlocks;
  return *blocks;
}

thread_local cudaError_t last = cudaSuccess;

// What a call returns that would have succeeded.
cudaError_t Return(cudaError_t error = cudaSuccess) {
  if (TheFakeCuda().lasting != cudaSuccess) error = TheFakeCuda().lasting;
  if (error != cudaSuccess) last = error;
  return error;
}

cudaError_t ReturnOfCopy() {
  const cudaError_t error = TheFakeCuda().next;
  TheFakeCuda().next = cudaSuccess;
  return Return(error);
}

struct FakeStream {
  int priority = 0;
};
struct FakeEvent {
  int64_t micros = 0;
  cudaStream_t stream = nullptr;  // of the last record
};
FakeNumber<int64_t> micros;  // that the device has worked

cudaError_t NewStream(cudaStream_t* stream, int priority) {
  *stream = reinterpret_cast<cudaStream_t>(new FakeStream{priority});
  TheFakeCuda().priority_of_streams = priority;
  return Return();
}

}  // namespace

FakeCuda& TheFakeCuda() {
  static auto* const fake = new FakeCuda;
  return *fake;
}

void ResetFakeCuda() {
  TheFakeCuda() = FakeCuda();
  last = cudaSuccess;
}

cudaError_t ProbeKernels() { return Return(); }

}  // namespace chx::server::cuda

using chx::server::cuda::Blocks;
using chx::server::cuda::FakeEvent;
using chx::server::cuda::FakeStream;
using chx::server::cuda::NewStream;
using chx::server::cuda::Return;
using chx::server::cuda::ReturnOfCopy;
using chx::server::cuda::TheFakeCuda;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return Return();
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = TheFakeCuda().devices;
  return Return();
}
cudaError_t cudaSetDevice(int) { return Return(); }
cudaError_t cudaGetLastError() {
  const cudaError_t error = chx::server::cuda::last;
  chx::server::cuda::last = TheFakeCuda().lasting;
  return error;
}
const char* cudaGetErrorString(cudaError_t) { return "a fake error"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorFake"; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value =
      attribute == cudaDevAttrComputeCapabilityMajor ? int{TheFakeCuda().compute_capability} : 1;
  return Return();
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
  std::snprintf(id, static_cast<size_t>(size), "0000:%02x:00.0",
                TheFakeCuda().one_gpu ? 0 : device);
  return Return();
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return Return();
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return Return();
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = static_cast<size_t>(TheFakeCuda().memory);
  return Return();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return NewStream(stream, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  return NewStream(stream, priority);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<FakeStream*>(stream);
  ++TheFakeCuda().destroyed;
  return Return();
}
cudaError_t cudaStreamQuery(cudaStream_t) { return Return(); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return Return(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const cudaStream_t other = reinterpret_cast<FakeEvent*>(event)->stream;
  if (other != nullptr && other != stream) ++TheFakeCuda().orders;
  return Return();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent);
  ++TheFakeCuda().events;
  return Return();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<FakeEvent*>(event);
  ++TheFakeCuda().destroyed;
  --TheFakeCuda().events;
  return Return();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  reinterpret_cast<FakeEvent*>(event)->stream = stream;
  ++TheFakeCuda().marks;
  chx::server::cuda::micros += TheFakeCuda().mark_micros;
  reinterpret_cast<FakeEvent*>(event)->micros = chx::server::cuda::micros;
  return Return();
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  if (TheFakeCuda().not_ready == 0) return Return();
  --TheFakeCuda().not_ready;
  return Return(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = 1e-3F * static_cast<float>(reinterpret_cast<FakeEvent*>(to)->micros -
                                             reinterpret_cast<FakeEvent*>(from)->micros);
  return Return();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  ++TheFakeCuda().captures;
  return Return();
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  --TheFakeCuda().captures;
  const cudaError_t error = TheFakeCuda().next_capture;
  TheFakeCuda().next_capture = cudaSuccess;
  *graph = error == cudaSuccess ? reinterpret_cast<cudaGraph_t>(new char) : nullptr;
  return Return(error);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t,
                                 unsigned long long) {  // NOLINT
  *exec = reinterpret_cast<cudaGraphExec_t>(new char);
  ++TheFakeCuda().graphs;
  return Return();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<char*>(graph);
  return Return();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete reinterpret_cast<char*>(exec);
  --TheFakeCuda().graphs;
  return Return();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  ++TheFakeCuda().graph_launches;
  return Return();
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  return Return();
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return Return(); }
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return Return(); }
cudaError_t cudaHostUnregister(void*) { return Return(); }
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return Return();
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = reinterpret_cast<cudaMemPool_t>(new char);
  return Return();
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete reinterpret_cast<char*>(pool);
  return Return();
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  TheFakeCuda().release_threshold = *static_cast<uint64_t*>(value);
  return Return();
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
  return Return();
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) {
  TheFakeCuda().kept = 0;
  return Return();
}
cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t, cudaStream_t) {
  auto& fake = TheFakeCuda();
  const auto size = static_cast<int64_t>(bytes);
  if (fake.used + size + fake.outside > fake.memory) return Return(cudaErrorMemoryAllocation);
  *memory = std::malloc(bytes);
  Blocks().Add(*memory, size);
  fake.used += size;
  fake.kept = fake.kept > size ? fake.kept - size : int64_t{0};
  return Return();
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  const int64_t size = Blocks().Take(memory);
  if (size < 0) return Return(cudaErrorInvalidValue);
  TheFakeCuda().used -= size;
  TheFakeCuda().kept += size;
  std::free(memory);
  return Return();
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  TheFakeCuda().priority_of_fills = reinterpret_cast<FakeStream*>(stream)->priority;
  std::memset(memory, value, bytes);
  return Return();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  const cudaError_t error = ReturnOfCopy();
  if (error == cudaSuccess) std::memcpy(to, from, bytes);
  return error;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t) {
  if (to_device == from_device) return Return(cudaErrorInvalidValue);
  ++TheFakeCuda().peer_copies;
  std::memcpy(to, from, bytes);
  return ReturnOfCopy();
}

}  // extern "C"
