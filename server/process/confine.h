// What a helper process gives up before it meets anybody.
#ifndef CHX_SERVER_PROCESS_CONFINE_H_
#define CHX_SERVER_PROCESS_CONFINE_H_

#include <cstddef>

namespace chx::server {

// For the calling process, for good: it dies with its parent, gains no rights, is no one's to trace
// and has `memory_bytes` beyond what it has now. Raises the limit of descriptors as far as is
// allowed, and returns it.
size_t ConfineProcess(size_t memory_bytes);

// Raises the soft limit of descriptors to the hard one; returns it.
size_t RaiseDescriptorLimit();

}  // namespace chx::server

#endif  // CHX_SERVER_PROCESS_CONFINE_H_
