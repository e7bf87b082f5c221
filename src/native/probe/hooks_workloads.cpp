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

Function<std::uint8_t(const void*, std::uint64_t)> binary_status{
    "_ZNK2tt8tt_metal11distributed16MeshWorkloadImpl25get_program_binary_statusEm"};

// Program and MeshWorkload are a pointer to their implementation, and its owner's word.
const void* implementation_of(const void* handle) { return *static_cast<const void* const*>(handle); }

void add_program(const void* workload, const void* program, bool unseen) {
    WorkloadParts* parts = workload_parts(workload, true);
    if (parts && unseen) {
        parts->dispatches.store(1, std::memory_order_relaxed);
    }
    const std::uint32_t place = parts ? parts->count.load(std::memory_order_relaxed) : MAX_WORKLOAD_PROGRAMS;
    if (place < MAX_WORKLOAD_PROGRAMS) {
        parts->programs[place].store(program_id(implementation_of(program)), std::memory_order_relaxed);
        parts->count.store(place + 1, std::memory_order_release);
    }
}

// Remembered with the workload, which is always dispatched by the same queue while its devices are open.
DeviceGroup group_of(Region& region, WorkloadParts& parts, const void* queue) {
    const std::uint64_t now = device_generation.load(std::memory_order_acquire);
    if (parts.queue.load(std::memory_order_relaxed) == queue && parts.generation.load(std::memory_order_relaxed) == now) {
        return {parts.mask.load(std::memory_order_relaxed), parts.named.load(std::memory_order_relaxed)};
    }
    const DeviceGroup group = group_of_queue(region, queue);
    if (group.mask) {
        parts.mask.store(group.mask, std::memory_order_relaxed);
        parts.named.store(group.named, std::memory_order_relaxed);
        parts.queue.store(queue, std::memory_order_relaxed);
        parts.generation.store(now, std::memory_order_relaxed);
    }
    return group;
}

void tell_of_first(const Recording& recording, const DeviceGroup& group, const WorkloadParts& parts,
                   const void* workload, const void* queue) {
    const void* mesh = mesh_of_queue(queue);
    const std::uint8_t status = mesh ? binary_status(workload, static_cast<std::uint64_t>(mesh_id(mesh))) : 0;
    for_each_program(parts, [&](std::uint64_t program) {
        append(recording.region(), recording.thread(), notice(PROGRAM_FINALIZED, group, program));
        if (status) {  // not "not sent"
            Event event = notice(BINARY_STATUS, group, program);
            event.kind = status;
            append(recording.region(), recording.thread(), event);
        }
    });
}

void dispatched(const Recording& recording, const void* workload, const void* queue) {
    Region& region = recording.region();
    WorkloadParts* parts = workload_parts(workload, false);
    const DeviceGroup group = parts ? group_of(region, *parts, queue) : DeviceGroup{0, 0};
    if (!group.mask) {
        return;
    }
    const bool hit = parts->dispatches.fetch_add(1, std::memory_order_relaxed) > 0;
    if (!hit) {
        tell_of_first(recording, group, *parts, workload, queue);
    }
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

// A program's first dispatch is the only one that allocates: the buffer for its binaries.
class FirstDispatch {
public:
    explicit FirstDispatch(const void* workload) {
        if (const Recording recording; recording) {
            expect_event(recording.region());
            const WorkloadParts* parts = workload_parts(workload, true);
            if (parts && !parts->dispatches.load(std::memory_order_relaxed)) {
                thread_ = &recording.thread();
                ++thread_->loading_binaries;
            }
        }
    }
    ~FirstDispatch() { thread_ ? --thread_->loading_binaries : 0; }
    FirstDispatch(const FirstDispatch&) = delete;
    FirstDispatch& operator=(const FirstDispatch&) = delete;

private:
    ThreadState* thread_ = nullptr;
};

template <typename Real>
TTMEM_RECORDS void enqueue(void* queue, void* workload, Real real) {
    {
        const FirstDispatch scope(implementation_of(workload));
        real();
    }
    if (const Recording recording; recording) {
        try {
            dispatched(recording, implementation_of(workload), queue);
        } catch (...) {  // the runtime would not say what was asked
        }
    }
}

}  // namespace

TTMEM_HOOK(void, on_add_program, TT_WORKLOAD "11add_programERKNS1_19MeshCoordinateRangeEONS0_7ProgramE", void*,
           const void*, void*)
void on_add_program(void* workload, const void* range, void* program) {
    // Also while tracking is off: its dispatches may come when it is on. The first one comes at once, and unseen.
    if (const Recording recording{mapped_region.load(std::memory_order_acquire)}; recording) {
        add_program(workload, program, !tracking_region());
    }
    on_add_program_real(workload, range, program);
}

TTMEM_HOOK(void, on_workload_end, TT_WORKLOAD "D1Ev", void*)
void on_workload_end(void* workload) {
    on_workload_end_real(workload);
    remove_workload(workload);
}

// Of an operation whose programs are in the cache, this is the only function that is called.
TTMEM_HOOK(void, on_enqueue,
           "_ZN2tt8tt_metal11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb", void*,
           void*, bool)
void on_enqueue(void* queue, void* workload, bool blocking) {
    if (tracking_region()) {
        enqueue(queue, workload, [&] { on_enqueue_real(queue, workload, blocking); });
    } else {
        on_enqueue_real(queue, workload, blocking);
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
