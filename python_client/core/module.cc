// chx._core
#include "python_client/core/common.h"

PyMODINIT_FUNC PyInit__core() {
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                   "chx._core",
                                   "The compiled part of chx.",
                                   -1,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr};
  PyObject* module = PyModule_Create(&definition);
  using namespace chx::python;  // NOLINT(google-build-using-namespace)
  if (module == nullptr || !InitErrors(module) || !InitConvert() || !InitArrayType(module) ||
      !InitDeviceType(module) || !InitSessionType(module) || !InitOpFunctions(module) ||
      !InitExports(module) || !InitDlpack(module) || !InitResultMemory(module) ||
      PyModule_AddFunctions(module, admin_functions) < 0 ||
      PyModule_AddFunctions(module, autocast_functions) < 0 ||
      PyModule_AddFunctions(module, callback_functions) < 0 ||
      PyModule_AddFunctions(module, data_functions) < 0 ||
      PyModule_AddFunctions(module, device_functions) < 0 ||
      PyModule_AddFunctions(module, default_functions) < 0 ||
      PyModule_AddFunctions(module, grad_functions) < 0 ||
      PyModule_AddFunctions(module, function_functions) < 0 ||
      PyModule_AddFunctions(module, log_functions) < 0 ||
      PyModule_AddFunctions(module, optimizer_functions) < 0 ||
      PyModule_AddFunctions(module, program_functions) < 0 ||
      PyModule_AddFunctions(module, run_functions) < 0 ||
      PyModule_AddFunctions(module, sharing_functions) < 0 ||
      PyModule_AddFunctions(module, distributed_functions) < 0) {
    return nullptr;
  }
  InitWaits();
  return module;
}
