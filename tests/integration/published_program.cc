// published_program ADDRESS NAME OWN: prints what the program under NAME gives for 0.25 everywhere,
// and publishes another one as OWN until its input ends.
#include <chx/chx.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int, char** argv) {
  const auto session = chx::Session::Connect(argv[1]).value();
  const absl::StatusOr<chx::Program> predict = chx::LookupProgram(*session, argv[2]);
  if (!predict.ok()) return Fail(predict.status());
  const chx::Array x = chx::full(*session, {4, 64}, 0.25, chx::Dtype::kFloat32);
  const chx::Program::Results results = predict->Run({x}, 3);
  if (!results.ok()) return Fail(results.status());
  std::vector<float> scores(40);
  const absl::Status read = (*results)[0].CopyTo(scores.data(), scores.size() * sizeof(float));
  if (!read.ok()) return Fail(read);

  const chx::Array one = chx::ones(*session, {}, chx::Dtype::kFloat32);
  const auto function = [&](absl::Span<const chx::Array> in) -> chx::Program::Results {
    return std::vector<chx::Array>{in[0] * 2.0 + one};
  };
  std::vector<chx::Program> programs;
  for (const chx::Ints& shape : {chx::Ints(), chx::Ints({2})}) {
    const chx::Array example = chx::zeros(*session, shape, chx::Dtype::kFloat32);
    programs.push_back(chx::Program::Trace(*session, function, {example}).value());
  }
  const absl::Status published = chx::PublishProgram(*session, argv[3], programs).status();
  if (!published.ok()) return Fail(published);
  for (float score : scores) std::printf("%.17g\n", double{score});
  std::fflush(stdout);
  std::getchar();
}
