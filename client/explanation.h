// What the daemon says about recorded steps, as text and as a picture.
#ifndef CHX_CLIENT_EXPLANATION_H_
#define CHX_CLIENT_EXPLANATION_H_

#include <string>

#include "absl/types/span.h"

namespace chx {

// Of one recording.
struct Explained {
  std::string title;
  std::string lines;  // RecordedProgram::Explain
};

// Of all recordings, one after the other.
std::string ExplanationAsText(absl::Span<const Explained> recordings);
// The same as SVG: a box for each step, and a bar for its part of the time.
std::string ExplanationAsSvg(absl::Span<const Explained> recordings);

}  // namespace chx

#endif  // CHX_CLIENT_EXPLANATION_H_
