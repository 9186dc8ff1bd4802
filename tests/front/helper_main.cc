#include "server/helpers.h"

int main(int argc, char** argv) { return chx::server::RunHelper(argc, argv).value_or(2); }
