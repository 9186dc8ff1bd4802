// ChainerX's C++ API on a daemon: include this header in place of ChainerX's own.
//
//   #include "chx/chainerx.h"
//
//   chainerx::Context context{"unix:/run/chxd/chxd.sock"};
//   chainerx::SetDefaultContext(&context);
//   chainerx::Array x = chainerx::Ones({2, 3}, chainerx::Dtype::kFloat32);
//
// Names, arguments and exceptions are those of ChainerX 7.8.1; docs/chainerx.md lists what differs.
// These headers declare nothing in namespace chx, so that a program may name `chainerx` so.
#ifndef CHX_CHAINERX_H_
#define CHX_CHAINERX_H_

#include "chx/chainerx/array.h"
#include "chx/chainerx/array_operators.h"
#include "chx/chainerx/backprop.h"
#include "chx/chainerx/check_backward.h"
#include "chx/chainerx/context.h"
#include "chx/chainerx/creation.h"
#include "chx/chainerx/dtype.h"
#include "chx/chainerx/error.h"
#include "chx/chainerx/operators.h"
#include "chx/chainerx/routines.h"
#include "chx/chainerx/scalar.h"
#include "chx/chainerx/shape.h"
#include "chx/chainerx/slice.h"

#endif  // CHX_CHAINERX_H_
