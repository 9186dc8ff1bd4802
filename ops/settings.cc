#include "ops/settings.h"

#include "ops/error.h"

namespace chx {
namespace {

struct Flag {
  absl::string_view name;
  bool Settings::*field;
};
constexpr Flag kFlags[] = {{"use_cudnn", &Settings::use_cudnn},
                           {"cudnn_deterministic", &Settings::cudnn_deterministic},
                           {"autotune", &Settings::autotune},
                           {"tf32", &Settings::tf32},
                           {"cudnn_tf32", &Settings::cudnn_tf32}};

}  // namespace

absl::Status ChangeSetting(absl::string_view name, Scalar value, Settings* settings) {
  if (value.is_float()) {
    return MakeError(ErrorKind::kType, absl::StrCat("[configure] expects bools and integers, got ",
                                                    value.AsDouble(), " for '", name, "'"));
  }
  for (const Flag& flag : kFlags) {
    if (flag.name != name) continue;
    if (value.AsInt() != 0 && value.AsInt() != 1) {
      return ValueError("[configure] expects '", name, "' to be True or False, got ",
                        value.AsInt());
    }
    settings->*flag.field = value.AsBool();
    return absl::OkStatus();
  }
  if (name != "max_workspace_size") {
    return ValueError(
        "[configure] expects use_cudnn, cudnn_deterministic, autotune, tf32, cudnn_tf32 or "
        "max_workspace_size, got '",
        name.substr(0, 40), "'");
  }
  if (value.AsInt() < 0) {
    return ValueError("[configure] expects a size that is not negative, got ", value.AsInt());
  }
  settings->max_workspace_size = value.AsInt();
  return absl::OkStatus();
}

}  // namespace chx
