#include "tests/fuzz/command_counts.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/registry.h"

namespace chx {
namespace {

template <size_t... i>
constexpr std::array<absl::string_view, kNumCommandKinds> NamesOf(
    std::index_sequence<i...> /*kinds*/) {
  return {std::variant_alternative_t<i, CommandVariant>::kName...};
}

}  // namespace

absl::string_view NameOfKind(size_t kind) {
  static constexpr auto kNames = NamesOf(std::make_index_sequence<kNumCommandKinds>());
  return kNames[kind];
}

void CommandCounts::Add(const Command& command) {
  ++kinds[command.index()];
  operators.resize(static_cast<size_t>(OpRegistry::Global().size()));
  const auto* const apply = std::get_if<command::ApplyOp>(&command);
  if (apply != nullptr && apply->op - 1u < operators.size()) ++operators[apply->op - 1u];
}

uint64_t CommandCounts::total() const {
  uint64_t sum = 0;
  for (uint64_t count : kinds) sum += count;
  return sum;
}

std::string CommandCounts::ToString() const {
  std::string text = absl::StrCat("commands ", total(), "\n");
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    absl::StrAppend(&text, "  ", NameOfKind(kind), " ", kinds[kind], "\n");
  }
  std::multimap<uint64_t, std::string> by_count;
  for (size_t i = 0; i < operators.size(); ++i) {
    by_count.emplace(operators[i], OpRegistry::Global().at(static_cast<OpId>(i)).name);
  }
  absl::StrAppend(&text, "operators ", operators.size(), ", the rarest:");
  size_t shown = 0;
  for (const auto& [count, name] : by_count) {
    if (shown++ < 5) absl::StrAppend(&text, " ", name, " ", count);
  }
  return text + "\n";
}

}  // namespace chx
