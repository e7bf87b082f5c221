// What the probe remembers for each thread. It is made at the thread's first event and freed when the thread ends.
#pragma once

#include <cstdint>

#include "layout.hpp"

namespace ttmem::probe {

// One circular or dataflow buffer while a program's layout is being made; the runtime names it once per device.
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
    bool goes_on;  // the layout before it is the same program's, and stays
    PendingCb pending[MAX_PENDING];
};

// All that an event needs to know of a frame, in one cache line.
struct alignas(64) SiteCacheEntry {
    std::uint64_t code;
    std::uint64_t identity;  // of the code object, whose address may be used again
    std::uint32_t instruction;
    std::uint32_t meaning;  // a site's number, or whose frame it is (python_frames.cpp)
    const void* operation;  // that was called from here last
    std::uint32_t name;     // of that operation; 0 = not known yet
};

constexpr int SITE_CACHE = 1024;

struct ThreadState {
    bool inside;  // a hook is at work in this thread: whatever it calls is not news
    bool python_known;  // `python` is decided
    std::uint8_t program_type;
    std::uint16_t number;
    std::uint32_t phase;
    int loading_binaries;
    const void* python;  // the main thread's state, if it can never go away (python_frames.cpp)
    ProgramLayout layout;
    SiteCacheEntry sites[SITE_CACHE];
};

// Null if there is no memory: then this call goes unseen.
ThreadState* thread_state();

void forget_thread();  // in the child of a fork: what it remembers names numbers of the parent's region

}  // namespace ttmem::probe
