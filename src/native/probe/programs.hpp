// What a program has: circular buffers, dataflow buffers and kernels, numbered from 0 in the live table.
#pragma once

#include <atomic>
#include <cstdint>

#include "region.hpp"
#include "runtime_devices.hpp"
#include "thread_state.hpp"

namespace ttmem::probe {

struct ProgramParts {
    std::atomic<std::uint32_t> circular_buffers;
    std::atomic<std::uint32_t> kernels;
    std::atomic<std::uint32_t> laid_out;      // circular buffers that wait for the program to be accepted
    std::atomic<std::uint32_t> dimensions;    // with `first` and `last`: its MeshRange
    std::atomic<std::uint64_t> first, last;
    std::atomic<const void*> device;          // the last one that it was asked about, and what it is there:
    std::atomic<std::uint64_t> mask;
    std::atomic<std::uint64_t> generation;    // of the devices at that time
    std::atomic<std::uint32_t> named;
    std::atomic<bool> accepted_by_dispatch;   // of its workload; else when its layout has passed the runtime's checks
    void clear() {
        circular_buffers = 0;
        kernels = 0;
        laid_out = 0;
        dimensions = 0;
        device = nullptr;
        accepted_by_dispatch = false;
    }
};

// Null if there is no space, or if the program was never seen.
ProgramParts* parts_of(std::uint64_t program, bool make);

// The id of a ProgramImpl*; 0 if unknown.
std::uint64_t program_id(const void* program);

// The runtime compiles a program and lays it out for a whole mesh. It is on the chips that its workload names.
void join_workload(std::uint64_t program, const MeshRange& range, bool dispatch_seen);
DeviceGroup group_of_program(Region& region, std::uint64_t program, const void* device);

// The circular buffers of a finished layout wait in the live table, neither counted nor reported: the runtime may still
// reject the program, because they do not fit or because another program of its workload does not.
void keep_layout(Region& region, ThreadState& thread);

// The program was accepted: they replace those that it had on the same devices.
void accept_layout(Region& region, const ThreadState& thread, std::uint64_t program);

// The number of waiting layouts. If it is 0, dispatching a cached program checks nothing else.
extern std::atomic<std::int64_t> waiting_layouts;

void release_circular_buffers(Region& region, const ThreadState& thread, std::uint64_t program);
void release_program(Region& region, const ThreadState& thread, std::uint64_t program);

void forget_programs();  // in the child of a fork

}  // namespace ttmem::probe
