#include "interpreter.hpp"

#include <cntk_reader.h>
#include <dlfcn.h>

#include <initializer_list>

namespace cntk_dropin {
namespace {

struct PyObject;
struct PyThreadState;

// PyMethodDef of all versions of Python.
struct Method {
  const char* name;
  PyObject* (*function)(PyObject* self, PyObject* arguments);
  int flags;
  const char* doc;
};
constexpr int kNoArguments = 0x0004;  // METH_NOARGS

// The required functions of Python's C interface. The modules are not linked to Python, which
// CNTK's C++ program does not have.
struct Python {
  int (*is_initialized)() = nullptr;
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  PyThreadState* (*save_thread)() = nullptr;
  void (*restore_thread)(PyThreadState*) = nullptr;
  PyObject* (*import)(const char*) = nullptr;
  PyObject* (*make_function)(Method*, PyObject*, PyObject*) = nullptr;
  PyObject* (*call_method)(PyObject*, const char*, const char*, ...) = nullptr;
  PyObject* (*build_value)(const char*, ...) = nullptr;
  void (*drop)(PyObject*) = nullptr;
  void (*clear_error)() = nullptr;
  bool is_complete = true;

  Python() {
    find(is_initialized, "Py_IsInitialized");
    find(ensure, "PyGILState_Ensure");
    find(release, "PyGILState_Release");
    find(save_thread, "PyEval_SaveThread");
    find(restore_thread, "PyEval_RestoreThread");
    find(import, "PyImport_ImportModule");
    find(make_function, "PyCFunction_NewEx");
    find(call_method, "PyObject_CallMethod");
    find(build_value, "Py_BuildValue");
    find(drop, "Py_DecRef");
    find(clear_error, "PyErr_Clear");
  }

 private:
  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    if (function == nullptr) is_complete = false;
  }
};

const Python& python() {
  static const Python found;
  return found;
}

PyObject* at_exit(PyObject*, PyObject*) {
  // Running callbacks need the interpreter's lock to finish.
  PyThreadState* const state = python().save_thread();
  cntk_reader_callbacks_end();
  python().restore_thread(state);
  return python().build_value("");
}

}  // namespace

void end_callbacks_with_python() noexcept {
  const Python& py = python();
  if (!py.is_complete || py.is_initialized() == 0) return;
  static Method method = {"end_callbacks", at_exit, kNoArguments, nullptr};
  const int state = py.ensure();
  static bool is_registered = false;  // under the interpreter's lock
  if (!is_registered) {
    PyObject* const module = py.import("atexit");
    PyObject* const function = module != nullptr ? py.make_function(&method, nullptr, nullptr) : nullptr;
    PyObject* const result =
        function != nullptr ? py.call_method(module, "register", "O", function) : nullptr;
    is_registered = result != nullptr;
    if (!is_registered) py.clear_error();
    for (PyObject* const object : {result, function, module}) {
      if (object != nullptr) py.drop(object);
    }
  }
  py.release(state);
}

}  // namespace cntk_dropin
