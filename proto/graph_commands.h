// Commands on graphs and gradients.
#ifndef CHX_PROTO_GRAPH_COMMANDS_H_
#define CHX_PROTO_GRAPH_COMMANDS_H_

#include <cstddef>
#include <cstdint>

#include "ops/array_spec.h"
#include "proto/command_fields.h"
#include "proto/ids.h"

namespace chx::command {

struct RequireGrad {
  Handle handle = 0;
  BackpropId backprop_id = 0;
  CHX_COMMAND("require_grad", handle, backprop_id)
};

// Adds the gradients of `outputs` to those of the leaves below. An output starts from the gradient
// that it has, else from ones.
struct Backward {
  // Not 0: the backward pass may call functions of the client. It is answered by a PassState, and
  // this is the pass's number.
  uint64_t request_id = 0;
  BackpropId backprop_id = 0;
  uint16_t mode = 0;
  uint32_t location = 0;
  bool enable_double_backprop = false;
  double loss_scale = 1.0;
  Handles outputs;
  CHX_COMMAND("backward", request_id, backprop_id, mode, location, enable_double_backprop,
              loss_scale, outputs)
};

// results = d(outputs)/d(inputs); where there is none, the result is an error value.
struct Grad {
  uint64_t request_id = 0;  // as Backward's
  BackpropId backprop_id = 0;
  uint16_t mode = 0;
  uint32_t location = 0;
  bool enable_double_backprop = false;
  bool retain_grad = false;  // arrays on the way keep their gradients, too
  double loss_scale = 1.0;
  Handles outputs;
  Handles inputs;
  Handles output_grads;  // 0: ones
  Handles results;
  CHX_COMMAND("grad", request_id, backprop_id, mode, location, enable_double_backprop, retain_grad,
              loss_scale, outputs, inputs, output_grads, results)
};

struct SetGrad {
  Handle handle = 0;
  Handle grad = 0;  // 0: clears the gradient
  BackpropId backprop_id = 0;
  CHX_COMMAND("set_grad", handle, grad, backprop_id)
};

struct GetGrad {
  Handle handle = 0;
  BackpropId backprop_id = 0;
  Handle result = 0;
  CHX_COMMAND("get_grad", handle, backprop_id, result)
};

// The client has computed `outputs`, which are in no graph yet, from `inputs` (0: none). Its
// function number `function` computes their gradients, from the inputs and outputs whose indexes
// are retained.
struct RecordFunction {
  static constexpr size_t kMaxArrays = 4096;  // of all four lists together
  uint64_t function = 0;
  uint16_t mode = 0;
  uint32_t location = 0;
  Handles inputs;
  Handles outputs;
  Ints retained_inputs;
  Ints retained_outputs;
  CHX_COMMAND("record_function", function, mode, location, inputs, outputs, retained_inputs,
              retained_outputs)
};

// Binds the arrays that a waiting pass has for the client's function, in the order of its
// PassState; 0 where there is none.
struct EnterFunction {
  uint64_t pass = 0;
  Handles results;
  CHX_COMMAND("enter_function", pass, results)
};

// Continues a pass with the gradients that the client's function has computed, in the order of
// PassState::targets; 0: none. Answered as Backward is.
struct ResumePass {
  uint64_t request_id = 0;
  uint64_t pass = 0;
  Handles grads;
  CHX_COMMAND("resume_pass", request_id, pass, grads)
};

// Ends a pass without effect.
struct AbandonPass {
  uint64_t pass = 0;
  CHX_COMMAND("abandon_pass", pass)
};

struct NewBackpropId {
  BackpropId backprop_id = 0;
  CHX_COMMAND("new_backprop_id", backprop_id)
};

struct ReleaseBackpropId {
  BackpropId backprop_id = 0;
  CHX_COMMAND("release_backprop_id", backprop_id)
};

// Forgets how the array was made.
struct Unchain {
  Handle handle = 0;
  BackpropId backprop_id = 0;
  CHX_COMMAND("unchain", handle, backprop_id)
};

// Answered by GraphStates, one for each pair of `handles`: an array, and what its gradient was
// bound to when the client last asked for it (or 0).
struct QueryGraphs {
  uint64_t request_id = 0;
  BackpropId backprop_id = 0;
  Handles handles;
  CHX_COMMAND("query_graphs", request_id, backprop_id, handles)
};

// Answered by a text about the graph below the array.
struct DumpGraph {
  uint64_t request_id = 0;
  Handle handle = 0;
  BackpropId backprop_id = 0;
  CHX_COMMAND("dump_graph", request_id, handle, backprop_id)
};

}  // namespace chx::command

#endif  // CHX_PROTO_GRAPH_COMMANDS_H_
