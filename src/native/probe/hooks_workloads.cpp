// Dispatch: binaries on their way, programs launched, the operation that they belong to.
#include "attribution.hpp"
#include "notices.hpp"
#include "programs.hpp"
#include "recording.hpp"
#include "runtime.hpp"
#include "runtime_devices.hpp"
#include "strings.hpp"
#include "workloads.hpp"

namespace ttmem::probe {

namespace {

#define TT_WORKLOAD "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl"

constexpr std::uint8_t IN_FLIGHT = 1;

// Program and MeshWorkload are a pointer to their implementation, and its owner's word.
const void* implementation_of(const void* handle) { return *static_cast<const void* const*>(handle); }

void add_program(const void* workload, const void* program) {
    WorkloadParts* parts = workload_parts(workload, true);
    const std::uint32_t place = parts ? parts->count.load(std::memory_order_relaxed) : MAX_WORKLOAD_PROGRAMS;
    if (place < MAX_WORKLOAD_PROGRAMS) {
        parts->programs[place].store(program_id(implementation_of(program)), std::memory_order_relaxed);
        parts->count.store(place + 1, std::memory_order_release);
    }
}

DeviceGroup group_of(Region& region, const WorkloadParts* parts) {
    return parts ? group_of_device(region, parts->mesh.load(std::memory_order_relaxed)) : DeviceGroup{0, 0};
}

void tell_of_all(const Recording& recording, std::uint8_t op, std::uint8_t kind, const void* workload) {
    const WorkloadParts* parts = workload_parts(workload, false);
    const DeviceGroup group = group_of(recording.region(), parts);
    if (!group.mask) {
        return;
    }
    for_each_program(*parts, [&](std::uint64_t program) {
        Event event = notice(op, group, program);
        event.kind = kind;
        event.name = parts->name.load(std::memory_order_relaxed);
        append(recording.region(), recording.thread(), event);
    });
}

bool is_new(const void* workload) {
    const WorkloadParts* parts = workload_parts(workload, false);
    return parts && !parts->dispatches.load(std::memory_order_relaxed);
}

void dispatched(const Recording& recording, const void* workload) {
    Region& region = recording.region();
    WorkloadParts* parts = workload_parts(workload, false);
    const DeviceGroup group = group_of(region, parts);
    if (!group.mask) {
        return;
    }
    const bool hit = parts->dispatches.fetch_add(1, std::memory_order_relaxed) > 0;
    const Attribution who = attribute(region, recording.thread());
    for_each_program(*parts, [&](std::uint64_t program) {
        Event event = notice(PROGRAM_DISPATCH, group, program);
        event.flags = hit ? CACHE_HIT : CACHE_MISS;
        event.name = who.name ? who.name : parts->name.load(std::memory_order_relaxed);
        event.site = who.site;
        append(region, recording.thread(), event);
        count(region, group.mask, &Activity::dispatches);
        count(region, group.mask, hit ? &Activity::hits : &Activity::misses);
    });
}

}  // namespace

TTMEM_HOOK(void, on_add_program, TT_WORKLOAD "11add_programERKNS1_19MeshCoordinateRangeEONS0_7ProgramE", void*,
           const void*, void*)
void on_add_program(void* workload, const void* range, void* program) {
    if (const Recording recording; recording) {
        add_program(workload, program);
    }
    on_add_program_real(workload, range, program);
}

TTMEM_HOOK(void, on_workload_end, TT_WORKLOAD "D1Ev", void*)
void on_workload_end(void* workload) {
    on_workload_end_real(workload);
    remove_workload(workload);
}

// The first step of every enqueue, and the one that is told which mesh it is for.
TTMEM_HOOK(void, on_compile_workload, TT_WORKLOAD "7compileEPNS1_10MeshDeviceE", void*, void*)
void on_compile_workload(void* workload, void* mesh) {
    if (const Recording recording; recording) {
        if (WorkloadParts* parts = workload_parts(workload, true)) {
            parts->mesh.store(mesh, std::memory_order_relaxed);
        }
    }
    on_compile_workload_real(workload, mesh);
}

TTMEM_HOOK(void, on_finalize_workload, TT_WORKLOAD "16finalize_offsetsEPNS1_10MeshDeviceE", void*, void*)
void on_finalize_workload(void* workload, void* mesh) {
    on_finalize_workload_real(workload, mesh);
    if (const Recording recording; recording && is_new(workload)) {
        tell_of_all(recording, PROGRAM_FINALIZED, 0, workload);
    }
}

TTMEM_HOOK(void, on_load_binaries, TT_WORKLOAD "13load_binariesERNS1_16MeshCommandQueueE", void*, void*)
void on_load_binaries(void* workload, void* queue) {
    struct Scope {
        ThreadState* thread = thread_state();
        Scope() { thread ? ++thread->loading_binaries : 0; }
        ~Scope() { thread ? --thread->loading_binaries : 0; }
    };
    {
        const Scope scope;
        on_load_binaries_real(workload, queue);
    }
    if (const Recording recording; recording && is_new(workload)) {
        tell_of_all(recording, BINARY_STATUS, IN_FLIGHT, workload);
    }
}

TTMEM_HOOK(void, on_status, TT_WORKLOAD "25set_program_binary_statusEmNS0_19ProgramBinaryStatusE", void*,
           std::uint64_t, std::uint8_t)
void on_status(void* workload, std::uint64_t mesh, std::uint8_t status) {
    on_status_real(workload, mesh, status);
    if (const Recording recording; recording && is_new(workload)) {
        tell_of_all(recording, BINARY_STATUS, status, workload);
    }
}

TTMEM_HOOK(void, on_enqueue,
           "_ZN2tt8tt_metal11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb", void*,
           void*, bool)
void on_enqueue(void* queue, void* workload, bool blocking) {
    on_enqueue_real(queue, workload, blocking);
    if (const Recording recording; recording) {
        dispatched(recording, implementation_of(workload));
    }
}

// The specs come by reference, as everything with a destructor does; the name's two words in two registers.
TTMEM_HOOK(void, on_operation,
           "_ZN2tt8tt_metal9Inspector16emit_debug_entryEPKNS0_11distributed16MeshWorkloadImplEmSt17basic_string_"
           "viewIcSt11char_traitsIcEESt6vectorINS0_10TensorSpecESaISB_EESt8optionalIN4ttsl10StrongTypeIjNS2_"
           "14MeshTraceIdTagEEEE",
           const void*, std::uint64_t, std::size_t, const char*, void*, std::uint64_t)
void on_operation(const void* workload, std::uint64_t runtime_id, std::size_t length, const char* name, void* specs,
                  std::uint64_t trace) {
    if (const Recording recording; recording && name && length) {
        WorkloadParts* parts = workload_parts(workload, true);
        if (parts && !parts->name.load(std::memory_order_relaxed)) {
            parts->name.store(intern(recording.region(), name, length), std::memory_order_relaxed);
        }
    }
    on_operation_real(workload, runtime_id, length, name, specs, trace);
}

}  // namespace ttmem::probe
