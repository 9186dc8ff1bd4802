// What newer versions of Python's C API have, for the versions that lack it: 3.9 to 3.13 are
// supported.
#ifndef CHX_PYTHON_CLIENT_CORE_PYTHON_VERSIONS_H_
#define CHX_PYTHON_CLIENT_CORE_PYTHON_VERSIONS_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
// After Python.h.
#include <frameobject.h>

static_assert(PY_VERSION_HEX >= 0x03090000, "Python 3.9 or newer is needed");

#if PY_VERSION_HEX < 0x030A0000
// A static type without tp_new cannot be instantiated in any case.
#define Py_TPFLAGS_DISALLOW_INSTANTIATION 0

inline PyObject* Py_NewRef(PyObject* object) {
  Py_INCREF(object);
  return object;
}

inline PyObject* Py_XNewRef(PyObject* object) {
  Py_XINCREF(object);
  return object;
}

inline int PyModule_AddObjectRef(PyObject* module, const char* name, PyObject* value) {
  if (value == nullptr) return -1;
  Py_INCREF(value);
  if (PyModule_AddObject(module, name, value) == 0) return 0;
  Py_DECREF(value);
  return -1;
}
#endif

#if PY_VERSION_HEX < 0x030B0000
inline int PyFrame_GetLasti(PyFrameObject* frame) {
  if (frame->f_lasti < 0) return -1;
#if PY_VERSION_HEX < 0x030A0000
  return frame->f_lasti;
#else
  return frame->f_lasti * 2;  // it counts instructions of two bytes
#endif
}

inline double PyFloat_Unpack2(const char* bytes, int little_endian) {
  return _PyFloat_Unpack2(reinterpret_cast<const unsigned char*>(bytes), little_endian);
}
#endif

#if PY_VERSION_HEX < 0x030D0000
inline int Py_IsFinalizing() { return _Py_IsFinalizing(); }
#endif

#endif  // CHX_PYTHON_CLIENT_CORE_PYTHON_VERSIONS_H_
