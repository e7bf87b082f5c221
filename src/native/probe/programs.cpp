#include "programs.hpp"

#include "accounts.hpp"
#include "address_table.hpp"
#include "attribution.hpp"
#include "features.hpp"

namespace ttmem::probe {

TTMEM_HOT_DATA std::atomic<std::int64_t> waiting_layouts{0};

namespace {

AddressTable<ProgramParts, 65536> programs;
Function<std::uint64_t(const void*)> get_id{"_ZNK2tt8tt_metal6detail11ProgramImpl6get_idEv"};
const Feature ids{"programs", get_id};

void drop_layout(Region& region, std::uint64_t program, ProgramParts& parts) {
    LiveEntry entry;
    const std::uint32_t count = parts.laid_out.exchange(0);
    for (std::uint32_t index = 0; index < count; ++index) {
        take(region, part_key(LAID_OUT, program, index), entry);
    }
    waiting_layouts.fetch_sub(count ? 1 : 0, order::ALONE);
}

// What a new layout replaces. A program has either circular buffers or dataflow buffers, and they are laid out by
// different functions.
void release_replaced(Region& region, const ThreadState& thread, std::uint64_t program, ProgramParts& parts,
                      std::uint32_t laid_out) {
    std::uint64_t devices = 0;
    std::uint16_t dataflow = 0;
    for (std::uint32_t index = 0; index < laid_out; ++index) {
        if (const LiveEntry* entry = find(region, part_key(LAID_OUT, program, index))) {
            devices |= mask_of(entry->devices);
            dataflow = entry->flags & DATAFLOW;
        }
    }
    const std::uint32_t count = parts.circular_buffers.load(order::GUARDED);
    std::uint32_t used = 0;  // numbers up to the last one that stays; later ones are reused
    for (std::uint32_t index = 0; index < count; ++index) {
        const std::uint64_t key = part_key(CIRCULAR_BUFFER, program, index);
        const LiveEntry* entry = find(region, key);
        if (entry && mask_of(entry->devices) & devices && (entry->flags & DATAFLOW) == dataflow) {
            release(region, thread, key, CB_FREE);
        } else if (entry) {
            used = index + 1;
        }
    }
    parts.circular_buffers.store(used, order::GUARDED);
}

}  // namespace

ProgramParts* parts_of(std::uint64_t program, bool make) {
    if (!program) {
        return nullptr;
    }
    return make ? programs.find_or_insert(program) : programs.find(program);
}

std::uint64_t program_id(const void* program) { return program && get_id.address() ? get_id(program) + 1 : 0; }

void join_workload(std::uint64_t program, const MeshRange& range, bool dispatch_seen) {
    if (ProgramParts* parts = parts_of(program, true)) {
        parts->first.store(range.first, order::GUARDED);
        parts->last.store(range.last, order::GUARDED);
        parts->dimensions.store(range.dimensions, order::PUBLISH);
        parts->accepted_by_dispatch.store(dispatch_seen, order::GUARDED);
    }
}

DeviceGroup group_of_program(Region& region, std::uint64_t program, const void* device) {
    ProgramParts* parts = parts_of(program, false);
    const std::uint32_t dimensions = parts ? parts->dimensions.load(order::OBSERVE) : 0;
    if (!dimensions) {
        return group_of_device(region, device);
    }
    const std::uint64_t now = device_generation.load(order::OBSERVE);
    if (parts->generation.load(order::OBSERVE) == now &&
        parts->device.load(order::GUARDED) == device) {
        return {parts->mask.load(order::GUARDED), parts->named.load(order::GUARDED)};
    }
    const MeshRange range{dimensions, parts->first.load(order::GUARDED),
                          parts->last.load(order::GUARDED)};
    const DeviceGroup group = group_in_range(region, device, range);
    if (group.mask) {
        parts->mask.store(group.mask, order::GUARDED);
        parts->named.store(group.named, order::GUARDED);
        parts->device.store(device, order::GUARDED);
        parts->generation.store(now, order::PUBLISH);
    }
    return group;
}

void keep_layout(Region& region, ThreadState& thread) {
    ProgramLayout& layout = thread.layout;
    ProgramParts* parts = layout.count ? parts_of(layout.program, true) : nullptr;
    if (!parts) {
        return;
    }
    if (!layout.goes_on) {
        drop_layout(region, layout.program, *parts);
    }
    const LiveEntry* owner = find(region, live_key(PROGRAM, layout.program));
    const Attribution who = attribute(region, thread);
    const std::uint64_t time = now_ns();
    std::uint32_t kept = parts->laid_out.load(order::GUARDED);
    const bool waited = kept;
    for (int i = 0; i < layout.count; ++i) {
        const PendingCb& pending = layout.pending[i];
        const DeviceGroup group = group_of_mask(region, pending.devices);
        if (!group.mask) {
            continue;
        }
        LiveEntry entry{};
        entry.key = part_key(LAID_OUT, layout.program, kept);
        entry.time = time;
        entry.requested = entry.reserved = pending.size * pending.core_count;
        entry.address = pending.address;
        entry.program = layout.program;
        entry.mesh = layout.mesh;
        entry.devices = group.named;
        entry.cores = pending.cores;
        // The programs of one workload are laid out by threads of the runtime, in which no Python runs.
        entry.name = who.name || !owner ? who.name : owner->name;
        entry.site = who.site || !owner ? who.site : owner->site;
        entry.flags = pending.flags;
        kept += insert(region, entry);
    }
    parts->laid_out.store(kept, order::GUARDED);
    waiting_layouts.fetch_add(kept && !waited ? 1 : 0, order::ALONE);
}

void accept_layout(Region& region, const ThreadState& thread, std::uint64_t program) {
    ProgramParts* parts = parts_of(program, false);
    const std::uint32_t count = parts ? parts->laid_out.exchange(0) : 0;
    if (!count) {
        return;
    }
    waiting_layouts.fetch_sub(1, order::ALONE);
    release_replaced(region, thread, program, *parts, count);
    const std::uint64_t time = now_ns();
    for (std::uint32_t index = 0; index < count; ++index) {
        LiveEntry entry;
        if (!take(region, part_key(LAID_OUT, program, index), entry)) {
            continue;
        }
        const DeviceGroup group{mask_of(entry.devices), entry.devices};
        entry.key = part_key(CIRCULAR_BUFFER, program, parts->circular_buffers.fetch_add(1));
        entry.time = time;
        // Without an entry in the table it could not be subtracted again.
        if (!hold(region, thread, entry, group, CB_ALLOC)) {
            count_out(region, entry, group.mask);
        }
    }
}

void release_circular_buffers(Region& region, const ThreadState& thread, std::uint64_t program) {
    if (ProgramParts* parts = parts_of(program, false)) {
        drop_layout(region, program, *parts);
        const std::uint32_t count = parts->circular_buffers.exchange(0);
        for (std::uint32_t index = 0; index < count; ++index) {
            release(region, thread, part_key(CIRCULAR_BUFFER, program, index), CB_FREE);
        }
    }
}

void release_program(Region& region, const ThreadState& thread, std::uint64_t program) {
    release_circular_buffers(region, thread, program);
    std::uint64_t devices = 0;
    if (ProgramParts* parts = parts_of(program, false)) {
        const std::uint32_t count = parts->kernels.exchange(0);
        for (std::uint32_t index = 0; index < count; ++index) {
            const std::uint64_t key = part_key(KERNEL, program, index);
            if (const LiveEntry* entry = find(region, key)) {
                const std::uint64_t mask = mask_of(entry->devices);
                devices |= mask;
                for_each_device(mask, [&](std::uint32_t at) { region.activity[at].kernels_unloaded.fetch_add(1); });
                release(region, thread, key, KERNEL_UNLOAD);
            }
        }
        programs.remove(program);
    }
    LiveEntry entry;
    if (take(region, live_key(PROGRAM, program), entry)) {
        // Its kernels say which devices it was on; a program that was never compiled is on none.
        const DeviceGroup group = group_of_mask(region, devices);
        for_each_device(group.mask, [&](std::uint32_t at) { region.activity[at].programs_destroyed.fetch_add(1); });
        Event event{};
        event.op = PROGRAM_DESTROY;
        event.device = group.named;
        event.time = now_ns();
        event.id = program;
        if (group.mask) {
            append(region, thread, event);
        }
    }
}

void forget_programs() {
    programs.forget();
    waiting_layouts = 0;
}

}  // namespace ttmem::probe
