// What a program has: circular buffers, dataflow buffers and kernels, numbered from 0 in the live table.
#pragma once

#include <atomic>
#include <cstdint>

#include "region.hpp"
#include "thread_state.hpp"

namespace ttmem::probe {

struct ProgramParts {
    std::atomic<std::uint32_t> circular_buffers;
    std::atomic<std::uint32_t> kernels;
    void clear() {
        circular_buffers = 0;
        kernels = 0;
    }
};

// Null if there is no room, or if the program was never seen.
ProgramParts* parts_of(std::uint64_t program, bool make);

// Of a ProgramImpl*; 0 if that cannot be told.
std::uint64_t program_id(const void* program);

// The circular buffers of a finished layout take the place of those that the program had on the same devices.
void keep_layout(Region& region, ThreadState& thread);

void release_circular_buffers(Region& region, const ThreadState& thread, std::uint64_t program);
void release_program(Region& region, const ThreadState& thread, std::uint64_t program);

void forget_programs();  // in the child of a fork

}  // namespace ttmem::probe
