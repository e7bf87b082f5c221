#include "programs.hpp"

#include "accounts.hpp"
#include "address_table.hpp"
#include "attribution.hpp"
#include "runtime.hpp"

namespace ttmem::probe {

namespace {

AddressTable<ProgramParts, 65536> programs;
Function<std::uint64_t(const void*)> get_id{"_ZNK2tt8tt_metal6detail11ProgramImpl6get_idEv"};

// Circular buffers and dataflow buffers never meet in one program, but are laid out by different functions.
void release_part(Region& region, const ThreadState& thread, const ProgramLayout& layout, ProgramParts& parts) {
    std::uint64_t devices = 0;
    for (int i = 0; i < layout.count; ++i) {
        devices |= layout.pending[i].devices;
    }
    const std::uint32_t count = parts.circular_buffers.load(std::memory_order_relaxed);
    std::uint32_t used = 0;  // numbers up to the last one that stays; those after it are given again
    for (std::uint32_t index = 0; index < count; ++index) {
        const std::uint64_t key = part_key(CIRCULAR_BUFFER, layout.program, index);
        const LiveEntry* entry = find(region, key);
        if (entry && mask_of(entry->devices) & devices && !(entry->flags & DATAFLOW) == !layout.dataflow) {
            release(region, thread, key, CB_FREE);
        } else if (entry) {
            used = index + 1;
        }
    }
    parts.circular_buffers.store(used, std::memory_order_relaxed);
}

}  // namespace

ProgramParts* parts_of(std::uint64_t program, bool make) {
    if (!program) {
        return nullptr;
    }
    return make ? programs.find_or_insert(program) : programs.find(program);
}

std::uint64_t program_id(const void* program) { return program && get_id.address() ? get_id(program) + 1 : 0; }

void keep_layout(Region& region, ThreadState& thread) {
    ProgramLayout& layout = thread.layout;
    ProgramParts* parts = layout.count ? parts_of(layout.program, true) : nullptr;
    if (!parts) {
        return;
    }
    release_part(region, thread, layout, *parts);
    const Attribution who = attribute(region, thread);
    const std::uint64_t time = now_ns();
    for (int i = 0; i < layout.count; ++i) {
        const PendingCb& pending = layout.pending[i];
        LiveEntry entry{};
        entry.key = part_key(CIRCULAR_BUFFER, layout.program, parts->circular_buffers.fetch_add(1));
        entry.time = time;
        entry.requested = entry.reserved = pending.size * pending.core_count;
        entry.address = pending.address;
        entry.program = layout.program;
        entry.cores = pending.cores;
        entry.name = who.name;
        entry.site = who.site;
        entry.flags = pending.flags;
        const DeviceGroup group = group_of_mask(region, pending.devices);
        // Without a place in the table nobody could count it out again.
        if (group.mask && !hold(region, thread, entry, group, CB_ALLOC)) {
            count_out(region, entry, group.mask);
        }
    }
}

void release_circular_buffers(Region& region, const ThreadState& thread, std::uint64_t program) {
    if (ProgramParts* parts = parts_of(program, false)) {
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
        // Which devices knew it is what its kernels said; a program that was never compiled is on none.
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

void forget_programs() { programs.forget(); }

}  // namespace ttmem::probe
