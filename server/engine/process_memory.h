// What this process holds.
#ifndef CHX_SERVER_ENGINE_PROCESS_MEMORY_H_
#define CHX_SERVER_ENGINE_PROCESS_MEMORY_H_

#include <cstdint>

namespace chx::server {

// Memory in use that the kernel cannot take back: heap, stacks and shared memory, but not pages of
// files, as those of programs and of a SpillFolder are. 0 if the system does not say.
int64_t HeldProcessBytes();

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_PROCESS_MEMORY_H_
