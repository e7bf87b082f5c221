// Circular buffers, dataflow buffers and scratchpads: what a program holds in L1 besides tensors.
//
// The runtime reports circular buffers individually while it lays out a program, without naming the program; it does
// not report dataflow buffers and scratchpads, but marks their addresses. Both are collected in the thread that does
// the layout, kept when it is finished, and counted when the runtime has accepted the program (programs.hpp).
#include <exception>
#include <vector>

#include "core_sets.hpp"
#include "failures.hpp"
#include "features.hpp"
#include "programs.hpp"
#include "recording.hpp"
#include "runtime_devices.hpp"

namespace ttmem::probe {

namespace {

#define TT_PROGRAM "_ZN2tt8tt_metal6detail11ProgramImpl"

Function<const std::vector<Rectangle>*(const void*)> ranges_of{"_ZNK2tt8tt_metal12CoreRangeSet6rangesEv"};

CoreSet cores_of(Region& region, const void* core_range_set) {
    const std::vector<Rectangle>* ranges = core_range_set ? ranges_of(core_range_set) : nullptr;
    return ranges ? intern_cores(region, ranges->data(), ranges->size()) : CoreSet{0, 0};
}

enum class Sort { CIRCULAR_BUFFERS, DATAFLOW_BUFFERS, SCRATCHPADS };

void begin(const Recording& recording, const void* program, const void* device, Sort sort) {
    ProgramLayout& layout = recording.thread().layout;
    layout.program = program_id(program);
    layout.devices = group_of_program(recording.region(), layout.program, device).mask;
    layout.mesh = mesh_number(device);
    layout.cores = layout.core_count = 0;
    layout.count = 0;
    layout.dataflow = sort != Sort::CIRCULAR_BUFFERS;
    layout.goes_on = sort == Sort::SCRATCHPADS;  // they come after the dataflow buffers
    layout.active = true;
}

void collect(Region& region, ProgramLayout& layout, const PendingCb& seen) {
    if (!seen.devices) {
        return;  // the runtime names all chips of a mesh, including those that the program does not run on
    }
    for (int i = layout.count; i-- > 0;) {
        PendingCb& known = layout.pending[i];
        const bool same = known.address == seen.address && known.size == seen.size && known.cores == seen.cores &&
                          known.core_count == seen.core_count && known.flags == seen.flags;
        if (same && (layout.dataflow || !(known.devices & seen.devices))) {
            known.devices |= seen.devices;
            return;
        }
    }
    if (layout.count < MAX_PENDING) {
        layout.pending[layout.count++] = seen;
    } else {
        region.header->live_without_space.fetch_add(1, order::ALONE);
    }
}

// Only its workload knows whether a program will run; one that is in no workload runs when it has passed the checks.
void passed(const void* program) {
    if (!waiting_layouts.load(order::GUARDED)) {
        return;  // it was laid out before, and is checked again
    }
    if (const Recording recording; recording) {
        const std::uint64_t id = program_id(program);
        const ProgramParts* parts = parts_of(id, false);
        if (parts && !parts->accepted_by_dispatch.load(order::GUARDED)) {
            accept_layout(recording.region(), recording.thread(), id);
        }
    }
}

// Runs the runtime's own layout while collecting. A program whose layout is rejected has none.
template <typename Real>
void lay_out(Real&& real, const void* program, const void* device, Sort sort, Symbol& check) {
    struct Scope {
        ThreadState* thread = nullptr;
        ~Scope() {
            if (thread) {
                thread->layout.active = false;
            }
        }
    } scope;
    if (const Recording recording; recording) {
        begin(recording, program, device, sort);
        scope.thread = &recording.thread();
    }
    real();
    if (const Recording recording; recording && scope.thread) {
        keep_layout(recording.region(), recording.thread());
    }
    if (!check.address()) {
        passed(program);
    }
}

template <typename Real>
void watch(Real&& real, const void* program, const void* device, std::uint32_t what) {
    try {
        real();
    } catch (const std::exception& problem) {
        if (const Recording recording; recording) {
            failed(recording, {what, KIND_L1, 0, program_id(program), device}, problem.what());
        }
        throw;
    }
    passed(program);
}

}  // namespace

TTMEM_HOOK(void, on_validate_cbs, TT_PROGRAM "31validate_circular_buffer_regionEPKNS0_7IDeviceE", void*, const void*)
void on_validate_cbs(void* program, const void* device) {
    watch([&] { on_validate_cbs_real(program, device); }, program, device, 1);
}

TTMEM_HOOK(void, on_validate_dfbs, TT_PROGRAM "31validate_dataflow_buffer_regionEPKNS0_7IDeviceE", void*, const void*)
void on_validate_dfbs(void* program, const void* device) {
    watch([&] { on_validate_dfbs_real(program, device); }, program, device, 2);
}

TTMEM_HOOK(void, on_lay_out_cbs, TT_PROGRAM "25allocate_circular_buffersEPKNS0_7IDeviceE", void*, const void*)
void on_lay_out_cbs(void* program, const void* device) {
    lay_out([&] { on_lay_out_cbs_real(program, device); }, program, device, Sort::CIRCULAR_BUFFERS,
            on_validate_cbs_real);
}

TTMEM_HOOK(void, on_lay_out_dfbs, TT_PROGRAM "25allocate_dataflow_buffersEPKNS0_7IDeviceE", void*, const void*)
void on_lay_out_dfbs(void* program, const void* device) {
    lay_out([&] { on_lay_out_dfbs_real(program, device); }, program, device, Sort::DATAFLOW_BUFFERS,
            on_validate_dfbs_real);
}

TTMEM_HOOK(void, on_lay_out_scratchpads, TT_PROGRAM "20allocate_scratchpadsEPKNS0_7IDeviceE", void*, const void*)
void on_lay_out_scratchpads(void* program, const void* device) {
    lay_out([&] { on_lay_out_scratchpads_real(program, device); }, program, device, Sort::SCRATCHPADS,
            on_validate_dfbs_real);
}

TTMEM_HOOK(void, on_cb, "_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE",
           void*, const void*, std::uint64_t, std::uint64_t, bool, const void*)
void on_cb(void* tracker, const void* cores, std::uint64_t address, std::uint64_t size, bool global,
           const void* device) {
    on_cb_real(tracker, cores, address, size, global, device);
    const Recording recording;
    if (recording && recording.thread().layout.active && !recording.thread().layout.dataflow) {
        const CoreSet set = cores_of(recording.region(), cores);
        ProgramLayout& layout = recording.thread().layout;
        const std::uint64_t devices = group_of_device(recording.region(), device).mask & layout.devices;
        const std::uint16_t flags = global ? GLOBAL : 0;
        collect(recording.region(), layout, {address, size, devices, set.number, set.total, flags});
    }
}

// Since 0.81: which cores the next dataflow buffer or scratchpad is for.
TTMEM_HOOK(void*, on_reserve, TT_PROGRAM "24reserve_program_local_l1EPKNS0_7IDeviceERKNS0_12CoreRangeSetE", void*,
           const void*, const void*)
void* on_reserve(void* program, const void* device, const void* cores) {
    if (const Recording recording; recording && recording.thread().layout.active) {
        const CoreSet set = cores_of(recording.region(), cores);
        recording.thread().layout.cores = set.number;
        recording.thread().layout.core_count = set.total;
    }
    return on_reserve_real(program, device, cores);
}

TTMEM_HOOK(void, on_mark, TT_PROGRAM "23CircularBufferAllocator12mark_addressEmmm", void*, std::uint64_t, std::uint64_t,
           std::uint64_t)
void on_mark(void* allocator, std::uint64_t address, std::uint64_t size, std::uint64_t base) {
    on_mark_real(allocator, address, size, base);
    const Recording recording;
    if (!recording || !recording.thread().layout.active || !recording.thread().layout.dataflow) {
        return;
    }
    ProgramLayout& layout = recording.thread().layout;
    CoreSet set{layout.cores, layout.core_count};
    if (!set.total) {  // an older runtime: the allocator starts with its range of cores
        set = intern_cores(recording.region(), static_cast<const Rectangle*>(allocator), 1);
    }
    collect(recording.region(), layout, {address, size, layout.devices, set.number, set.total, DATAFLOW});
}

TTMEM_HOOK(void, on_free_cbs, TT_PROGRAM "27deallocate_circular_buffersEv", void*)
void on_free_cbs(void* program) {
    if (const Following recording; recording) {
        release_circular_buffers(recording.region(), recording.thread(), program_id(program));
    }
    on_free_cbs_real(program);
}

static const Feature circular_buffers{"circular buffers", on_lay_out_cbs_real, on_cb_real, ranges_of};
static const Feature dataflow_buffers{"dataflow buffers", on_lay_out_dfbs_real, on_mark_real};
static const Feature scratchpads{"scratchpads", on_lay_out_scratchpads_real, on_mark_real};
static const Feature failures{"failed allocations", on_validate_cbs_real};

}  // namespace ttmem::probe
