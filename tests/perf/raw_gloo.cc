// A rank of Gloo's own: what all_reduce between daemons is compared with.
//   raw_gloo RANK SIZE FOLDER; then lines "ELEMENTS CALLS", each answered by seconds.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

namespace {

void AllReduce(const std::shared_ptr<gloo::Context>& context, std::vector<float>* in,
               std::vector<float>* out) {
  gloo::AllreduceOptions options(context);
  options.setInput(in->data(), in->size());
  options.setOutput(out->data(), out->size());
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int rank = std::atoi(argv[1]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, std::atoi(argv[2]));
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  gloo::rendezvous::FileStore store(argv[3]);
  context->connectFullMesh(store, device);
  std::cout << "ready" << std::endl;
  size_t elements = 0;
  int calls = 0;
  while (std::cin >> elements >> calls) {
    std::vector<float> in(elements, static_cast<float>(rank));
    std::vector<float> out(elements);
    std::vector<float> one(1);
    std::vector<float> all(1);
    AllReduce(context, &one, &all);  // all of them begin
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) AllReduce(context, &in, &out);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::cout << taken.count() << std::endl;
  }
  return 0;
}
