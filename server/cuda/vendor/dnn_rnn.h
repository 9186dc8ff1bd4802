// Recurrent networks for cuDNN, in plain C++ as dnn.h.
#ifndef CHX_SERVER_CUDA_VENDOR_DNN_RNN_H_
#define CHX_SERVER_CUDA_VENDOR_DNN_RNN_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "ops/dtype.h"
#include "ops/rnn.h"
#include "ops/settings.h"

namespace chx::server::cuda {

// The operators rnn and rnn_grad (ops/rnn.h). Their conventions are cuDNN's:
// * Rows are packed as in CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, and sequences sorted.
// * The parts are its pseudo-layers: of each layer the direction forward, then the one backwards.
//   y has both side by side. A sequence that ends early leaves its state as it is then, and
//   backwards begins with its last step.
// * Weights are (hidden, width) in C order, with a bias for x and one for h. Its numbers 0, 1, ...
//   of linear layers are our gates for x, then those for h: an LSTM's input, forget, new-memory and
//   output gates are our i, f, a, o: c' = f c + i a, h' = o tanh(c'). A GRU's reset, update and
//   new-memory gates are our r, z and candidate: the update gate is what is kept of h, as in
//   h' = (1 - z) candidate + z h, and r is multiplied by W h + b, not by h before the product.
struct RnnCall {
  RnnNetwork network;  // with at least one step, of which each sequence is in
  Dtype dtype = Dtype::kFloat32;
  bool gradient = false;
  std::vector<int> lengths;         // of the sequences, longest first
  std::vector<const void*> inputs;  // those of rnn, dense
  // Gradients of y, hy and cy. For the gradient only, which runs the forward pass again: only the
  // library knows the size of the data that the forward pass keeps for the backward pass, so that
  // data cannot be an output of rnn, which clients infer.
  std::vector<const void*> output_grads;
  std::vector<void*> outputs;  // y, hy and cy; or the gradients of all inputs
};

// The call without its arrays. Nothing if cuDNN cannot compute it: arrays without elements,
// sequences without steps, and sizes beyond int.
absl::optional<RnnCall> PlanRnn(const RnnNetwork& network, Dtype dtype, bool gradient);

// The limit of a call's workspace: the setting or, if that is more, the size of the gates, which
// the composition would keep instead.
int64_t RnnWorkspaceLimit(const RnnCall& call, const Settings& settings);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_DNN_RNN_H_
