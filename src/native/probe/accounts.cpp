#include "accounts.hpp"

#include <algorithm>

namespace ttmem::probe {

namespace {

std::uint64_t held(const LiveEntry& entry) { return entry.reserved ? entry.reserved : entry.requested; }

void raise_peak(Counter& counter, std::uint64_t now_held, const LiveEntry& entry, std::uint64_t capacity) {
    std::uint64_t peak = counter.peak.load(order::ALONE);
    while (now_held > peak) {
        if (counter.peak.compare_exchange_weak(peak, now_held, order::ALONE)) {
            counter.peak_ns.store(entry.time, order::ALONE);
            counter.peak_name.store(entry.name, order::ALONE);
            counter.peak_site.store(entry.site, order::ALONE);
            counter.peak_capacity.store(capacity, order::ALONE);
            return;
        }
    }
}

std::uint64_t capacity_of(const Region& region, std::uint32_t device, std::uint32_t kind) {
    const DeviceRecord& record = region.devices[device];
    return kind < KINDS ? record.bank_size[kind] * record.banks[kind] : 0;
}

void add(Region& region, std::uint32_t device, std::uint32_t kind, const LiveEntry& entry) {
    Counter& counter = region.counter(device, kind);
    counter.requested.fetch_add(entry.requested, order::ALONE);
    const std::uint64_t now_held = counter.reserved.fetch_add(held(entry), order::ALONE) + held(entry);
    counter.allocations.fetch_add(1, order::ALONE);
    if (now_held > counter.peak.load(order::ALONE)) {
        raise_peak(counter, now_held, entry, capacity_of(region, device, kind));
    }
}

void subtract(Counter& counter, const LiveEntry& entry) {
    counter.requested.fetch_sub(entry.requested, order::ALONE);
    counter.reserved.fetch_sub(held(entry), order::ALONE);
    counter.frees.fetch_add(1, order::ALONE);
}

std::uint64_t live_type(const LiveEntry& entry) { return entry.key >> 56; }

}  // namespace

std::uint32_t counter_of(const LiveEntry& entry) {
    if (live_type(entry) == BUFFER) {
        return entry.kind;
    }
    if (live_type(entry) == CIRCULAR_BUFFER && !(entry.flags & GLOBAL)) {
        return entry.flags & DATAFLOW ? DATAFLOW_DEMAND : CB_DEMAND;
    }
    return COUNTED;
}

void expect_counters(const Region& region, const LiveEntry& entry, std::uint64_t mask) {
    const std::uint32_t kind = counter_of(entry);
    for_each_device(kind < COUNTED ? mask : 0, [&](std::uint32_t index) {
        __builtin_prefetch(&region.counter(index, kind), 1);
    });
}

void count_in(Region& region, const LiveEntry& entry, std::uint64_t mask) {
    const std::uint32_t kind = counter_of(entry);
    for_each_device(kind < COUNTED ? mask : 0, [&](std::uint32_t index) {
        add(region, index, kind, entry);
        if (entry.flags & HOLDS_BINARIES) {
            add(region, index, KERNEL_BINARIES, entry);
        }
    });
}

void count_out(Region& region, const LiveEntry& entry, std::uint64_t mask) {
    const std::uint32_t kind = counter_of(entry);
    for_each_device(kind < COUNTED ? mask : 0, [&](std::uint32_t index) {
        subtract(region.counter(index, kind), entry);
        if (entry.flags & HOLDS_BINARIES) {
            subtract(region.counter(index, KERNEL_BINARIES), entry);
        }
    });
}

Event event_of(std::uint8_t op, const LiveEntry& entry, std::uint64_t time) {
    Event event{};
    event.op = op;
    event.kind = entry.kind;
    event.device = entry.devices;
    event.time = time;
    event.id = entry.key & 0x00FFFFFFFFFFFFFFull;
    event.size = entry.requested;
    event.address = entry.address;
    event.name = entry.name;
    event.site = entry.site;
    if (live_type(entry) == BUFFER) {
        event.flags = op == FREE ? KIND_KNOWN : 0;
        event.extra = entry.reserved;
    } else {
        event.flags = entry.flags & (GLOBAL | DATAFLOW);
        event.extra = entry.program;
        event.number = entry.number;
        event.cores = entry.cores;
    }
    return event;
}

bool hold(Region& region, const ThreadState& thread, LiveEntry& entry, const DeviceGroup& group, Op op) {
    entry.devices = group.named;
    entry.phase = thread.phase;
    entry.thread = thread.number;
    // Atomic operations first: each of them waits for every store before it, and the table and the ring are seldom
    // cached.
    const ClaimedSlot claimed = claim(region);
    count_in(region, entry, group.mask);
    const Event event = event_of(op, entry, entry.time);
    const bool inserted = insert(region, entry);
    fill(region, claimed, thread, event, entry.layout);
    return inserted;
}

namespace {

bool take_out(Region& region, const ThreadState& thread, std::uint64_t key, Op op, std::uint16_t flags,
              LiveEntry& entry) {
    if (!take(region, key, entry)) {
        return false;
    }
    const std::uint64_t mask = mask_of(entry.devices);
    expect_counters(region, entry, mask);
    Event event = event_of(op, entry, now_ns());
    event.flags |= flags;
    const ClaimedSlot claimed = claim(region);
    count_out(region, entry, mask);
    fill(region, claimed, thread, event, entry.layout);
    return true;
}

}  // namespace

bool release(Region& region, const ThreadState& thread, std::uint64_t key, Op op) {
    LiveEntry entry;
    return take_out(region, thread, key, op, 0, entry);
}

bool release_with_device(Region& region, const ThreadState& thread, std::uint64_t key, Op op) {
    LiveEntry entry;
    if (!take_out(region, thread, key, op, WITH_DEVICE, entry)) {
        return false;
    }
    if (live_type(entry) == BUFFER) {
        keep_left(region, entry);
    }
    return true;
}

void count_nothing(Region& region, std::uint64_t mask) {
    std::uint64_t most = 0;  // a buffer of a mesh is on each of its chips
    for_each_device(mask, [&](std::uint32_t index) {
        std::uint64_t left = 0;
        for (std::uint32_t kind = 0; kind < COUNTED; ++kind) {
            Counter& counter = region.counter(index, kind);
            const std::uint64_t made = counter.allocations.load(order::ALONE);
            left += kind < KINDS ? made - counter.frees.load(order::ALONE) : 0;
            counter.frees.store(made, order::ALONE);
            counter.requested.store(0, order::ALONE);
            counter.reserved.store(0, order::ALONE);
        }
        most = std::max(most, left);
    });
    std::uint64_t known = region.header->live_uncounted.load(order::ALONE);
    while (!region.header->live_uncounted.compare_exchange_weak(known, known - std::min(known, most))) {
    }
    region.header->forgotten.fetch_add(std::min(known, most), order::ALONE);
}

void reset_peaks(Region& region, std::uint32_t device) {
    for (std::uint32_t kind = 0; kind < COUNTED; ++kind) {
        Counter& counter = region.counter(device, kind);
        const std::uint64_t time = counter.peak_ns, capacity = counter.peak_capacity;
        const std::uint32_t name = counter.peak_name, site = counter.peak_site;
        const std::uint64_t before = counter.peak.exchange(counter.reserved.load());
        if (before > counter.earlier_peak.load()) {
            counter.earlier_peak = before;
            counter.earlier_ns = time;
            counter.earlier_name = name;
            counter.earlier_site = site;
            counter.earlier_capacity = capacity;
        }
        counter.peak_ns = now_ns();
        counter.peak_name = counter.peak_site = 0;  // already counted: no allocation reached it
        // A thread that allocated meanwhile may have raised the peak that was just replaced.
        std::uint64_t peak = counter.peak.load(), held = counter.reserved.load();
        while (held > peak && !counter.peak.compare_exchange_weak(peak, held)) {
        }
    }
}

}  // namespace ttmem::probe
