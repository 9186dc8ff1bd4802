// Metrics as Prometheus reads them: families of samples, and their text form, version 0.0.4.
#ifndef CHX_SERVER_OBSERVABILITY_FAMILIES_H_
#define CHX_SERVER_OBSERVABILITY_FAMILIES_H_

#include <string>
#include <utility>
#include <vector>

namespace chx::server {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Family {
  enum Type { kCounter, kGauge };
  struct Sample {
    Labels labels;
    double value;
  };
  std::string name;
  std::string help;
  Type type;
  std::vector<Sample> samples;

  void Add(Labels labels, double value) { samples.push_back({std::move(labels), value}); }
};

// Families without samples too: whoever looks for one finds its name.
std::string ToPrometheusText(const std::vector<Family>& families);

inline constexpr char kPrometheusContentType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace chx::server

#endif  // CHX_SERVER_OBSERVABILITY_FAMILIES_H_
