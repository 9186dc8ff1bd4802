// Kernels of layers of neural networks: as register_kernels.h, for those whose loops are in
// layer_loops.h.
#ifndef CHX_SERVER_NATIVE_KERNELS_LAYERS_H_
#define CHX_SERVER_NATIVE_KERNELS_LAYERS_H_

#include "server/engine/kernel.h"

namespace chx::server::native {

void RegisterActivation(KernelTable& table);
void RegisterAttention(KernelTable& table);
void RegisterAttentionRope(KernelTable& table);
void RegisterNormalizationRows(KernelTable& table);

// All of them.
inline void RegisterLayers(KernelTable& table) {
  RegisterActivation(table);
  RegisterAttention(table);
  RegisterAttentionRope(table);
  RegisterNormalizationRows(table);
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_LAYERS_H_
