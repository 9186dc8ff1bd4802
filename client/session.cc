#include "client/session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/array_transfer.h"
#include "client/autocast_inputs.h"
#include "client/call_log.h"
#include "client/client_functions.h"
#include "client/command_queue.h"
#include "client/connection.h"
#include "client/exports.h"
#include "client/fork_guard.h"
#include "client/gradients.h"
#include "client/graph_mirror.h"
#include "client/modes.h"
#include "client/programs.h"
#include "client/random_counter.h"
#include "client/saved_arrays.h"
#include "client/shared_memory.h"
#include "client/trace.h"
#include "client/waiting.h"
#include "ops/basic_index.h"
#include "ops/infer.h"
#include "ops/op_call.h"
#include "ops/registry.h"

namespace chx {
namespace {

bool IsView(const OpDef& op, absl::Span<const Operand> inputs, const InferResult& inferred) {
  return (op.kind == OpKind::kView && !inferred.copy_first) ||
         (op.kind == OpKind::kTransfer &&
          inferred.outputs[0].device == inputs[0].array()->spec.device);
}

}  // namespace

// Each part is made with those above it.
struct Session::Parts {
  Parts(std::unique_ptr<Connection> opened, Session* session)
      : connection(std::move(opened)),
        queue(connection.get(), session),
        graphs(&queue, session),
        functions(connection.get(), &queue, &graphs, session),
        gradients(session, &queue, &graphs, &functions),
        programs(session, &queue, &graphs),
        saved(session, connection.get(), &queue, &random),
        shared_memory(connection.get(), &queue),
        exports(session),
        transfer(session, connection.get(), &queue, &shared_memory) {}

  // Checks the inputs of an operator, and says what they are for inference and in the command.
  absl::Status PrepareInputs(const Session& session, const OpDef& op,
                             absl::Span<const Operand> inputs, absl::Span<SpecOperand> specs,
                             absl::Span<HandleOperand> handles);

  const std::unique_ptr<Connection> connection;
  CommandQueue queue;
  GraphMirror graphs;
  ClientFunctions functions;
  Gradients gradients;
  Programs programs;
  RandomCounter random;
  SavedArrays saved;
  SharedMemory shared_memory;
  Exports exports;
  ArrayTransfer transfer;
  Settings settings ABSL_GUARDED_BY(queue.mutex());
};

absl::StatusOr<Ref<Session>> Session::Connect(const std::string& address,
                                              const ConnectOptions& options) {
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Connection::Open(address, options));
  return Ref<Session>(new Session(std::move(connection)));
}

Session::Session(std::unique_ptr<Connection> connection)
    : parts_(std::make_unique<Parts>(std::move(connection), this)) {}

Session::~Session() { Close().IgnoreError(); }

// In a forked child the queue's thread does not exist: everything is left as it is.
void Session::Destroy(const Session* session) {
  if (!session->Forked()) delete session;
}

absl::Status Session::CheckOwn(absl::string_view op, const ArrayBody* array) const {
  if (array->session.get() == this) return absl::OkStatus();
  return MakeError(ErrorKind::kContext, absl::StrCat("[", op, "] expects arrays of one session"));
}

absl::Status Session::Configure(absl::string_view name, Scalar value) {
  CHX_RETURN_IF_ERROR(parts_->queue.CheckUsable());
  MutexLock lock(&parts_->queue.mutex());
  CHX_RETURN_IF_ERROR(ChangeSetting(name, value, &parts_->settings));
  parts_->queue.Append(command::Configure{name, value});
  return absl::OkStatus();
}

Settings Session::settings() {
  if (Forked()) return Settings();
  MutexLock lock(&parts_->queue.mutex());
  return parts_->settings;
}

absl::Status Session::Parts::PrepareInputs(const Session& session, const OpDef& op,
                                           absl::Span<const Operand> inputs,
                                           absl::Span<SpecOperand> specs,
                                           absl::Span<HandleOperand> handles) {
  const bool graphs_matter =
      op.in_place || (op.differentiable() && CurrentMode().RecordsAny(&session));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Operand& input = inputs[i];
    if (input.is_array()) {
      CHX_RETURN_IF_ERROR(session.CheckOwn(op.name, input.array()));
      if (graphs_matter) {
        CHX_RETURN_IF_ERROR(graphs.Resolve(const_cast<ArrayBody*>(input.array())));
      }
      specs[i] = SpecOperand(&input.array()->spec);
      handles[i] = HandleOperand(input.array()->handle);
    } else if (input.is_scalar()) {
      specs[i] = SpecOperand(input.scalar());
      handles[i] = HandleOperand(input.scalar());
    }
  }
  return absl::OkStatus();
}

absl::Status Session::Apply(const OpCall<Operand>& call, ArrayPtrs* outputs, bool* flush_due) {
  if (!internal::IsAutocast(call.op)) return ApplyUncast(call, outputs, flush_due);
  internal::AutocastInputs inputs;
  CHX_RETURN_IF_ERROR(inputs.Cast(*this, call.op, call.inputs));
  return ApplyUncast({call.op, inputs.operands(), call.attrs, call.device}, outputs, flush_due);
}

absl::Status Session::ApplyUncast(const OpCall<Operand>& call, ArrayPtrs* outputs,
                                  bool* flush_due) {
  const OpDef& op = call.op;
  const internal::TraceSpan span("call", op.name);
  const absl::Span<const Operand> inputs = call.inputs;
  CHX_RETURN_IF_ERROR(parts_->queue.CheckUsable());
  if (inputs.size() > CommandWriter::kMaxCount) {
    return ValueError("[", op.name, "] expects at most ", CommandWriter::kMaxCount, " arrays, got ",
                      inputs.size());
  }
  absl::InlinedVector<SpecOperand, 4> specs(inputs.size());
  absl::InlinedVector<HandleOperand, 4> operands(inputs.size());
  CHX_RETURN_IF_ERROR(
      parts_->PrepareInputs(*this, op, inputs, absl::MakeSpan(specs), absl::MakeSpan(operands)));
  InferResult inferred;
  CHX_RETURN_IF_ERROR(InferOp({op, specs, call.attrs, call.device}, &inferred));
  if (op.in_place || op.written_inputs != 0) {
    CHX_RETURN_IF_ERROR(parts_->graphs.CheckWritten(op, inputs));
  }
  const uint16_t wire_id = parts_->connection->WireId(op);
  if (wire_id == 0) {
    return MakeError(
        ErrorKind::kNotImplemented,
        absl::StrCat("[", op.name, "] is not known to the daemon at ",
                     parts_->connection->address(), ", or has another signature there"));
  }
  absl::InlinedVector<Handle, 4> handles(inferred.outputs.size());
  const bool due = parts_->queue.ApplyOp(wire_id, {op, operands, call.attrs, call.device},
                                         absl::MakeSpan(handles));
  const bool is_view = IsView(op, inputs, inferred);
  outputs->clear();
  for (size_t i = 0; i < handles.size(); ++i) {
    outputs->push_back(NewArray(handles[i], inferred.outputs[i]));
    if (is_view) {
      outputs->back()->storage = inputs[0].array()->storage;
      outputs->back()->storage_unknown = inputs[0].array()->storage_unknown;
    }
  }
  if (op.differentiable()) parts_->graphs.Record(op, inputs, *outputs);
  if (CallLog* const log = CallLog::Current()) log->Note(call, *outputs);
  if (parts_->exports.any() && !is_view && parts_->exports.Touches(inputs)) {
    CHX_RETURN_IF_ERROR(parts_->exports.Synchronize());
  }
  if (flush_due != nullptr) {
    *flush_due = due;
    return absl::OkStatus();
  }
  if (op.IsChecked(call.attrs) && !outputs->empty()) return Confirm(*(*outputs)[0]);
  return due ? FlushDue() : absl::OkStatus();
}

// By a fetch, which an error comes back from; of a view without elements where there are many.
absl::Status Session::Confirm(const ArrayBody& array) {
  char few[256];
  const int64_t bytes = array.spec.nbytes();
  if (bytes <= static_cast<int64_t>(sizeof(few))) {
    return Fetch(array, few, static_cast<size_t>(bytes));
  }
  static const OpDef& getitem = *OpRegistry::Global().Find("getitem");
  const NoBackpropMode no_graph;
  const AttrValue nothing = IndexBuilder().Slice({}, 0, {}).Build();
  const Operand input(&array);
  ArrayPtrs empty;
  bool flush_due = false;
  CHX_RETURN_IF_ERROR(
      Apply({getitem, absl::MakeConstSpan(&input, 1), absl::MakeConstSpan(&nothing, 1)}, &empty,
            &flush_due));
  return Fetch(*empty[0], few, 0);
}

void Session::Seed(uint64_t seed) {
  if (!Forked()) parts_->random.Seed(seed);
}

// Each run of what is recorded draws the next numbers.
void Session::VaryRandom(const OpDef& op, int64_t elements) {
  const int64_t attributes[] = {op.AttrIndex("seed"), op.AttrIndex("counter")};
  parts_->programs.Vary(attributes,
                        [&random = parts_->random, elements](std::vector<int64_t>* values) {
                          const RandomCounter::State state = random.Take(elements);
                          values->insert(values->end(), {state.seed, state.counter});
                          return absl::OkStatus();
                        });
}

absl::StatusOr<ArrayPtr> Session::Random(absl::string_view name, absl::Span<const int64_t> shape,
                                         double a, double b, Dtype dtype, DeviceId device) {
  CHX_RETURN_IF_ERROR(parts_->queue.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckShape(name, shape, dtype));
  const RandomCounter::State state = parts_->random.Take(NumElements(Shape(shape)));
  const AttrValue attrs[] = {
      AttrValue::FromInts(shape), AttrValue(a),          AttrValue(b),
      AttrValue(dtype),           AttrValue(state.seed), AttrValue(state.counter)};
  const OpDef& op = *OpRegistry::Global().Find(name);
  VaryRandom(op, NumElements(Shape(shape)));
  ArrayPtrs outputs;
  CHX_RETURN_IF_ERROR(Apply({op, {}, attrs, device}, &outputs));
  return outputs[0];
}

absl::StatusOr<ArrayPtr> Session::RandomOf(absl::string_view name,
                                           absl::Span<const Operand> parameters) {
  CHX_RETURN_IF_ERROR(parts_->queue.CheckUsable());
  const RandomCounter::State state = parts_->random.Take(parameters[0].array()->spec.size());
  const AttrValue attrs[] = {AttrValue(state.seed), AttrValue(state.counter)};
  const OpDef& op = *OpRegistry::Global().Find(name);
  VaryRandom(op, parameters[0].array()->spec.size());
  ArrayPtrs outputs;
  CHX_RETURN_IF_ERROR(Apply({op, parameters, attrs}, &outputs));
  return outputs[0];
}

absl::Status Session::Cancel() {
  CHX_RETURN_IF_ERROR(parts_->queue.CheckUsable());
  // Once before: what is under way may hold up what is pending.
  CHX_RETURN_IF_ERROR(parts_->connection->Cancel());
  CHX_RETURN_IF_ERROR(Flush());
  return parts_->connection->Cancel();
}

absl::Status Session::Close(bool discard) {
  if (Forked()) return absl::OkStatus();
  {
    MutexLock lock(&parts_->queue.mutex());
    if (parts_->queue.closed()) return absl::OkStatus();
  }
  parts_->connection->ExpectClose();
  if (!discard && parts_->connection->named()) {
    // The next client is to find what this one has called: its batches may still be on their way.
    parts_->saved.NoteCounter().IgnoreError();
    Synchronize().IgnoreError();
  }
  absl::Status flushed = Flush(true);
  if (Interruption::Is(flushed)) flushed = absl::OkStatus();  // it is closed nevertheless
  if (!parts_->queue.Close()) return absl::OkStatus();        // by another thread, meanwhile
  const absl::Status closed = parts_->connection->Close(discard);
  parts_->queue.Join();
  parts_->transfer.Drop();
  parts_->functions.Clear();
  // A session that is lost already is as closed as can be; who used it has been told.
  if (!flushed.ok() && KindOf(flushed) != ErrorKind::kConnection) return flushed;
  return closed;
}

absl::Status Session::UploadAhead(size_t bytes) { return parts_->transfer.UploadAhead(bytes); }
absl::StatusOr<ArrayPtr> Session::Upload(absl::string_view data, Dtype dtype,
                                         absl::Span<const int64_t> shape, DeviceId device) {
  return parts_->transfer.Upload(data, dtype, shape, device);
}
absl::Status Session::Fetch(const ArrayBody& array, void* out, size_t bytes) {
  return parts_->transfer.Fetch(array, out, bytes);
}
absl::Status Session::Synchronize() { return parts_->queue.Synchronize(); }
absl::Status Session::Flush(bool interruptible) { return parts_->queue.Flush(interruptible); }
absl::Status Session::FlushDue() { return parts_->queue.FlushDue(); }
CommandStats Session::stats() { return parts_->queue.stats(); }
const std::vector<std::string>& Session::devices() const { return parts_->connection->devices(); }
bool Session::draining() const { return parts_->connection->draining(); }
bool Session::Forked() const { return parts_->queue.Forked(); }
ArrayPtr Session::NewArray(Handle handle, const ArraySpec& spec) {
  return MakeRef<ArrayBody>(Ref<Session>(this), handle, spec);
}

Connection& Session::connection() { return *parts_->connection; }
CommandQueue& Session::queue() { return parts_->queue; }
GraphMirror& Session::graphs() { return parts_->graphs; }
const GraphMirror& Session::graphs() const { return parts_->graphs; }
ClientFunctions& Session::functions() { return parts_->functions; }
Gradients& Session::gradients() { return parts_->gradients; }
Programs& Session::programs() { return parts_->programs; }
SavedArrays& Session::saved() { return parts_->saved; }
SharedMemory& Session::shared_memory() { return parts_->shared_memory; }
Exports& Session::exports() { return parts_->exports; }

}  // namespace chx
