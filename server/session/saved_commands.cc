// What a session keeps under names.
#include "ops/error.h"
#include "proto/saved_arrays.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

// What is sent at once about one name, or of all names, in values of the largest size.
constexpr int64_t kMaxAnswers = 32;
// What an answer has for each array, or for each name, at most.
constexpr int64_t kArrayBytes = (2 + 2 * kMaxNdim) * sizeof(uint64_t);
constexpr int64_t kNameBytes = sizeof(uint64_t) + 256;

absl::StatusOr<int64_t> BytesOf(absl::string_view name, const SavedArrays& saved) {
  if (name.empty()) return static_cast<int64_t>(saved.entries().size()) * kNameBytes;
  CHX_ASSIGN_OR_RETURN(const SavedArrays::Entry* entry, saved.Find(name));
  return static_cast<int64_t>(entry->tree.size() + 2 * sizeof(uint64_t) +
                              entry->arrays.size() * kArrayBytes);
}

absl::StatusOr<std::string> Describe(absl::string_view name, const SavedArrays& saved) {
  if (name.empty()) {
    std::vector<std::string> names;
    for (const auto& [each, entry] : saved.entries()) names.push_back(each);
    return EncodeNames(names);
  }
  CHX_ASSIGN_OR_RETURN(const SavedArrays::Entry* entry, saved.Find(name));
  SavedTree answer;
  answer.version = entry->version;
  answer.tree = entry->tree;
  for (const Variable& variable : entry->arrays) {
    SavedTree::Array array;
    array.spec = variable.array.spec;
    if (const ArrayNode* node = variable.NodeOf(0); node != nullptr) {
      array.requires_grad = node->grad_required;
      array.has_grad = node->grad != nullptr;
    }
    answer.arrays.push_back(std::move(array));
  }
  return EncodeSavedTree(answer);
}

}  // namespace

void RunCommand(const command::SaveArrays& c, CommandContext& context) {
  SessionState& state = context.state;
  context.Answer(c, "save", [&](SessionOutput::Value* value) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> arrays,
                         state.handles.UseAll(c.handles, &value->error));
    if (value->error != nullptr) return absl::OkStatus();
    CHX_ASSIGN_OR_RETURN(const uint64_t detached, state.saved.Save(c.name, c.tree, arrays));
    value->data = EncodeCount(detached);
    return absl::OkStatus();
  });
}

void RunCommand(const command::QuerySaved& c, CommandContext& context) {
  context.Answer(c, "load", [&](SessionOutput::Value* value) -> absl::Status {
    const SavedArrays& saved = context.state.saved;
    CHX_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(c.name, saved));
    if (bytes > kMaxAnswers * context.state.limits.max_inline_bytes) {
      return ValueError("[load] expects fewer arrays or names, got ", bytes, " bytes of them");
    }
    CHX_RETURN_IF_ERROR(context.ChargeValue(bytes, value));
    CHX_ASSIGN_OR_RETURN(value->data, Describe(c.name, saved));
    return absl::OkStatus();
  });
}

void RunCommand(const command::LoadSaved& c, CommandContext& context) {
  context.Answer(c, "load", [&](SessionOutput::Value* /*value*/) {
    return context.state.saved.Load(c.name, c.version, c.results, &context.state.handles);
  });
}

void RunCommand(const command::ForgetSaved& c, CommandContext& context) {
  context.Answer(c, "forget", [&](SessionOutput::Value* /*value*/) {
    return context.state.saved.Forget(c.name);
  });
}

void RunCommand(const command::NoteGenerator& c, CommandContext& context) {
  context.FailUnlessOk(c, context.state.saved.NoteGenerator(c.state), "");
}

}  // namespace chx::server
