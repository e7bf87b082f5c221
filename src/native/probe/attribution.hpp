// What caused an event: the ttnn operation and the line of Python that this thread is executing.
#pragma once

#include "python_frames.hpp"

namespace ttmem::probe {

struct Attribution {
    std::uint32_t name;
    std::uint32_t site;
};

inline Attribution attribute(Region& region, ThreadState& thread) {
    if (!(region.header->options & CALL_SITES)) {
        return {0, 0};
    }
    const PythonCaller caller = python_caller(region, thread);
    return {caller.name, caller.site};
}

}  // namespace ttmem::probe
