#include "client/session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/fork_guard.h"
#include "client/modes.h"
#include "client/waiting.h"
#include "ops/basic_index.h"
#include "ops/registry.h"

namespace chx {
namespace {

bool IsView(const OpDef& op, absl::Span<const Operand> inputs, const InferResult& inferred) {
  return (op.kind == OpKind::kView && !inferred.copy_first) ||
         (op.kind == OpKind::kTransfer &&
          inferred.outputs[0].device == inputs[0].array()->spec.device);
}

}  // namespace

absl::StatusOr<Ref<Session>> Session::Connect(const std::string& address,
                                              const ConnectOptions& options) {
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Connection::Open(address, options));
  return Ref<Session>(new Session(std::move(connection)));
}

Session::Session(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)),
      queue_(connection_.get(), this),
      graphs_(&queue_, this),
      functions_(connection_.get(), &queue_, &graphs_, this),
      gradients_(this),
      shared_memory_(connection_.get(), &queue_),
      exports_(this),
      transfer_(this, connection_.get()) {}

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
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  MutexLock lock(&queue_.mutex());
  CHX_RETURN_IF_ERROR(ChangeSetting(name, value, &settings_));
  queue_.Append(command::Configure{name, value});
  return absl::OkStatus();
}

Settings Session::settings() {
  if (Forked()) return Settings();
  MutexLock lock(&queue_.mutex());
  return settings_;
}

absl::Status Session::PrepareInputs(const OpDef& op, absl::Span<const Operand> inputs,
                                    absl::Span<SpecOperand> specs,
                                    absl::Span<HandleOperand> handles) {
  const bool graphs_matter = op.in_place || (op.differentiable() && CurrentMode().RecordsAny(this));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Operand& input = inputs[i];
    if (input.is_array()) {
      CHX_RETURN_IF_ERROR(CheckOwn(op.name, input.array()));
      if (graphs_matter) {
        CHX_RETURN_IF_ERROR(graphs_.Resolve(const_cast<ArrayBody*>(input.array())));
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
  const OpDef& op = call.op;
  const absl::Span<const Operand> inputs = call.inputs;
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  if (inputs.size() > CommandWriter::kMaxCount) {
    return ValueError("[", op.name, "] expects at most ", CommandWriter::kMaxCount, " arrays, got ",
                      inputs.size());
  }
  absl::InlinedVector<SpecOperand, 4> specs(inputs.size());
  absl::InlinedVector<HandleOperand, 4> operands(inputs.size());
  CHX_RETURN_IF_ERROR(PrepareInputs(op, inputs, absl::MakeSpan(specs), absl::MakeSpan(operands)));
  InferResult inferred;
  CHX_RETURN_IF_ERROR(InferOp({op, specs, call.attrs, call.device}, &inferred));
  if (op.in_place || op.written_inputs != 0) {
    CHX_RETURN_IF_ERROR(graphs_.CheckWritten(op, inputs));
  }
  const uint16_t wire_id = connection_->WireId(op);
  if (wire_id == 0) {
    return MakeError(ErrorKind::kNotImplemented,
                     absl::StrCat("[", op.name, "] is not known to the daemon at ",
                                  connection_->address(), ", or has another signature there"));
  }
  absl::InlinedVector<Handle, 4> handles(inferred.outputs.size());
  const bool due =
      queue_.ApplyOp(wire_id, {op, operands, call.attrs, call.device}, absl::MakeSpan(handles));
  const bool is_view = IsView(op, inputs, inferred);
  outputs->clear();
  for (size_t i = 0; i < handles.size(); ++i) {
    outputs->push_back(NewArray(handles[i], inferred.outputs[i]));
    if (is_view) {
      outputs->back()->storage = inputs[0].array()->storage;
      outputs->back()->storage_unknown = inputs[0].array()->storage_unknown;
    }
  }
  if (op.differentiable()) graphs_.Record(op, inputs, *outputs);
  if (exports_.any() && !is_view && exports_.Touches(inputs)) {
    CHX_RETURN_IF_ERROR(exports_.Synchronize());
  }
  if (flush_due != nullptr) {
    *flush_due = due;
    return absl::OkStatus();
  }
  if (op.IsChecked(call.attrs) && !outputs->empty()) return Confirm(*(*outputs)[0]);
  return due ? Flush(true) : absl::OkStatus();
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
  if (!Forked()) random_.Seed(seed);
}

absl::StatusOr<ArrayPtr> Session::Random(absl::string_view name, absl::Span<const int64_t> shape,
                                         double a, double b, Dtype dtype, DeviceId device) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckShape(name, shape, dtype));
  const RandomCounter::State state = random_.Take(NumElements(Shape(shape)));
  const AttrValue attrs[] = {
      AttrValue::FromInts(shape), AttrValue(a),          AttrValue(b),
      AttrValue(dtype),           AttrValue(state.seed), AttrValue(state.counter)};
  ArrayPtrs outputs;
  CHX_RETURN_IF_ERROR(Apply({*OpRegistry::Global().Find(name), {}, attrs, device}, &outputs));
  return outputs[0];
}

absl::StatusOr<ArrayPtr> Session::RandomOf(absl::string_view name,
                                           absl::Span<const Operand> parameters) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  const RandomCounter::State state = random_.Take(parameters[0].array()->spec.size());
  const AttrValue attrs[] = {AttrValue(state.seed), AttrValue(state.counter)};
  ArrayPtrs outputs;
  CHX_RETURN_IF_ERROR(Apply({*OpRegistry::Global().Find(name), parameters, attrs}, &outputs));
  return outputs[0];
}

absl::Status Session::Cancel() {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  // Once before: what is under way may hold up what is pending.
  CHX_RETURN_IF_ERROR(connection_->Cancel());
  CHX_RETURN_IF_ERROR(Flush());
  return connection_->Cancel();
}

absl::Status Session::Close() {
  if (Forked()) return absl::OkStatus();
  {
    MutexLock lock(&queue_.mutex());
    if (queue_.closed()) return absl::OkStatus();
  }
  connection_->ExpectClose();
  absl::Status flushed = Flush(true);
  if (Interruption::Is(flushed)) flushed = absl::OkStatus();  // it is closed nevertheless
  if (!queue_.Close()) return absl::OkStatus();               // by another thread, meanwhile
  const absl::Status closed = connection_->Close();
  queue_.Join();
  transfer_.Drop();
  functions_.Clear();
  // A session that is lost already is as closed as can be; who used it has been told.
  if (!flushed.ok() && KindOf(flushed) != ErrorKind::kConnection) return flushed;
  return closed;
}

}  // namespace chx
