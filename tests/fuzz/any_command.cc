#include "tests/fuzz/any_command.h"

#include <array>
#include <string>
#include <tuple>
#include <utility>

namespace chx {
namespace {

constexpr int kApplyOps = 12;  // to one command of each other kind
constexpr size_t kFractionBytes = 4096;

// 0.747 as a float32, fractions in other dtypes.
absl::string_view Fractions() {
  static const std::string* const data = new std::string(kFractionBytes, '\x3f');
  return *data;
}

// Fills commands field by field, by the fields' types; where values of one type mean different
// things, or fields depend on each other, Refine mends what came out.
class Filler {
 public:
  explicit Filler(Choices* choices) : choices_(*choices) {}

  template <typename C>
  void Fill(C* c) {
    std::apply([this](auto&... fields) { (Field(&fields), ...); }, c->Fields());
    FillResults(c, 0);
    Refine(c);
  }

  void Fill(command::ApplyOp* c) {
    const OpDef& op = choices_.AnyOperator();
    c->op = static_cast<uint16_t>(op.id + 1);
    c->mode = static_cast<uint16_t>(choices_.OnceIn(16) ? choices_.UpTo(3) : 0);
    size_t inputs = op.inputs.size();
    if (op.has_variadic_input()) inputs += static_cast<size_t>(choices_.UpTo(3));
    size_t results = op.outputs.size();
    if (op.variadic_outputs) results += static_cast<size_t>(choices_.UpTo(3));
    for (size_t i = 0; i < inputs; ++i) c->inputs.push_back(choices_.AnyOperand());
    for (size_t i = 0; i < results; ++i) c->results.push_back(choices_.AnyHandle());
    for (const AttrDef& attr : op.attrs) {
      c->attrs.push_back(choices_.OnceIn(3) ? attr.default_value : choices_.AnyAttr(attr.type));
    }
    // The group that most of those are which are joined.
    if (op.kind == OpKind::kCollective && !choices_.OnceIn(4)) c->attrs[0] = Ints{1, 0, 1};
  }

 private:
  // Handles, half of the time of InitialArrays(), and the numbers of requests, functions and
  // passes.
  void Field(uint64_t* number) {
    *number = choices_.OnceIn(2) ? choices_.AnyHandle() : static_cast<Handle>(1 + choices_.UpTo(4));
  }
  // Positions in memory and numbers of bytes, near the bounds of what there is, or anything.
  void Field(int64_t* number) {
    static constexpr int64_t kNumbers[] = {0, 4, 8, 24, 64, 100, kStageBytes - 64, kStageBytes};
    *number = choices_.OnceIn(8) ? choices_.AnyScalar().AsInt() : kNumbers[choices_.UpTo(7)];
  }
  // Graphs and locations; of those that are not 0 few exist.
  void Field(uint32_t* id) {
    *id = choices_.OnceIn(4) ? static_cast<uint32_t>(choices_.UpTo(3)) : 0;
  }
  // Devices and modes.
  void Field(uint16_t* id) {
    *id = choices_.OnceIn(8) ? static_cast<uint16_t>(choices_.UpTo(3)) : 0;
  }
  void Field(bool* flag) { *flag = choices_.OnceIn(2); }
  void Field(double* value) { *value = choices_.AnyScalar().AsDouble(); }
  void Field(Dtype* dtype) { *dtype = choices_.AnyDtype(); }
  void Field(Scalar* value) { *value = choices_.AnyScalar(); }
  void Field(Ints* ints) { *ints = choices_.AnyInts(); }
  void Field(absl::string_view* text) {
    const absl::string_view texts[] = {"", "model.py:12", "\xff\x1b[31m\n", Fractions()};
    *text = texts[choices_.UpTo(3)];
  }
  void Field(ModeEntry* entry) {
    Field(&entry->backprop_id);
    Field(&entry->record);
  }
  template <typename T, size_t n>
  void Field(absl::InlinedVector<T, n>* list) {
    list->resize(static_cast<size_t>(choices_.UpTo(3)));
    for (T& element : *list) Field(&element);
  }

  // New handles are rarely those of InitialArrays(). The int says which overload is better.
  template <typename C>
  auto FillResults(C* c, int /*better*/) -> decltype(static_cast<void>(c->result)) {
    c->result = choices_.AnyHandle();
  }
  template <typename C>
  auto FillResults(C* c, int /*better*/) -> decltype(static_cast<void>(c->results)) {
    for (Handle& result : c->results) result = choices_.AnyHandle();
  }
  template <typename C>
  void FillResults(C* /*command*/, long /*worse*/) {}  // NOLINT(runtime/int)

  template <typename C>
  void Refine(C* /*command*/) {}
  // So many that new handles are often free, but mostly none of InitialArrays().
  void Refine(command::Release* c) {
    ResizeWithHandles(static_cast<size_t>(choices_.UpTo(12)), &c->handles);
    for (Handle& handle : c->handles) {
      if (handle <= kStage && !choices_.OnceIn(8)) handle += kStage;
    }
  }
  // As many bytes as the shape says.
  void Refine(command::Upload* c) {
    double bytes = static_cast<double>(ItemSize(c->dtype));
    for (int64_t dim : c->shape) bytes *= static_cast<double>(dim);
    const bool fits = bytes >= 0 && bytes <= static_cast<double>(kFractionBytes);
    c->data = fits ? Fractions().substr(0, static_cast<size_t>(bytes)) : "";
  }
  void Refine(command::UploadFrom* c) { MostlyStage(&c->stage); }
  void Refine(command::UploadPart* c) {
    MostlyStage(&c->stage);
    if (choices_.OnceIn(2)) c->begin = 0;
  }
  void Refine(command::FetchInto* c) { MostlyStage(&c->stage); }
  // Mostly a vector in the stage, or nearly so.
  void Refine(command::ShareAlias* c) {
    static constexpr int64_t kNumbers[] = {0, 1, 4, 8, -8, 64, 512, kStageBytes};
    MostlyStage(&c->handle);
    if (c->handle != kStage) return;
    c->shape.assign(1, kNumbers[choices_.UpTo(7)]);
    c->strides.assign(1, kNumbers[choices_.UpTo(7)]);
  }
  // Few passes, so that functions find one that waits. Often they may not call functions.
  void Refine(command::Backward* c) { FewNumbers(&c->request_id); }
  void Refine(command::EnterFunction* c) { FewNumbers(&c->pass); }
  void Refine(command::ResumePass* c) { FewNumbers(&c->pass); }
  void Refine(command::AbandonPass* c) { FewNumbers(&c->pass); }
  // Mostly lists whose lengths match.
  void Refine(command::Grad* c) {
    FewNumbers(&c->request_id);
    if (!choices_.OnceIn(4)) ResizeWithHandles(c->inputs.size(), &c->results);
    if (!choices_.OnceIn(4)) ResizeWithHandles(c->outputs.size(), &c->output_grads);
  }
  // Mostly indexes of what is there.
  void Refine(command::RecordFunction* c) {
    Retain(c->inputs.size(), &c->retained_inputs);
    Retain(c->outputs.size(), &c->retained_outputs);
  }
  // Few programs, so that they are found.
  void Refine(command::BeginProgram* c) { FewNumbers(&c->program); }
  void Refine(command::EndProgram* c) { FewNumbers(&c->program); }
  void Refine(command::RunProgram* c) { FewNumbers(&c->program); }
  void Refine(command::ReleaseProgram* c) { FewNumbers(&c->program); }
  void Refine(command::ExplainProgram* c) { FewNumbers(&c->program); }
  void Refine(command::NewBackpropId* c) { FewNumbers(&c->backprop_id); }
  void Refine(command::ReleaseBackpropId* c) { FewNumbers(&c->backprop_id); }
  void Refine(command::DefineMode* c) { FewNumbers(&c->mode); }
  void Refine(command::DefineLocation* c) { FewNumbers(&c->location); }
  void Refine(command::Configure* c) {
    static constexpr absl::string_view kNames[] = {
        "use_cudnn", "cudnn_deterministic", "autotune", "max_workspace_size", "tf32", "cudnn_tf32"};
    if (!choices_.OnceIn(8)) c->name = kNames[choices_.UpTo(5)];
  }

  // Capabilities cannot be made up: what is opened is published. Names meet, and paths fit.
  void Refine(command::OpenShared* c) {
    if (!choices_.OnceIn(4)) c->capability = "chx-cap:AAAAAAAAAAAAAAAAAAAAAA";
  }
  void Refine(command::GrantAccess* c) {
    if (!choices_.OnceIn(4)) c->tenant = choices_.OnceIn(2) ? "*" : "";
    if (c->expires_ms < 0 && !choices_.OnceIn(8)) c->expires_ms = 0;
  }
  void Refine(command::Publish* c) {
    static constexpr absl::string_view kPaths[] = {"", "w", "layers/w\nlayers/b", "a\nb\nc"};
    MostlyName(&c->name);
    if (!choices_.OnceIn(8)) c->paths = kPaths[c->handles.size()];
    c->readers = choices_.OnceIn(2) ? "" : "*\nother";
  }
  void Refine(command::Lookup* c) {
    MostlyName(&c->name);
    if (!choices_.OnceIn(4)) c->tenant = "";
    if (!choices_.OnceIn(4)) c->version = static_cast<uint64_t>(choices_.UpTo(3));
  }
  void Refine(command::PublishProgram* c) {
    MostlyName(&c->name);
    if (!choices_.OnceIn(8)) c->programs.assign(1, choices_.UpTo(3));
    c->readers = choices_.OnceIn(2) ? "" : "*\nother";
  }
  void Refine(command::OpenPrograms* c) {
    MostlyName(&c->name);
    if (!choices_.OnceIn(4)) c->tenant = "";
    if (!choices_.OnceIn(4)) c->version = static_cast<uint64_t>(choices_.UpTo(3));
    if (!choices_.OnceIn(8)) c->programs.assign(1, choices_.UpTo(3));
  }
  void Refine(command::JoinGroup* c) {
    if (choices_.OnceIn(8)) return;
    c->group = choices_.UpTo(3);
    c->rank = 0;
    c->size = 1;
    c->name = "ranks";
    c->address = "";
  }
  void Refine(command::LeaveGroup* c) {
    if (!choices_.OnceIn(8)) c->group = choices_.UpTo(3);
  }
  void Refine(command::ReduceBackward* c) {
    FewNumbers(&c->request_id);
    if (choices_.OnceIn(8)) return;
    c->group = choices_.UpTo(3);
    c->rank = 0;
    c->size = 1;
    c->dtype = choices_.OnceIn(2) ? -1 : choices_.UpTo(10);
    c->reduction = choices_.UpTo(5);
    c->bucket_bytes = 1 + choices_.UpTo(64);
  }
  void Refine(command::Unpublish* c) { MostlyName(&c->name); }
  void Refine(command::ListNames* c) { MostlyName(&c->prefix); }

  void MostlyName(absl::string_view* name) {
    if (!choices_.OnceIn(8)) *name = choices_.OnceIn(2) ? "model" : "model/weights";
  }
  void MostlyStage(Handle* handle) {
    if (!choices_.OnceIn(4)) *handle = kStage;
  }
  template <typename T>
  void FewNumbers(T* number) {
    *number = static_cast<T>(choices_.UpTo(3));
  }
  void ResizeWithHandles(size_t size, Handles* handles) {
    handles->resize(size);
    for (Handle& handle : *handles) handle = choices_.AnyHandle();
  }
  void Retain(size_t size, Ints* indexes) {
    if (choices_.OnceIn(4)) return;
    indexes->clear();
    for (size_t i = 0; i < size; ++i) {
      if (choices_.OnceIn(2)) indexes->push_back(static_cast<int64_t>(i));
    }
  }

  Choices& choices_;
};

template <typename C>
Command Filled(Choices* choices) {
  C command;
  Filler(choices).Fill(&command);
  return command;
}

using Maker = Command (*)(Choices* choices);
template <size_t... i>
constexpr std::array<Maker, kNumCommandKinds> MakersOf(std::index_sequence<i...> /*kinds*/) {
  return {Filled<std::variant_alternative_t<i, CommandVariant>>...};
}

}  // namespace

Command AnyCommand(Choices* choices) {
  static constexpr auto kMakers = MakersOf(std::make_index_sequence<kNumCommandKinds>());
  const auto kind = static_cast<size_t>(choices->UpTo(kNumCommandKinds + kApplyOps - 2));
  return kind < kMakers.size() ? kMakers[kind](choices) : Filled<command::ApplyOp>(choices);
}

}  // namespace chx
