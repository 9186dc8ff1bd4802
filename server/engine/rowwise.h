// Kernels of reductions that may be called on parts of arrays, for the same results.
#ifndef CHX_SERVER_ENGINE_ROWWISE_H_
#define CHX_SERVER_ENGINE_ROWWISE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/engine/kernel.h"

namespace chx::server {

// Of a call with these operands: how many leading dimensions inputs and outputs have in common
// whose indices ("rows") the kernel goes through one by one; 0: none.
using RowDims = int (*)(const OpDef& op, absl::Span<const KernelTensor> inputs,
                        absl::Span<const KernelTensor> outputs, absl::Span<const AttrValue> attrs);

// Whether the indices of dimensions [begin, end) are `step` bytes apart, in C order.
bool AreApart(const KernelTensor& tensor, int begin, int end, int64_t step);

// How a call reduces the first dimensions of an array, whose indices are "rows" that follow one
// another in C order, at one distance. Each row is of `width` dense elements, and so are the
// results. The rows are in parts, which are almost equal: part i has those from rows * i / parts
// on. Each is gathered in states of its own, one for each result, in order, by whole pieces but for
// its end; then the states are combined, in order.
struct Folding {
  int64_t parts = 0;  // 0: the call does something else
  int row_dims = 0;   // leading dimensions that are reduced
  int64_t width = 1;
  int64_t piece = 1;  // rows
  int64_t state_bytes = 0;
  // Functions of `n` states; `first`: the position of the first row; `stride`: from one to the
  // next.
  void (*init)(void* states, int64_t n) = nullptr;
  // If the width is 1: of n rows. Else, of `rows` rows:
  void (*gather)(const char* x, int64_t stride, int64_t n, int64_t first, void* state) = nullptr;
  void (*gather_rows)(const char* x, int64_t stride, int64_t rows, int64_t n, int64_t first,
                      void* states) = nullptr;
  void (*combine)(void* states, const void* others, int64_t n) = nullptr;
  void (*finish)(const void* states, int64_t n, char* out) = nullptr;
};
using FindFolding = Folding (*)(const OpDef& op, absl::Span<const KernelTensor> inputs,
                                absl::Span<const KernelTensor> outputs,
                                absl::Span<const AttrValue> attrs);

// What a kernel promises: calls may also be on some of the rows of their operands, by several
// threads of the stream's at once (Stream::RunBlocks), with dimensions of size 1 before the others.
// It needs no scratch memory for them, and does not fail because of values.
struct Rowwise {
  RowDims row_dims = nullptr;     // null: there are never any
  FindFolding folding = nullptr;  // null: it is never one
};

// Of the kernel itself, whichever table it is in. Thread-safe; a kernel promises the same each
// time.
void PromiseRowwise(Kernel kernel, const Rowwise& promise);
Rowwise FindRowwise(Kernel kernel);

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_ROWWISE_H_
