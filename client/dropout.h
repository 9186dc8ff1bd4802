// Dropout, whose random numbers are the session's.
#ifndef CHX_CLIENT_DROPOUT_H_
#define CHX_CLIENT_DROPOUT_H_

#include "client/array.h"

namespace chx {

// x with zeros in place of each element with probability p, and the others times 1 / (1 - p); for
// training. The same as Python's from the same seed. kDtype: x is not of floats; kValue: p is not
// in [0, 1].
Array dropout(const Array& x, double p = 0.5);

}  // namespace chx

#endif  // CHX_CLIENT_DROPOUT_H_
