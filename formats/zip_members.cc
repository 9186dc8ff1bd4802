#include "formats/zip_members.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr uint64_t kEndBytes = 22;  // of the record at the end, before a comment
constexpr uint64_t kMaxComment = 0xffff;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kEntryBytes = 46;  // before the name
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kMaxDirectory = 1 << 20;
constexpr uint64_t kMaxMembers = 4096;
constexpr uint64_t kIn64 = 0xffffffff;  // the number is in a record of ZIP64

uint64_t Number(absl::string_view data, size_t begin, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes; ++i) {
    number |= uint64_t{static_cast<unsigned char>(data[begin + i])} << (8 * i);
  }
  return number;
}

absl::Status NoZip() { return ValueError("expects a .npz file, which is a ZIP archive"); }
absl::Status Damaged() { return ValueError("is a damaged ZIP archive"); }

// A part of the archive, which has to be within it.
absl::StatusOr<std::string> Read(ReadAtFn read, uint64_t all, uint64_t begin, uint64_t bytes) {
  if (begin > all || bytes > all - begin) return Damaged();
  std::string data(static_cast<size_t>(bytes), '\0');
  CHX_RETURN_IF_ERROR(read(begin, &data[0], data.size()));
  return data;
}

struct Directory {
  uint64_t members = 0;
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

absl::StatusOr<Directory> FindDirectory(ReadAtFn read, uint64_t all) {
  if (all < kEndBytes) return NoZip();
  const uint64_t size = std::min(all, kEndBytes + kMaxComment);
  CHX_ASSIGN_OR_RETURN(const std::string tail, Read(read, all, all - size, size));
  size_t at = tail.size() - kEndBytes;
  // Before a comment that goes to the archive's end.
  while (tail.compare(at, 4, "PK\5\6") != 0 ||
         Number(tail, at + 20, 2) != tail.size() - at - kEndBytes) {
    if (at-- == 0) return NoZip();
  }
  Directory directory = {Number(tail, at + 10, 2), Number(tail, at + 16, 4),
                         Number(tail, at + 12, 4)};
  if (directory.members != 0xffff && directory.begin != kIn64 && directory.bytes != kIn64) {
    return directory;
  }
  const uint64_t end = all - size + at;
  if (end < kLocatorBytes) return Damaged();
  CHX_ASSIGN_OR_RETURN(const std::string locator,
                       Read(read, all, end - kLocatorBytes, kLocatorBytes));
  if (locator.compare(0, 4, "PK\6\7") != 0) return Damaged();
  CHX_ASSIGN_OR_RETURN(const std::string end64,
                       Read(read, all, Number(locator, 8, 8), kEnd64Bytes));
  if (end64.compare(0, 4, "PK\6\6") != 0) return Damaged();
  return Directory{Number(end64, 32, 8), Number(end64, 48, 8), Number(end64, 40, 8)};
}

// The numbers of an entry that ZIP64 keeps apart: bytes, compressed bytes and the place, in this
// order, those that do not fit.
bool Take64(absl::string_view extra, const std::vector<uint64_t*>& numbers) {
  while (extra.size() >= 4) {
    const uint64_t id = Number(extra, 0, 2);
    const size_t bytes = static_cast<size_t>(Number(extra, 2, 2));
    extra.remove_prefix(4);
    if (bytes > extra.size()) return false;
    absl::string_view field = extra.substr(0, bytes);
    extra.remove_prefix(bytes);
    if (id != 1) continue;
    for (uint64_t* const number : numbers) {
      if (*number != kIn64) continue;
      if (field.size() < 8) return false;
      *number = Number(field, 0, 8);
      field.remove_prefix(8);
    }
    return true;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ReadZipMembers(ReadAtFn read, uint64_t bytes) {
  CHX_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(read, bytes));
  if (directory.members > kMaxMembers || directory.bytes > kMaxDirectory) {
    return ValueError("expects a ZIP archive of at most ", kMaxMembers, " members");
  }
  CHX_ASSIGN_OR_RETURN(const std::string entries,
                       Read(read, bytes, directory.begin, directory.bytes));
  absl::string_view left = entries;
  std::vector<ZipMember> members;
  for (uint64_t i = 0; i < directory.members; ++i) {
    if (left.size() < kEntryBytes || left.substr(0, 4) != "PK\1\2") return Damaged();
    const uint64_t flags = Number(left, 8, 2);
    const uint64_t method = Number(left, 10, 2);
    uint64_t packed = Number(left, 20, 4);
    uint64_t size = Number(left, 24, 4);
    uint64_t place = Number(left, 42, 4);
    const auto name_bytes = static_cast<size_t>(Number(left, 28, 2));
    const auto extra_bytes = static_cast<size_t>(Number(left, 30, 2));
    const size_t entry_bytes =
        kEntryBytes + name_bytes + extra_bytes + static_cast<size_t>(Number(left, 32, 2));
    if (left.size() < entry_bytes ||
        !Take64(left.substr(kEntryBytes + name_bytes, extra_bytes), {&size, &packed, &place})) {
      return Damaged();
    }
    ZipMember member;
    member.name = std::string(left.substr(kEntryBytes, name_bytes));
    left.remove_prefix(entry_bytes);
    if ((flags & 1) != 0 || method != 0 || packed != size) {
      return ValueError("expects members without compression, as numpy.savez writes them, got '",
                        member.name, "' with");
    }
    CHX_ASSIGN_OR_RETURN(const std::string local, Read(read, bytes, place, kLocalBytes));
    if (local.compare(0, 4, "PK\3\4") != 0) return Damaged();
    member.begin = place + kLocalBytes + Number(local, 26, 2) + Number(local, 28, 2);
    member.bytes = size;
    if (member.begin > bytes || size > bytes - member.begin) return Damaged();
    members.push_back(std::move(member));
  }
  return members;
}

}  // namespace chx
