// What a chx::Program is made of.
#ifndef CHX_CLIENT_PROGRAM_STATE_H_
#define CHX_CLIENT_PROGRAM_STATE_H_

#include <vector>

#include "base/ref.h"
#include "client/array.h"
#include "client/program.h"
#include "client/programs.h"

namespace chx {

struct Program::State {
  std::vector<Ref<RecordedProgram>> programs;  // one; of published ones, one for each shape
  std::vector<Programs::Numbers> numbers;      // what gives those that vary
  std::vector<Array> first_results;
};

}  // namespace chx

#endif  // CHX_CLIENT_PROGRAM_STATE_H_
