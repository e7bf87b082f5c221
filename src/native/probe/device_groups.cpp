#include "device_groups.hpp"

#include <cstring>

#include "short_lock.hpp"

namespace ttmem::probe {

namespace {

constexpr std::uint32_t MAX_CHIP = 1024;

std::atomic<bool> busy{false};
std::atomic<std::uint16_t> index_of_chip[MAX_CHIP];  // + 1; 0 = not seen
std::uint64_t unique_ids[MAX_CHIP];
std::atomic<bool> identified[MAX_CHIP];  // those that the runtime has described
std::uint32_t chip_at[MAX_DEVICES];

struct KnownSet {
    std::atomic<std::uint64_t> mask;
    std::uint32_t number;
};
KnownSet sets[256];
std::atomic<std::uint32_t> known_sets{0};

void describe(DeviceRecord& record, std::uint32_t chip, const DeviceFacts* facts) {
    DeviceRecord fresh{};
    fresh.chip = chip;
    fresh.identified = identified[chip].load(order::OBSERVE);
    fresh.unique_id = fresh.identified ? unique_ids[chip] : 0;
    if (facts) {
        std::memcpy(fresh.bank_size, facts->bank_size, sizeof fresh.bank_size);
        std::memcpy(fresh.banks, facts->banks, sizeof fresh.banks);
        fresh.arch = facts->arch;
        fresh.grid_x = facts->grid_x;
        fresh.grid_y = facts->grid_y;
        fresh.l1_per_core = facts->l1_per_core;
        fresh.cb_base = facts->cb_base;
        fresh.dram_base = facts->dram_base;
    }
    fresh.check = checksum(&fresh, sizeof fresh);
    record = fresh;
}

std::uint32_t write_set(Region& region, std::uint64_t mask) {
    const std::uint32_t number = region.header->sets.load(order::GUARDED);
    if (number >= region.counts[SETS]) {
        region.header->tables_without_space.fetch_add(1, order::ALONE);
        return 0;
    }
    SetRecord& record = region.sets[number];
    record.count = 0;
    for_each_device(mask, [&](std::uint32_t index) {
        record.chips[record.count++] = static_cast<std::uint16_t>(chip_at[index]);
    });
    record.check = checksum(&record, sizeof record);
    region.header->sets.store(number + 1, order::PUBLISH);
    return SET_OF_DEVICES | number;
}

}  // namespace

int device_index(Region& region, std::uint32_t chip, const DeviceFacts* facts) {
    if (chip >= MAX_CHIP) {
        return -1;
    }
    const std::uint16_t known = index_of_chip[chip].load(order::OBSERVE);
    if (known && !facts) {
        return known - 1;
    }
    ShortLock lock(busy);
    if (!lock) {
        return -1;
    }
    std::uint32_t index = index_of_chip[chip].load(order::GUARDED);
    if (!index) {
        index = region.header->devices.load(order::GUARDED) + 1;
        if (index > region.counts[DEVICES]) {
            region.header->tables_without_space.fetch_add(1, order::ALONE);
            return -1;
        }
        chip_at[index - 1] = chip;
        describe(region.devices[index - 1], chip, facts);
        region.header->devices.store(index, order::PUBLISH);
        index_of_chip[chip].store(static_cast<std::uint16_t>(index), order::PUBLISH);
    } else if (facts) {
        describe(region.devices[index - 1], chip, facts);
    }
    return static_cast<int>(index) - 1;
}

DeviceGroup group_of_mask(Region& region, std::uint64_t mask) {
    if (!(mask & (mask - 1))) {
        return mask ? DeviceGroup{mask, chip_at[__builtin_ctzll(mask)]} : DeviceGroup{0, 0};
    }
    const std::uint32_t known = known_sets.load(order::OBSERVE);
    for (std::uint32_t i = 0; i < known; ++i) {
        if (sets[i].mask.load(order::GUARDED) == mask) {
            return {mask, sets[i].number};
        }
    }
    ShortLock lock(busy);
    const std::uint32_t place = known_sets.load(order::GUARDED);
    const std::uint32_t number = lock && place < 256 ? write_set(region, mask) : 0;
    if (!number) {
        return {0, 0};
    }
    sets[place].number = number;
    sets[place].mask.store(mask, order::GUARDED);
    known_sets.store(place + 1, order::PUBLISH);
    return {mask, number};
}

std::uint64_t mask_of(std::uint32_t named) {
    if (named & SET_OF_DEVICES) {
        const std::uint32_t place = named & ~SET_OF_DEVICES;
        return place < known_sets.load(order::OBSERVE) ? sets[place].mask.load(order::GUARDED) : 0;
    }
    const std::uint16_t index = named < MAX_CHIP ? index_of_chip[named].load(order::OBSERVE) : 0;
    return index ? 1ull << (index - 1) : 0;
}

void remember_unique_id(std::uint32_t chip, std::uint64_t unique_id) {
    if (chip < MAX_CHIP) {
        unique_ids[chip] = unique_id;
        identified[chip].store(true, order::PUBLISH);
    }
}

void forget_devices() {
    for (auto& index : index_of_chip) {
        index = 0;
    }
    known_sets = 0;
    busy = false;
}

}  // namespace ttmem::probe
