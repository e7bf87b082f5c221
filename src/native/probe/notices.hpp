// Events other than allocations: something happened to a program, a trace or a device.
#pragma once

#include "device_groups.hpp"
#include "ring.hpp"

namespace ttmem::probe {

inline Event notice(std::uint8_t op, const DeviceGroup& group, std::uint64_t id) {
    Event event{};
    event.op = op;
    event.device = group.named;
    event.time = now_ns();
    event.id = id;
    return event;
}

// One more of something, on each device of a group.
inline void count(Region& region, std::uint64_t mask, std::atomic<std::uint64_t> Activity::* what) {
    for_each_device(mask, [&](std::uint32_t index) {
        (region.activity[index].*what).fetch_add(1, order::ALONE);
    });
}

}  // namespace ttmem::probe
