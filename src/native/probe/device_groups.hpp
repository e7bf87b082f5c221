// Chips: their rows in the counters, and the sets of chips that meshes consist of. Both are numbered when first seen.
#pragma once

#include "region.hpp"

namespace ttmem::probe {

struct DeviceGroup {
    std::uint64_t mask;   // bit = index of a device; 0 = no such group
    std::uint32_t named;  // as in events: the chip, or a set of chips
};

// What is known about a chip besides its number; 0 = unknown.
struct DeviceFacts {
    std::uint64_t bank_size[5];
    std::uint32_t banks[5];
    std::uint32_t arch, grid_x, grid_y, l1_per_core;
    std::uint64_t cb_base, dram_base;
};

// -1 if there is no space for another chip. The facts are published with the first call that has them.
int device_index(Region& region, std::uint32_t chip, const DeviceFacts* facts = nullptr);

DeviceGroup group_of_mask(Region& region, std::uint64_t mask);

// The devices that an event refers to; 0 if that number was never assigned.
std::uint64_t mask_of(std::uint32_t named);

void remember_unique_id(std::uint32_t chip, std::uint64_t unique_id);

template <typename Action>
inline void for_each_device(std::uint64_t mask, Action action) {
    for (; mask; mask &= mask - 1) {
        action(static_cast<std::uint32_t>(__builtin_ctzll(mask)));
    }
}

void forget_devices();  // in the child of a fork

}  // namespace ttmem::probe
