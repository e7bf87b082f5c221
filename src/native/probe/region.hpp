// This process's region: made at the first event, mapped for as long as the process lives.
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
    std::uint32_t counts[SECTIONS];  // copies: the header may turn to zeroes under us (truncation_guard.hpp)

    Counter& counter(std::uint32_t device, std::uint32_t kind) const { return counters[device * COUNTED + kind]; }
};

extern std::atomic<Region*> mapped_region;
extern std::atomic<bool> region_refused;  // no room, switched off, or another copy of this library is at work

Region* make_region();

// Null: say nothing about this call.
inline Region* tracking_region() {
    Region* region = mapped_region.load(std::memory_order_acquire);
    if (!region) {
        if (region_refused.load(std::memory_order_relaxed) || !(region = make_region())) {
            return nullptr;
        }
    }
    return region->header->tracking.load(std::memory_order_relaxed) ? region : nullptr;
}

std::uint64_t now_ns();

}  // namespace ttmem::probe
