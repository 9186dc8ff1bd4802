#include "client/session.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/fork_guard.h"
#include "client/modes.h"
#include "client/waiting.h"
#include "ops/basic_index.h"
#include "ops/registry.h"

namespace chx {
namespace {

constexpr size_t kBatchBytes = 16 << 10;
constexpr uint32_t kBatchCommands = 512;
constexpr size_t kReleasesAtOnce = 32;
constexpr int64_t kReleasedBytes = 128 << 10;  // a part of what a core's own cache holds
constexpr std::chrono::milliseconds kFlushInterval{1};
constexpr size_t kMaxLocationBytes = 1024;  // the daemon's limit

thread_local uint32_t current_location = 0;

struct LocationTable {
  Mutex mutex;
  absl::flat_hash_map<std::string, uint32_t> numbers ABSL_GUARDED_BY(mutex);
  std::vector<std::string> texts ABSL_GUARDED_BY(mutex) = {""};
};

// A child that forks while a thread holds the mutex would find it locked for good.
void LockLocations() ABSL_NO_THREAD_SAFETY_ANALYSIS;
void UnlockLocations() ABSL_NO_THREAD_SAFETY_ANALYSIS;

LocationTable& Locations() {
  static auto* const table = [] {
    auto* const made = new LocationTable;
    pthread_atfork(LockLocations, UnlockLocations, UnlockLocations);
    return made;
  }();
  return *table;
}

void LockLocations() { Locations().mutex.Lock(); }
void UnlockLocations() { Locations().mutex.Unlock(); }

}  // namespace

absl::StatusOr<Ref<Session>> Session::Connect(const std::string& address,
                                              const ConnectOptions& options) {
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Connection::Open(address, options));
  return Ref<Session>(new Session(std::move(connection)));
}

Session::Session(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)),
      fork_generation_(ForkGeneration()),
      process_(getpid()),
      flusher_(std::make_unique<std::thread>([this] { FlushLoop(); })) {}

Session::~Session() { Close().IgnoreError(); }

// In a forked child the thread does not exist: everything is left as it is.
void Session::Destroy(const Session* session) {
  if (session->fork_generation_ == ForkGeneration()) delete session;
}

bool Session::Forked() const { return fork_generation_ != ForkGeneration(); }

absl::Status Session::CheckUsable() const {
  if (Forked()) {
    return MakeError(ErrorKind::kConnection,
                     absl::StrCat("this session was opened in process ", process_,
                                  ", which is not this one: connect again after fork()"));
  }
  return connection_->ok() ? absl::OkStatus() : connection_->status();
}

absl::Status Session::CheckOwn(absl::string_view op, const ArrayBody* array) const {
  if (array->session.get() == this) return absl::OkStatus();
  return MakeError(ErrorKind::kContext, absl::StrCat("[", op, "] expects arrays of one session"));
}

uint32_t Session::InternLocation(absl::string_view text) {
  // The file's name and the line are at the end.
  if (text.size() > kMaxLocationBytes) text.remove_prefix(text.size() - kMaxLocationBytes);
  LocationTable& table = Locations();
  MutexLock lock(&table.mutex);
  const auto [it, inserted] =
      table.numbers.try_emplace(std::string(text), static_cast<uint32_t>(table.texts.size()));
  if (inserted) table.texts.emplace_back(text);
  return it->second;
}

void Session::SetLocation(uint32_t location) { current_location = location; }

// Tells the daemon what a number means before it is used for the first time.
uint32_t Session::Location() {
  const uint32_t location = current_location;
  if (location == 0) return 0;
  if (location >= defined_locations_.size()) defined_locations_.resize(location + 64);
  if (!defined_locations_[location]) {
    defined_locations_[location] = true;
    LocationTable& table = Locations();
    MutexLock lock(&table.mutex);
    CommandWriter(&pending_).DefineLocation(location, table.texts[location]);
    Appended();
  }
  return location;
}

uint16_t Session::Mode() {
  const auto [number, version] = CurrentModeNumber();
  if (number == 0) return 0;
  if (number >= defined_modes_.size()) defined_modes_.resize(number + 16);
  if (defined_modes_[number] != version) {
    defined_modes_[number] = version;
    const ModeState& state = CurrentMode();
    Command command;
    command.kind = CommandKind::kDefineMode;
    command.mode = number;
    command.flags = state.RecordsByDefault(this) ? Command::kRecordByDefault : 0;
    for (const auto& [id, record] : state.exceptions) command.mode_entries.push_back({id, record});
    Write(command);
  }
  return number;
}

void Session::Write(const Command& command) {
  CommandWriter(&pending_).Write(command);
  Appended();
  SealIfLarge();
}

void Session::Appended() {
  ++pending_commands_;
  ++stats_.commands;
  if (flusher_idle_) wake_flusher_.notify_one();
}

void Session::SealIfLarge() {
  if (pending_.size() < connection_->max_batch_bytes() / 2 &&
      pending_commands_ < connection_->max_batch_commands() / 2) {
    return;
  }
  sealed_.push_back({std::exchange(pending_, {}), std::exchange(pending_commands_, 0)});
}

bool Session::Due() const {
  return pending_.size() >= kBatchBytes || pending_commands_ >= kBatchCommands;
}

bool Session::NothingToSend() const {
  return pending_commands_ == 0 && released_.empty() && sealed_.empty();
}

void Session::Released(Handle handle, int64_t bytes) {
  if (!CheckUsable().ok()) return;
  MutexLock lock(&mutex_);
  released_.push_back(handle);
  released_bytes_ += bytes;
  if (flusher_idle_) wake_flusher_.notify_one();
  // What frees much goes before the next operator: its result then takes the same memory, which is
  // still in the daemon's caches.
  if (released_.size() >= kReleasesAtOnce || released_bytes_ >= kReleasedBytes) AppendReleases();
}

void Session::AppendReleases() {
  if (released_.empty()) return;
  CommandWriter(&pending_).Release(released_);
  Appended();
  released_.clear();
  released_bytes_ = 0;
  SealIfLarge();
}

absl::Status Session::Configure(absl::string_view name, Scalar value) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  MutexLock lock(&mutex_);
  CHX_RETURN_IF_ERROR(ChangeSetting(name, value, &settings_));
  Command command;
  command.kind = CommandKind::kConfigure;
  command.data = name;
  command.operands.emplace_back(value);
  Write(command);
  return absl::OkStatus();
}

Settings Session::settings() {
  if (Forked()) return Settings();
  MutexLock lock(&mutex_);
  return settings_;
}

absl::Status Session::Flush(bool interruptible) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  {
    MutexLock lock(&mutex_);
    if (NothingToSend()) return absl::OkStatus();  // nor is there anything to wait for
  }
  bool more = true;
  const auto take = [this, &more](std::string* commands) {
    MutexLock lock(&mutex_);
    AppendReleases();
    more = !sealed_.empty();
    if (!more) {
      commands->swap(pending_);
      return std::exchange(pending_commands_, 0);
    }
    *commands = std::move(sealed_.front().records);
    const uint32_t count = sealed_.front().commands;
    sealed_.pop_front();
    return count;
  };
  while (more) CHX_RETURN_IF_ERROR(connection_->Send(take, interruptible));
  return absl::OkStatus();
}

absl::Status Session::FlushFor(uint64_t request) {
  absl::Status flushed = Flush(true);
  if (Interruption::Is(flushed)) connection_->Abandon(request);
  return flushed;
}

absl::StatusOr<std::string> Session::AnswerTo(uint64_t request, bool interruptible) {
  CHX_RETURN_IF_ERROR(interruptible ? FlushFor(request) : Flush());
  return connection_->WaitFor(request, interruptible);
}

// Ticks while there is something to send, sleeps when there was nothing for a while; and looks
// after the connection now and then.
void Session::FlushLoop() {
  int quiet = 0;
  auto look = std::chrono::steady_clock::now();
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (closed_) return;
      if (quiet > 20) {
        flusher_idle_ = true;
        while (!closed_ && NothingToSend() && std::chrono::steady_clock::now() < look) {
          wake_flusher_.wait_until(mutex_, look);
        }
        flusher_idle_ = false;
      }
      if (!NothingToSend() || quiet <= 20) wake_flusher_.wait_for(mutex_, kFlushInterval);
      if (closed_) return;
      quiet = NothingToSend() ? quiet + 1 : 0;
    }
    if (quiet == 0 && !Flush().ok()) return;  // lost for good, as the next call will say
    if (std::chrono::steady_clock::now() < look) continue;
    const absl::StatusOr<std::chrono::milliseconds> next = connection_->KeepAlive();
    if (!next.ok()) return;
    look = std::chrono::steady_clock::now() + *next;
  }
}

ArrayPtr Session::NewArray(Handle handle, const ArraySpec& spec) {
  return MakeRef<ArrayBody>(Ref<Session>(this), handle, spec);
}

absl::Status Session::Apply(const OpDef& op, absl::Span<const Operand> inputs,
                            absl::Span<const AttrValue> attrs, DeviceId device, ArrayPtrs* outputs,
                            bool* flush_due) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  if (inputs.size() > CommandWriter::kMaxOperands) {
    return ValueError("[", op.name, "] expects at most ", CommandWriter::kMaxOperands,
                      " arrays, got ", inputs.size());
  }
  absl::InlinedVector<InferInput, 4> infer_inputs(inputs.size());
  absl::InlinedVector<CommandOperand, 4> operands(inputs.size());
  const bool graphs_matter = op.in_place || (op.differentiable() && CurrentMode().RecordsAny(this));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Operand& input = inputs[i];
    if (input.array() != nullptr) {
      CHX_RETURN_IF_ERROR(CheckOwn(op.name, input.array()));
      if (graphs_matter) CHX_RETURN_IF_ERROR(Resolve(const_cast<ArrayBody*>(input.array())));
      infer_inputs[i].array = &input.array()->spec;
      operands[i] = CommandOperand(input.array()->handle);
    } else if (input.is_scalar()) {
      infer_inputs[i] = InferInput(input.scalar());
      operands[i] = CommandOperand(input.scalar());
    }
  }
  InferResult inferred;
  CHX_RETURN_IF_ERROR(InferOp(op, infer_inputs, attrs, device, &inferred));
  if (op.in_place || op.written_inputs != 0) CHX_RETURN_IF_ERROR(CheckWritten(op, inputs));
  const uint16_t wire_id = connection_->WireId(op);
  if (wire_id == 0) {
    return MakeError(ErrorKind::kNotImplemented,
                     absl::StrCat("[", op.name, "] is not known to the daemon at ",
                                  connection_->address(), ", or has another signature there"));
  }
  absl::InlinedVector<Handle, 4> handles(inferred.outputs.size());
  bool due = false;
  {
    MutexLock lock(&mutex_);
    for (Handle& handle : handles) handle = next_handle_++;
    const uint32_t location = Location();
    const uint16_t mode = Mode();
    CommandWriter(&pending_).ApplyOp(wire_id, device, mode, location, operands, attrs, handles);
    Appended();
    due = Due();
  }
  const bool is_view =
      (op.kind == OpKind::kView && !inferred.copy_first) ||
      (op.kind == OpKind::kTransfer && inferred.outputs[0].device == infer_inputs[0].array->device);
  outputs->clear();
  for (size_t i = 0; i < handles.size(); ++i) {
    outputs->push_back(NewArray(handles[i], inferred.outputs[i]));
    if (is_view) {
      outputs->back()->storage = inputs[0].array()->storage;
      outputs->back()->storage_unknown = inputs[0].array()->storage_unknown;
    }
  }
  if (op.differentiable()) Mirror(op, inputs, outputs);
  if (exports_.any() && !is_view && TouchesExports(inputs)) {
    CHX_RETURN_IF_ERROR(SynchronizeForExports());
  }
  if (flush_due != nullptr) {
    *flush_due = due;
    return absl::OkStatus();
  }
  if (op.IsChecked(attrs) && !outputs->empty()) return Confirm(*(*outputs)[0]);
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
  CHX_RETURN_IF_ERROR(Apply(getitem, absl::MakeConstSpan(&input, 1),
                            absl::MakeConstSpan(&nothing, 1), array.spec.device, &empty,
                            &flush_due));
  return Fetch(*empty[0], few, 0);
}

void Session::Mirror(const OpDef& op, absl::Span<const Operand> inputs, ArrayPtrs* outputs) {
  MirrorOps ops;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArrayBody* input = inputs[i].array();
    if (input != nullptr && !op.IsConstantInput(i)) AddMirrorInput(*input, &ops);
  }
  if (ops.empty()) return;
  absl::InlinedVector<ArrayBody*, 1> bodies;
  for (const ArrayPtr& output : *outputs) bodies.push_back(output.get());
  ConnectMirror(ops, bodies);
}

absl::Status Session::Synchronize() {
  CHX_RETURN_IF_ERROR(CheckUsable());
  uint64_t request = 0;
  {
    MutexLock lock(&mutex_);
    request = next_request_++;
    CommandWriter(&pending_).Barrier(request);
    Appended();
  }
  CHX_RETURN_IF_ERROR(FlushFor(request));
  return connection_->Wait(request, nullptr, 0);
}

void Session::Seed(uint64_t seed) {
  if (Forked()) return;
  MutexLock lock(&mutex_);
  seed_ = seed;
  random_counter_ = 0;
}

absl::StatusOr<ArrayPtr> Session::Random(absl::string_view name, absl::Span<const int64_t> shape,
                                         double a, double b, Dtype dtype, DeviceId device) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  CHX_RETURN_IF_ERROR(CheckShape(name, shape, dtype));
  int64_t seed = 0;
  int64_t counter = 0;
  {
    MutexLock lock(&mutex_);
    seed = static_cast<int64_t>(seed_);
    counter = static_cast<int64_t>(random_counter_);
    // A block of the generator serves one element at least: never the same block twice.
    random_counter_ += static_cast<uint64_t>(NumElements(Shape(shape))) + 1;
  }
  const AttrValue attrs[] = {AttrValue::FromInts(shape), AttrValue(a),    AttrValue(b),
                             AttrValue(dtype),           AttrValue(seed), AttrValue(counter)};
  ArrayPtrs outputs;
  CHX_RETURN_IF_ERROR(Apply(*OpRegistry::Global().Find(name), {}, attrs, device, &outputs));
  return outputs[0];
}

absl::StatusOr<ArrayPtr> Session::RandomOf(absl::string_view name,
                                           absl::Span<const Operand> parameters) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  int64_t seed = 0;
  int64_t counter = 0;
  {
    MutexLock lock(&mutex_);
    seed = static_cast<int64_t>(seed_);
    counter = static_cast<int64_t>(random_counter_);
    random_counter_ += static_cast<uint64_t>(parameters[0].array()->spec.size()) + 1;
  }
  const AttrValue attrs[] = {AttrValue(seed), AttrValue(counter)};
  ArrayPtrs outputs;
  CHX_RETURN_IF_ERROR(Apply(*OpRegistry::Global().Find(name), parameters, attrs, 0, &outputs));
  return outputs[0];
}

absl::Status Session::Cancel() {
  CHX_RETURN_IF_ERROR(CheckUsable());
  // Once before: what is under way may hold up what is pending.
  CHX_RETURN_IF_ERROR(connection_->Cancel());
  CHX_RETURN_IF_ERROR(Flush());
  return connection_->Cancel();
}

absl::Status Session::Close() {
  if (Forked()) return absl::OkStatus();
  {
    MutexLock lock(&mutex_);
    if (closed_) return absl::OkStatus();
  }
  connection_->ExpectClose();
  absl::Status flushed = Flush(true);
  if (Interruption::Is(flushed)) flushed = absl::OkStatus();  // it is closed nevertheless
  {
    MutexLock lock(&mutex_);
    if (closed_) return absl::OkStatus();  // by another thread, meanwhile
    closed_ = true;
  }
  wake_flusher_.notify_all();
  const absl::Status closed = connection_->Close();
  flusher_->join();
  DropStages();
  ForgetFunctions();
  // A session that is lost already is as closed as can be; who used it has been told.
  if (!flushed.ok() && KindOf(flushed) != ErrorKind::kConnection) return flushed;
  return closed;
}

}  // namespace chx
