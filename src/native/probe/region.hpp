// This process's region: created at the first event, mapped for as long as the process lives.
#pragma once

#include <atomic>

#include "layout.hpp"

namespace ttmem::probe {

struct Region {
    Header* header;
    Counter* counters;
    Activity* activity;
    Slot* ring;
    std::atomic<std::uint64_t>* live_keys;
    LiveEntry* live;
    StringRecord* strings;
    char* text;
    DeviceRecord* devices;
    SetRecord* sets;
    CoresRecord* cores;
    FeatureRecord* features;
    FailureRecord* failures;

    std::uint64_t size;
    std::uint32_t counts[SECTIONS];  // copies: the header may be zeroed under us (truncation_guard.hpp)

    Counter& counter(std::uint32_t device, std::uint32_t kind) const { return counters[device * COUNTED + kind]; }
};

extern std::atomic<Region*> mapped_region;

// The word of the region that says whether tracking is on. Before there is a region it is a substitute (on: create
// one), and also where there will be none (off): no space, switched off, or another copy of this library is active.
extern std::atomic<std::atomic<std::uint32_t>*> tracking_word;

Region* make_region();

// Null: this call is not recorded.
inline Region* tracking_region() {
    if (!tracking_word.load(order::OBSERVE)->load(order::ALONE)) {
        return nullptr;
    }
    Region* region = mapped_region.load(order::OBSERVE);
    return region ? region : make_region();
}

// Null unless something is held: what was seen being allocated is tracked until it is freed, even while tracking is
// off.
inline Region* holding_region() {
    Region* region = mapped_region.load(order::OBSERVE);
    return region && region->header->live.load(order::GUARDED) ? region : nullptr;
}

// If something will be recorded after a call of the runtime, its cache lines are prefetched meanwhile.
inline void expect_event(const Region& region) {
    const Header& header = *region.header;
    __builtin_prefetch(&header, 0);
    __builtin_prefetch(&header.live, 1);
    const char* slot = reinterpret_cast<const char*>(
        &region.ring[header.tickets.load(order::GLANCE) & (region.counts[RING] - 1)]);
    __builtin_prefetch(slot, 1);
    __builtin_prefetch(slot + 64, 1);
}

std::uint64_t now_ns();

}  // namespace ttmem::probe
