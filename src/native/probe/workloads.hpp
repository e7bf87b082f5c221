// Workloads: the programs of one operation on a mesh, which are dispatched together.
#pragma once

#include <atomic>
#include <cstdint>

#include "device_groups.hpp"

namespace ttmem::probe {

constexpr int MAX_WORKLOAD_PROGRAMS = 64;  // one per chip, if they all differ

// A program, and the devices that it was last dispatched to.
struct WorkloadProgram {
    std::atomic<std::uint64_t> id;
    std::atomic<std::uint64_t> mask;
    std::atomic<std::uint32_t> named;
    DeviceGroup group() const {
        return {mask.load(order::GUARDED), named.load(order::GUARDED)};
    }
};

// What a dispatch needs to know is in the first cache line, if there is one program.
struct alignas(64) WorkloadParts {
    std::atomic<std::uint32_t> count;
    std::atomic<std::uint32_t> name;  // the operation's name in the runtime
    std::atomic<std::uint32_t> dispatches;
    std::atomic<const void*> queue;         // the queue that dispatched it last; null: the groups are unknown
    std::atomic<std::uint64_t> generation;  // of the devices at that time
    std::atomic<std::uint64_t> cached_on;   // devices that count it as an entry of the program cache
    WorkloadProgram programs[MAX_WORKLOAD_PROGRAMS];
    void clear() {
        count = 0;
        name = 0;
        dispatches = 0;
        queue = nullptr;
        cached_on = 0;
    }
};
static_assert(offsetof(WorkloadParts, programs) + sizeof(WorkloadProgram) == 64, "one cache line");

// The workload of a MeshWorkloadImpl*; null if there is no space, or if it was never seen.
WorkloadParts* workload_parts(const void* workload, bool make);
void remove_workload(const void* workload);

template <typename Action>
void for_each_program(WorkloadParts& parts, Action action) {
    const std::uint32_t count = parts.count.load(order::OBSERVE);
    for (std::uint32_t i = 0; i < count && i < MAX_WORKLOAD_PROGRAMS; ++i) {
        action(parts.programs[i]);
    }
}

void forget_workloads();  // in the child of a fork

}  // namespace ttmem::probe
