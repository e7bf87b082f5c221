// The calling line of the user's Python, read without the GIL.
//
// ttnn gives the GIL up before it allocates. The frames of the calling thread stay as they are meanwhile: only that
// thread itself changes them, and it is here. So they are read in place, nothing is called in the interpreter, and no
// reference count is touched. A build of CPython whose frames are somewhere else is recognised at the first call,
// which reads through the kernel (process_vm_readv) and so cannot fault.
#pragma once

#include "region.hpp"
#include "thread_state.hpp"

namespace ttmem::probe {

struct PythonCaller {
    std::uint32_t site;  // "file:line function"; with stacks, all frames
    std::uint32_t name;  // of the ttnn operation that the user called; 0 if it was none, or is not known yet
};

PythonCaller python_caller(Region& region, ThreadState& thread);

// The interpreter is about to end, and will free the states of threads that are still at work: no walk begins any more,
// and those that have begun are over.
void stop_walks();
void forget_walks();  // in the child of a fork

// Null, or why call sites are off.
const char* call_sites_missing();

}  // namespace ttmem::probe
