// The calling line of the user's Python, read without the GIL.
//
// ttnn releases the GIL before it allocates. Meanwhile the frames of the calling thread do not change: only that thread
// itself changes them, and it is here. So they are read in place, without calling the interpreter or touching a
// reference count. A build of CPython with another frame layout is detected at the first call, which reads through the
// kernel (process_vm_readv) and so cannot fault.
#pragma once

#include "region.hpp"
#include "thread_state.hpp"

namespace ttmem::probe {

struct PythonCaller {
    std::uint32_t site;  // "file:line function"; with stacks, all frames
    std::uint32_t name;  // the ttnn operation that the user called; 0 if none, or not known yet
};

PythonCaller python_caller(Region& region, ThreadState& thread);

// The interpreter is about to end, and will free the states of threads that are still running: no new walk starts, and
// those that have started are finished.
void stop_walks();
void forget_walks();  // in the child of a fork

// Null, or why call sites are off.
const char* call_sites_missing();

}  // namespace ttmem::probe
