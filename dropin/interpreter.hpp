// The Python interpreter in which a module of the host may run code.
#pragma once

namespace cntk_dropin {

// Registers the engine's callbacks to be shut down when the Python interpreter of this process
// ends, if there is one. Afterwards Python would end threads that try to run Python code, but the
// engine's frames must not be unwound.
void end_callbacks_with_python() noexcept;

}  // namespace cntk_dropin
