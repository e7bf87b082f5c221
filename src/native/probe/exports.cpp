// Asked from Python: small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "exports.hpp"

#include <cstring>

#include "accounts.hpp"
#include "notices.hpp"
#include "recording.hpp"
#include "strings.hpp"

using namespace ttmem;
using namespace ttmem::probe;

int ttmem_probe_track(int on) {
    Region* region = mapped_region.load(order::OBSERVE);
    if (!region) {
        return -1;
    }
    std::atomic<std::uint32_t>& tracking = region->header->tracking;
    return static_cast<int>(on < 0 ? tracking.load() : tracking.exchange(on ? 1 : 0));
}

std::uint32_t ttmem_probe_enter_phase(const char* name) {
    const bool tracking = tracking_region();
    // Even while it is off: what happens after it is turned on belongs to the phase.
    const Recording recording(mapped_region.load(order::OBSERVE));
    if (!recording || !name) {
        return 0;
    }
    ThreadState& thread = recording.thread();
    const std::uint32_t before = thread.phase;
    thread.phase = intern(recording.region(), name, std::strlen(name));
    if (tracking) {
        Event event = notice(PHASE_ENTERED, {0, 0}, thread.phase);
        event.name = thread.phase;
        append(recording.region(), thread, event);
    }
    return before;
}

void ttmem_probe_leave_phase(std::uint32_t before) {
    if (ThreadState* thread = thread_state()) {
        thread->phase = before;
    }
}

int ttmem_probe_mark(const char* text) {
    const Recording recording(tracking_region());
    if (!recording || !text) {
        return 0;
    }
    Event event = notice(MARKED, {0, 0}, 0);
    event.name = intern(recording.region(), text, std::strlen(text));
    append(recording.region(), recording.thread(), event);
    return 1;
}

int ttmem_probe_reset_peaks(int chip) {
    Region* region = mapped_region.load(order::OBSERVE);
    if (!region) {
        return -1;
    }
    const std::uint32_t devices = region->header->devices.load(order::OBSERVE);
    for (std::uint32_t index = 0; index < devices && index < MAX_DEVICES; ++index) {
        if (chip < 0 || region->devices[index].chip == static_cast<std::uint32_t>(chip)) {
            reset_peaks(*region, index);
        }
    }
    return 0;
}
