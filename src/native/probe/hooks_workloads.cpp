// Dispatch: binaries being sent, programs launched, and the operation they belong to.
#include "attribution.hpp"
#include "features.hpp"
#include "notices.hpp"
#include "programs.hpp"
#include "recording.hpp"
#include "runtime_devices.hpp"
#include "strings.hpp"
#include "workloads.hpp"

namespace ttmem::probe {

namespace {

#define TT_WORKLOAD "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl"

Function<std::uint8_t(const void*, std::uint64_t)> binary_status{
    "_ZNK2tt8tt_metal11distributed16MeshWorkloadImpl25get_program_binary_statusEm"};

// Program and MeshWorkload consist of a pointer to their implementation, and its owner's word.
const void* implementation_of(const void* handle) { return *static_cast<const void* const*>(handle); }

void add_program(const void* workload, const void* range, const void* program, bool unseen, bool dispatch_seen) {
    WorkloadParts* parts = workload_parts(workload, true);
    if (parts && unseen) {
        parts->dispatches.store(1, order::GUARDED);
    }
    const std::uint32_t place = parts ? parts->count.load(order::GUARDED) : MAX_WORKLOAD_PROGRAMS;
    const bool fits = place < MAX_WORKLOAD_PROGRAMS;
    const std::uint64_t id = program_id(implementation_of(program));
    join_workload(id, mesh_range(range), fits && dispatch_seen);
    if (fits) {
        parts->programs[place].id.store(id, order::GUARDED);
        parts->count.store(place + 1, order::PUBLISH);
    }
}

// Stored with the workload, which is always dispatched by the same queue while its devices are open.
bool find_groups(Region& region, WorkloadParts& parts, const void* queue) {
    const std::uint64_t now = device_generation.load(order::OBSERVE);
    if (parts.queue.load(order::GUARDED) == queue && parts.generation.load(order::GUARDED) == now) {
        return true;
    }
    const void* mesh = mesh_of_queue(queue);
    if (!mesh) {
        return false;
    }
    std::uint64_t devices = 0;
    for_each_program(parts, [&](WorkloadProgram& program) {
        const DeviceGroup group = group_of_program(region, program.id.load(order::GUARDED), mesh);
        program.mask.store(group.mask, order::GUARDED);
        program.named.store(group.named, order::GUARDED);
        devices |= group.mask;
    });
    if (devices) {
        parts.queue.store(queue, order::GUARDED);
        parts.generation.store(now, order::GUARDED);
    }
    return devices;
}

void tell_of_first(const Recording& recording, WorkloadParts& parts, const void* workload, const void* queue) {
    const void* mesh = mesh_of_queue(queue);
    const std::uint8_t status = mesh ? binary_status(workload, static_cast<std::uint64_t>(mesh_id(mesh))) : 0;
    for_each_program(parts, [&](const WorkloadProgram& program) {
        const std::uint64_t id = program.id.load(order::GUARDED);
        if (!program.group().mask) {
            return;  // it runs on chips of another host
        }
        append(recording.region(), recording.thread(), notice(PROGRAM_FINALIZED, program.group(), id));
        if (status) {  // not "not sent"
            Event event = notice(BINARY_STATUS, program.group(), id);
            event.kind = status;
            append(recording.region(), recording.thread(), event);
        }
    });
}

// A workload that has run stays in the runtime's program cache until it is destroyed.
void count_entry(Region& region, WorkloadParts& parts) {
    std::uint64_t devices = 0, before = 0;
    for_each_program(parts, [&](const WorkloadProgram& program) { devices |= program.group().mask; });
    if (parts.cached_on.compare_exchange_strong(before, devices)) {
        count(region, devices, &Activity::cache_entries);
    }
}

TTMEM_RECORDS void accept(const Recording& recording, WorkloadParts* parts) {
    if (parts) {
        for_each_program(*parts, [&](const WorkloadProgram& program) {
            accept_layout(recording.region(), recording.thread(), program.id.load(order::GUARDED));
        });
    }
}

void dispatched(const Recording& recording, const void* workload, const void* queue) {
    Region& region = recording.region();
    WorkloadParts* parts = workload_parts(workload, false);
    if (waiting_layouts.load(order::GUARDED)) {  // the program of a cached operation was laid out again
        accept(recording, parts);
    }
    if (!parts || !find_groups(region, *parts, queue)) {
        return;
    }
    const bool hit = parts->dispatches.fetch_add(1, order::ALONE) > 0;
    if (!hit) {
        tell_of_first(recording, *parts, workload, queue);
    }
    if (!parts->cached_on.load(order::GUARDED)) {
        count_entry(region, *parts);
    }
    const Attribution who = attribute(region, recording.thread());
    for_each_program(*parts, [&](const WorkloadProgram& program) {
        const DeviceGroup group = program.group();
        if (!group.mask) {
            return;
        }
        Event event = notice(PROGRAM_DISPATCH, group, program.id.load(order::GUARDED));
        event.flags = hit ? CACHE_HIT : CACHE_MISS;
        event.name = who.name ? who.name : parts->name.load(order::GUARDED);
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
            if (parts && !parts->dispatches.load(order::GUARDED)) {
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
        } catch (...) {  // the runtime threw instead of answering
        }
    }
}

}  // namespace

// For an operation whose programs are cached, this is all that is reported.
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

TTMEM_HOOK(void, on_add_program, TT_WORKLOAD "11add_programERKNS1_19MeshCoordinateRangeEONS0_7ProgramE", void*,
           const void*, void*)
void on_add_program(void* workload, const void* range, void* program) {
    // Even while tracking is off: its dispatches may come when it is on. The first one comes at once, unobserved.
    if (const Recording recording{mapped_region.load(order::OBSERVE)}; recording) {
        add_program(workload, range, program, !tracking_region(), on_enqueue_real.address());
    }
    on_add_program_real(workload, range, program);
}

// All programs were laid out and passed the checks, and there is space for their binaries: nothing can be rejected any
// more.
TTMEM_HOOK(void, on_load_binaries, TT_WORKLOAD "13load_binariesERNS1_16MeshCommandQueueE", void*, void*)
void on_load_binaries(void* workload, void* queue) {
    on_load_binaries_real(workload, queue);
    if (waiting_layouts.load(order::GUARDED)) {
        if (const Recording recording; recording) {
            accept(recording, workload_parts(workload, false));
        }
    }
}

TTMEM_HOOK(void, on_workload_end, TT_WORKLOAD "D1Ev", void*)
void on_workload_end(void* workload) {
    on_workload_end_real(workload);
    const WorkloadParts* parts = workload_parts(workload, false);
    Region* region = mapped_region.load(order::OBSERVE);
    if (parts && region) {
        for_each_device(parts->cached_on.load(order::GUARDED), [&](std::uint32_t index) {
            region->activity[index].cache_entries.fetch_sub(1, order::ALONE);
        });
    }
    remove_workload(workload);
}

// The specs are passed by reference, like everything with a destructor; the name's two words in two registers.
TTMEM_HOOK(void, on_operation,
           "_ZN2tt8tt_metal9Inspector16emit_debug_entryEPKNS0_11distributed16MeshWorkloadImplEmSt17basic_string_"
           "viewIcSt11char_traitsIcEESt6vectorINS0_10TensorSpecESaISB_EESt8optionalIN4ttsl10StrongTypeIjNS2_"
           "14MeshTraceIdTagEEEE",
           const void*, std::uint64_t, std::size_t, const char*, void*, std::uint64_t)
void on_operation(const void* workload, std::uint64_t runtime_id, std::size_t length, const char* name, void* specs,
                  std::uint64_t trace) {
    if (const Recording recording; recording && name && length) {
        WorkloadParts* parts = workload_parts(workload, true);
        if (parts && !parts->name.load(order::GUARDED)) {
            parts->name.store(intern(recording.region(), name, length), order::GUARDED);
        }
    }
    on_operation_real(workload, runtime_id, length, name, specs, trace);
}

static const Feature dispatches{"dispatches", on_enqueue_real, on_add_program_real};
static const Feature binaries{"kernel binaries", on_enqueue_real, binary_status};
static const Feature cache{"program cache", on_enqueue_real, on_add_program_real, on_workload_end_real};
static const Feature names{"operation names", on_operation_real};

}  // namespace ttmem::probe
