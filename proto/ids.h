// The numbers by which clients and sessions name things.
#ifndef CHX_PROTO_IDS_H_
#define CHX_PROTO_IDS_H_

#include <cstdint>

namespace chx {

// An array, or the error in its place. Chosen by the client, never 0, never used twice in a
// session.
using Handle = uint64_t;
// A graph. 0 is the default graph; command::NewBackpropId makes the others.
using BackpropId = uint32_t;

}  // namespace chx

#endif  // CHX_PROTO_IDS_H_
