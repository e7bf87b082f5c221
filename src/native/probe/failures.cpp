#include "failures.hpp"

#include <algorithm>
#include <cstring>

#include "attribution.hpp"
#include "ring.hpp"
#include "runtime_devices.hpp"

namespace ttmem::probe {

void failed(const Recording& recording, const Failure& failure, const char* message) {
    Region& region = recording.region();
    const Attribution who = attribute(region, recording.thread());
    const DeviceGroup group = group_of_device(region, failure.device);
    FailureRecord record{};
    record.time = now_ns();
    record.requested = failure.requested;
    record.program = failure.program;
    record.kind = failure.kind;
    record.devices = group.named;
    record.name = who.name;
    record.site = who.site;
    record.what = failure.what;
    record.length = static_cast<std::uint32_t>(std::min(std::strlen(message), sizeof record.message));
    std::memcpy(record.message, message, record.length);
    record.check = checksum(&record, sizeof record);
    const std::uint64_t number = region.header->failures.fetch_add(1, std::memory_order_relaxed);
    region.failures[number % region.counts[FAILURES]] = record;
    Event event{};
    event.op = ALLOCATION_FAILED;
    event.kind = static_cast<std::uint8_t>(failure.kind);
    event.device = group.named;
    event.time = record.time;
    event.id = number;
    event.size = failure.requested;
    event.extra = failure.program;
    event.name = who.name;
    event.site = who.site;
    append(region, recording.thread(), event);
}

}  // namespace ttmem::probe
