#include "core_sets.hpp"

#include <cstring>

#include "short_lock.hpp"

namespace ttmem::probe {

namespace {

struct Known {
    std::atomic<std::uint64_t> check;
    std::uint32_t number;
};

constexpr std::uint32_t PLACES = 8192;  // twice as many as there may be sets
Known known[PLACES];
std::atomic<bool> busy{false};

std::uint32_t find(std::uint64_t check, std::uint32_t& place) {
    for (place = check >> 11 & (PLACES - 1);; place = (place + 1) & (PLACES - 1)) {
        const std::uint64_t there = known[place].check.load(order::OBSERVE);
        if (there == check) {
            return known[place].number;
        }
        if (!there) {
            return 0;
        }
    }
}

}  // namespace

CoreSet intern_cores(Region& region, const Rectangle* rectangles, std::size_t count) {
    CoresRecord record{};
    for (std::size_t i = 0; i < count; ++i) {
        const Rectangle& at = rectangles[i];
        if (!at.plausible()) {
            return {0, 0};
        }
        record.total += static_cast<std::uint32_t>(at.cores());
        if (i < MAX_RANGES) {
            const std::uint16_t corners[4] = {
                static_cast<std::uint16_t>(at.x0), static_cast<std::uint16_t>(at.y0),
                static_cast<std::uint16_t>(at.x1), static_cast<std::uint16_t>(at.y1)};
            std::memcpy(record.rectangles[i], corners, sizeof corners);
            ++record.count;
        }
    }
    if (!count || count > MAX_RANGES) {
        return {0, record.total};  // the number of cores is known, but not which
    }
    record.check = checksum(&record, sizeof record);  // 64 bits identify the set as well
    std::uint32_t place;
    if (const std::uint32_t number = find(record.check, place)) {
        return {number, record.total};
    }
    ShortLock lock(busy);
    if (!lock) {
        return {0, record.total};
    }
    if (const std::uint32_t number = find(record.check, place)) {
        return {number, record.total};
    }
    const std::uint32_t number = region.header->cores.load(order::GUARDED);
    if (number >= region.counts[CORES]) {
        region.header->tables_without_space.fetch_add(1, order::ALONE);
        return {0, record.total};
    }
    region.cores[number] = record;
    region.header->cores.store(number + 1, order::PUBLISH);
    known[place].number = number;
    known[place].check.store(record.check, order::PUBLISH);
    return {number, record.total};
}

void forget_core_sets() {
    for (Known& entry : known) {
        entry.check = 0;
    }
    busy = false;
}

}  // namespace ttmem::probe
