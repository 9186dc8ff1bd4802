// What a call costs its caller: inference, mirror and record; the wire is somebody else's thread.
#include <benchmark/benchmark.h>

#include <utility>

#include "client/ops.h"
#include "client/testing/fake_daemon.h"

namespace chx {
namespace {

void Enqueue(benchmark::State& state, bool connected) {
  FakeDaemon daemon;
  daemon.keep = false;
  const Ref<Session> session = *Session::Connect(daemon.address());
  Array x = zeros(*session, {32, 32});
  const Array y = zeros(*session, {32, 32});
  if (connected) x.RequireGrad();
  for (auto _ : state) {
    const Array z = x + y;
    benchmark::DoNotOptimize(z.body().get());
  }
  state.SetItemsProcessed(state.iterations());
}

void BM_Add(benchmark::State& state) { Enqueue(state, false); }
void BM_AddInGraph(benchmark::State& state) { Enqueue(state, true); }
BENCHMARK(BM_Add);
BENCHMARK(BM_AddInGraph);

void BM_Item(benchmark::State& state) {
  FakeDaemon daemon;
  daemon.keep = false;
  const Ref<Session> session = *Session::Connect(daemon.address());
  const Array x = zeros(*session, {});
  for (auto _ : state) benchmark::DoNotOptimize(x.Item());
}
BENCHMARK(BM_Item)->UseRealTime();

}  // namespace
}  // namespace chx

BENCHMARK_MAIN();
