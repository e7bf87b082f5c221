// Compressing these columns takes longer than making them. Small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "event_columns.hpp"

#include <algorithm>

namespace ttmem {

void Keys::add(std::uint64_t key) {
    if (!rows.empty() && keys[rows.back()] == key) {
        rows.push_back(rows.back());
        return;
    }
    const auto [found, is_new] = known.emplace(key, static_cast<std::uint32_t>(keys.size()));
    if (is_new) {
        keys.push_back(key);
    }
    rows.push_back(found->second);
}

namespace {

struct Place {
    std::uint64_t time;
    std::uint32_t run, row;
};

std::vector<Place> in_order(const std::vector<EventRun>& runs) {
    std::vector<Place> places;
    for (std::uint32_t run = 0; run < runs.size(); ++run) {
        const std::uint64_t arrived = runs[run].arrived;
        for (std::uint32_t row = 0; row < runs[run].count; ++row) {
            const std::uint64_t time = runs[run].events[row].time;
            places.push_back({time && time <= arrived ? time : arrived, run, row});
        }
    }
    const auto earlier = [](const Place& a, const Place& b) { return a.time < b.time; };
    if (!std::is_sorted(places.begin(), places.end(), earlier)) {
        std::stable_sort(places.begin(), places.end(), earlier);
    }
    return places;
}

std::uint64_t memory_of(const Event& event, EventClass kind) {
    if (kind == EventClass::CIRCULAR) {
        return MEMORY_CB;
    }
    const bool buffer = kind == EventClass::ALLOCATION || kind == EventClass::FAILURE;
    return buffer || (kind == EventClass::FREED && (event.flags & KIND_KNOWN)) ? event.kind : Keys::NONE;
}

void add(EventColumns& out, const EventRun& run, const Event& event, std::uint8_t coded) {
    const auto kind = static_cast<EventClass>(coded & ~WITHOUT_DEVICE);
    const std::uint64_t process = std::uint64_t{run.process} << 32;
    const bool allocation = kind == EventClass::ALLOCATION, circular = kind == EventClass::CIRCULAR;
    const bool buffer = allocation || kind == EventClass::FREED;
    const bool kernel = kind == EventClass::KERNEL, program = kind == EventClass::PROGRAM;
    const bool sized = buffer || circular || kernel || kind == EventClass::FAILURE;
    out.pid.add(run.pid);
    out.device.add(coded & WITHOUT_DEVICE ? Keys::NONE : process | event.device);
    out.event.add(event.op);
    out.memory.add(memory_of(event, kind));
    program ? out.id.add_none() : out.id.add(event.id);
    out.requested.add_unless_zero(sized ? event.size : 0);
    out.reserved.add_unless_zero(buffer ? event.extra : 0);
    if (circular) {
        out.address.add(event.address ? event.address : event.id);
    } else {
        out.address.add_unless_zero(buffer || kind == EventClass::FAILURE ? event.address : 0);
    }
    out.program.add_unless_zero(circular || kernel ? event.extra : program ? event.id : 0);
    if (allocation || circular) {
        out.number.add(event.number ? event.number : 1);
    } else {
        out.number.add_unless_zero(kernel ? event.number : 0);
    }
    out.op.add(process | event.name);
    out.site.add(process | event.site);
    out.phase.add(buffer ? process | event.cores : Keys::NONE);
}

}  // namespace

EventColumns event_columns(const std::vector<EventRun>& runs, const std::uint8_t* classes) {
    EventColumns out;
    for (const Place& place : in_order(runs)) {
        const EventRun& run = runs[place.run];
        const Event& event = run.events[place.row];
        out.position.add(run.position + place.row);
        out.time.add(place.time);
        add(out, run, event, classes[event.op]);
    }
    return out;
}

}  // namespace ttmem
