// Buffers, whichever thread allocates or frees them.
#include <algorithm>

#include "accounts.hpp"
#include "attribution.hpp"
#include "buffer_facts.hpp"
#include "failures.hpp"
#include "features.hpp"
#include "recording.hpp"
#include "runtime_devices.hpp"
#include "strings.hpp"

namespace ttmem::probe {

namespace {

#define TT_BUFFER "_ZNK2tt8tt_metal6Buffer"

TTMEM_HOT_DATA Function<std::uint32_t(const void*)> buffer_address{TT_BUFFER "7addressEv"};
TTMEM_HOT_DATA Function<std::uint64_t(const void*)> size_per_bank{TT_BUFFER "21aligned_size_per_bankEv"};
TTMEM_HOT_DATA Function<const void*(const void*)> buffer_allocator{TT_BUFFER "9allocatorEv"};
TTMEM_HOT_DATA Function<std::uint32_t(const void*, const std::uint32_t*)> number_of_banks{
    "_ZNK2tt8tt_metal9Allocator13get_num_banksERKNS0_10BufferTypeE"};
TTMEM_HOT_DATA Function<std::uint32_t(const void*, std::uint32_t)> alignment_of{
    "_ZNK2tt8tt_metal9Allocator13get_alignmentENS0_10BufferTypeE"};

constexpr std::uint32_t DRAM = 0;

// The runtime numbers its buffers. One with a higher number than all that were seen was created while tracking was off,
// and need not be looked up.
TTMEM_HOT_DATA std::atomic<std::uint64_t> newest{0};

void remember_newest(std::uint64_t id) {
    std::uint64_t known = newest.load(order::ALONE);
    while (id > known && !newest.compare_exchange_weak(known, id, order::ALONE)) {
    }
}

bool may_be_held(const void* buffer) {
    std::uint64_t id;
    return buffer_id(buffer, id) && (!ids_are_numbers() || id <= newest.load(order::GUARDED));
}

// Allocation is lock-step: the block of one bank, in every bank. Blocks are multiples of the DRAM alignment, even in
// L1. 0 if this runtime does not provide it.
std::uint64_t reserved_bytes(const void* buffer, std::uint32_t kind) {
    const void* allocator = buffer_allocator(buffer);
    const std::uint64_t alignment = allocator ? alignment_of(allocator, DRAM) : 0;
    if (!alignment) {
        return 0;
    }
    const std::uint64_t blocks = (size_per_bank(buffer) + alignment - 1) / alignment;
    return std::max<std::uint64_t>(blocks, 1) * alignment * number_of_banks(allocator, &kind);
}

// False for a buffer that takes no memory: one of a capture without dispatch has no address.
bool describe(const void* buffer, const BufferFacts& facts, LiveEntry& entry) {
    entry.address = buffer_address(buffer);
    entry.kind = static_cast<std::uint8_t>(facts.kind);
    if (!entry.address || entry.kind >= KINDS) {
        return false;
    }
    entry.key = live_key(BUFFER, facts.id);
    entry.requested = facts.size;
    entry.reserved = reserved_bytes(buffer, entry.kind);
    entry.layout = static_cast<std::uint8_t>(facts.layout + 1);
    return true;
}

void allocated(const Recording& recording, const void* buffer) {
    Region& region = recording.region();
    ThreadState& thread = recording.thread();
    BufferFacts facts;
    if (!buffer_facts(buffer, facts)) {
        return;
    }
    LiveEntry entry{};
    const DeviceGroup group = group_of_device(region, facts.device);
    if (!group.mask || !describe(buffer, facts, entry)) {
        return;
    }
    remember_newest(facts.id);
    expect_counters(region, entry, group.mask);
    const Attribution who = attribute(region, thread);
    entry.time = now_ns();
    entry.name = who.name;
    entry.site = who.site;
    entry.mesh = mesh_number(facts.device);
    if (thread.loading_binaries) {
        static const char what[] = "kernel binaries";
        entry.flags = HOLDS_BINARIES;
        entry.name = intern(region, what, sizeof what - 1);
    }
    if (!hold(region, thread, entry, group, ALLOC)) {
        region.header->live_uncounted.fetch_add(1, order::ALONE);
    }
}

void freed_unknown(const Recording& recording, const void* buffer, const BufferFacts& facts) {
    Region& region = recording.region();
    LiveEntry entry{};
    if (!describe(buffer, facts, entry)) {
        return;
    }
    // One that did not fit into the table, if it cannot be one that was never seen.
    const bool seen = !region.header->unseen.load(order::ALONE);
    std::uint64_t without_entry = seen ? region.header->live_uncounted.load(order::ALONE) : 0;
    while (without_entry && !region.header->live_uncounted.compare_exchange_weak(without_entry, without_entry - 1)) {
    }
    const DeviceGroup group = group_of_device(region, facts.device);
    if (!without_entry || !group.mask) {
        region.header->unpaired_frees.fetch_add(1, order::ALONE);
        return;
    }
    entry.devices = group.named;
    count_out(region, entry, group.mask);
    append(region, recording.thread(), event_of(FREE, entry, now_ns()));
}

void freed(const Recording& recording, const void* buffer) {
    std::uint64_t id;
    if (buffer_id(buffer, id) && release(recording.region(), recording.thread(), live_key(BUFFER, id), FREE)) {
        return;
    }
    if (BufferFacts facts; buffer_facts(buffer, facts)) {
        freed_unknown(recording, buffer, facts);
    }
}

void refused(const Recording& recording, const void* buffer, const char* message) {
    Failure failure{};
    if (BufferFacts facts; buffer_facts(buffer, facts)) {
        failure.kind = facts.kind;
        failure.requested = facts.size;
        failure.device = facts.device;
    }
    failed(recording, failure, message);
}

// The runtime's own functions may throw: that is not the application's concern.
template <typename Change>
TTMEM_RECORDS void see(Change change, const Recording& recording, const void* buffer) {
    try {
        change(recording, buffer);
    } catch (...) {  // then it is not counted
    }
}

// Before the runtime's part, so that its slot in the live table is prefetched meanwhile.
TTMEM_RECORDS void expect_buffer(const Region& region, const void* buffer) {
    expect_event(region);
    if (std::uint64_t id; buffer_id(buffer, id)) {
        expect(region, live_key(BUFFER, id));
    }
}

}  // namespace

TTMEM_HOOK(void, on_allocated, "_ZN2tt8tt_metal12GraphTracker14track_allocateEPKNS0_6BufferE", void*, const void*)
void on_allocated(void* tracker, const void* buffer) {
    if (const Region* region = tracking_region()) {
        expect_buffer(*region, buffer);
    }
    on_allocated_real(tracker, buffer);
    if (const Recording recording; recording) {
        see(allocated, recording, buffer);
    } else if (Region* region = mapped_region.load(order::OBSERVE); region && !tracking_region()) {
        region->header->unseen.fetch_add(1, order::ALONE);
    }
}

TTMEM_HOOK(void, on_freed, "_ZN2tt8tt_metal12GraphTracker16track_deallocateEPNS0_6BufferE", void*, void*)
void on_freed(void* tracker, void* buffer) {
    const Region* region = holding_region();
    const bool followed = region && may_be_held(buffer);
    if (followed) {
        expect_buffer(*region, buffer);
    }
    on_freed_real(tracker, buffer);
    if (followed) {
        if (const Following recording; recording) {
            see(freed, recording, buffer);
        }
    } else if (const Recording unknown; unknown) {
        see(freed, unknown, buffer);
    }
}

TTMEM_HOOK(std::uint64_t, on_allocate, "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE", void*, void*)
std::uint64_t on_allocate(void* allocator, void* buffer) {
    try {
        return on_allocate_real(allocator, buffer);
    } catch (const std::exception& problem) {
        if (const Recording recording; recording) {
            see([&](const Recording&, const void*) { refused(recording, buffer, problem.what()); }, recording, buffer);
        }
        throw;
    }
}

static const Feature buffers{"buffers", on_allocated_real, on_freed_real, buffer_address};
static const Feature reserved{"reserved bytes", size_per_bank, buffer_allocator, alignment_of, number_of_banks};
static const Feature failures{"failed allocations", on_allocate_real};

}  // namespace ttmem::probe
