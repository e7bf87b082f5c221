// State of each thread, created at its first event and freed when the thread ends.
#pragma once

#include <cstdint>

#include "layout.hpp"

namespace ttmem::probe {

// One circular or dataflow buffer while a program is being laid out; the runtime names it once per device.
struct PendingCb {
    std::uint64_t address;
    std::uint64_t size;  // per core
    std::uint64_t devices;  // bit = index of the device
    std::uint32_t cores;
    std::uint32_t core_count;
    std::uint16_t flags;
};

constexpr int MAX_PENDING = 256;  // 64 circular buffers per core at most, on several sets of cores

struct ProgramLayout {
    std::uint64_t program;
    std::uint64_t devices;  // that the program is on
    std::uint32_t mesh;     // that it was laid out for
    std::uint32_t cores;    // the set that was reserved last
    std::uint32_t core_count;
    int count;
    bool active;
    bool dataflow;
    bool goes_on;  // the previous layout is of the same program, and is kept
    PendingCb pending[MAX_PENDING];
};

// Everything that an event needs to know about a frame, in one cache line.
struct alignas(64) SiteCacheEntry {
    std::uint64_t code;
    std::uint64_t identity;  // of the code object, whose address may be reused
    std::uint32_t instruction;
    std::uint32_t meaning;  // a site's number, or whose frame it is (python_frames.cpp)
    const void* operation;  // that was called from here last
    std::uint32_t name;     // of that operation; 0 = not known yet
};

constexpr int SITE_CACHE = 1024;

struct ThreadState {
    bool inside;  // a hook is running in this thread: what it calls is not recorded
    bool python_known;  // `python` is decided
    std::uint8_t program_type;
    std::uint16_t number;
    std::uint32_t phase;
    int loading_binaries;
    const void* python;  // the main thread's state, if it can never go away (python_frames.cpp)
    ProgramLayout layout;
    SiteCacheEntry sites[SITE_CACHE];
};

// Null if out of memory: then this call is not recorded.
ThreadState* thread_state();

void forget_thread();  // in a forked child: cached numbers refer to the parent's region

}  // namespace ttmem::probe
