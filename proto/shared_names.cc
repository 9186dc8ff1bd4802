// The encodings: 64-bit words, and texts as their length and bytes.
#include "proto/shared_names.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/attr.h"
#include "ops/error.h"

namespace chx {
namespace {

class Writer {
 public:
  void Word(uint64_t word) { out_.append(reinterpret_cast<const char*>(&word), sizeof(word)); }
  void Text(absl::string_view text) {
    Word(text.size());
    out_.append(text.data(), text.size());
  }
  void Spec(const ArraySpec& spec) {
    Word(static_cast<uint64_t>(spec.dtype));
    Word(spec.device);
    Word(static_cast<uint64_t>(spec.ndim()));
    for (int i = 0; i < spec.ndim(); ++i) {
      Word(static_cast<uint64_t>(spec.shape[i]));
      Word(static_cast<uint64_t>(spec.strides[i]));
    }
  }
  void Specs(const std::vector<ArraySpec>& specs) {
    Word(specs.size());
    for (const ArraySpec& spec : specs) Spec(spec);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Running over the end is remembered, not undefined.
class Reader {
 public:
  explicit Reader(absl::string_view data) : data_(data) {}
  uint64_t Word() {
    uint64_t word = 0;
    if (data_.size() < sizeof(word)) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&word, data_.data(), sizeof(word));
    data_.remove_prefix(sizeof(word));
    return word;
  }
  std::string Text() {
    const uint64_t size = Word();
    if (size > data_.size()) ok_ = false;
    if (!ok_) return "";
    std::string text(data_.substr(0, size));
    data_.remove_prefix(size);
    return text;
  }
  ArraySpec Spec() {
    const uint64_t dtype = Word();
    const uint64_t device = Word();
    const uint64_t ndim = Word();
    ok_ = ok_ && dtype < kNumDtypes && device <= UINT16_MAX && ndim <= kMaxNdim;
    if (!ok_) return ArraySpec();
    Ints shape;
    Ints strides;
    for (uint64_t i = 0; i < ndim; ++i) {
      shape.push_back(static_cast<int64_t>(Word()));
      strides.push_back(static_cast<int64_t>(Word()));
    }
    ok_ = ok_ && CheckShape("open", shape, static_cast<Dtype>(dtype)).ok();
    if (!ok_) return ArraySpec();
    ArraySpec spec(static_cast<Dtype>(dtype), Shape(shape), static_cast<DeviceId>(device));
    spec.strides = Strides(strides);
    return spec;
  }
  std::vector<ArraySpec> Specs() {
    const uint64_t count = Count();
    std::vector<ArraySpec> specs;
    for (uint64_t i = 0; i < count && ok_; ++i) specs.push_back(Spec());
    return specs;
  }
  // Of things that take a word at least.
  uint64_t Count() {
    const uint64_t count = Word();
    if (count > data_.size() / sizeof(uint64_t)) ok_ = false;
    return ok_ ? count : 0;
  }
  bool ok() const { return ok_; }
  bool empty() const { return data_.empty(); }
  absl::Status AtEnd() const {
    if (ok_ && data_.empty()) return absl::OkStatus();
    return ChainerxError("chxd answers in a form that this client does not know");
  }

 private:
  absl::string_view data_;
  bool ok_ = true;
};

}  // namespace

std::string EncodeSharedSpec(const ArraySpec& spec) {
  Writer writer;
  writer.Spec(spec);
  return writer.Take();
}

absl::StatusOr<ArraySpec> DecodeSharedSpec(absl::string_view data) {
  Reader reader(data);
  ArraySpec spec = reader.Spec();
  CHX_RETURN_IF_ERROR(reader.AtEnd());
  return spec;
}

std::string EncodeSharedTree(const SharedTree& tree) {
  Writer writer;
  writer.Word(tree.version);
  writer.Text(tree.structure);
  writer.Word(tree.arrays.size());
  for (const auto& [path, spec] : tree.arrays) {
    writer.Text(path);
    writer.Spec(spec);
  }
  if (tree.programs.empty()) return writer.Take();  // as older clients expect it
  writer.Word(tree.programs.size());
  for (const SharedProgram& program : tree.programs) {
    writer.Specs(program.arguments);
    writer.Specs(program.results);
  }
  return writer.Take();
}

absl::StatusOr<SharedTree> DecodeSharedTree(absl::string_view data) {
  Reader reader(data);
  SharedTree tree;
  tree.version = reader.Word();
  tree.structure = reader.Text();
  const uint64_t count = reader.Count();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    std::string path = reader.Text();
    tree.arrays.emplace_back(std::move(path), reader.Spec());
  }
  const uint64_t programs = reader.ok() && !reader.empty() ? reader.Count() : 0;
  for (uint64_t i = 0; i < programs && reader.ok(); ++i) {
    SharedProgram program;
    program.arguments = reader.Specs();
    program.results = reader.Specs();
    tree.programs.push_back(std::move(program));
  }
  CHX_RETURN_IF_ERROR(reader.AtEnd());
  return tree;
}

std::string EncodeSharedNames(const std::vector<SharedName>& names) {
  Writer writer;
  writer.Word(names.size());
  for (const SharedName& name : names) {
    writer.Text(name.tenant);
    writer.Text(name.name);
    writer.Word(name.version);
    writer.Word(name.arrays);
    writer.Word(name.bytes);
  }
  return writer.Take();
}

absl::StatusOr<std::vector<SharedName>> DecodeSharedNames(absl::string_view data) {
  Reader reader(data);
  const uint64_t count = reader.Count();
  std::vector<SharedName> names;
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    SharedName name;
    name.tenant = reader.Text();
    name.name = reader.Text();
    name.version = reader.Word();
    name.arrays = reader.Word();
    name.bytes = reader.Word();
    names.push_back(std::move(name));
  }
  CHX_RETURN_IF_ERROR(reader.AtEnd());
  return names;
}

std::string JoinPaths(const std::vector<std::string>& paths) { return absl::StrJoin(paths, "\n"); }

std::vector<std::string> SplitPaths(absl::string_view text) { return absl::StrSplit(text, '\n'); }

}  // namespace chx
