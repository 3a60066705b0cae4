// The Python interpreter that a module of the host may run code in.
#pragma once

namespace cntk_dropin {

// Has Python end the engine's callbacks when its interpreter ends, if there is one in this process. Threads
// that want to run Python code later are ended by Python, and may not be: the engine's frames cannot be
// unwound.
void end_callbacks_with_python() noexcept;

}  // namespace cntk_dropin
