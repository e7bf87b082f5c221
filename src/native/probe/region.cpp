// Once per process: small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "region.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "exports.hpp"
#include "hot.hpp"
#include "private_state.hpp"
#include "quiet_signals.hpp"
#include "region_file.hpp"
#include "truncation_guard.hpp"

namespace ttmem::probe {

namespace {

std::atomic<std::uint32_t> undecided{1}, refused{0};

}  // namespace

TTMEM_HOT_DATA std::atomic<std::atomic<std::uint32_t>*> tracking_word{&undecided};
TTMEM_HOT_DATA std::atomic<Region*> mapped_region{nullptr};

namespace {

TTMEM_HOT_DATA Region the_region;
std::atomic<bool> making{false};
pthread_once_t fork_handler = PTHREAD_ONCE_INIT;

Region* region_at(void* memory, const Plan& plan) {
    char* base = static_cast<char*>(memory);
    const auto at = [&](Section section) { return base + plan.sections[section].offset; };
    Region* region = &the_region;
    region->header = static_cast<Header*>(memory);
    region->counters = reinterpret_cast<Counter*>(at(COUNTERS));
    region->activity = reinterpret_cast<Activity*>(at(ACTIVITY));
    region->ring = reinterpret_cast<Slot*>(at(RING));
    region->live_keys = reinterpret_cast<std::atomic<std::uint64_t>*>(at(LIVE_KEYS));
    region->live = reinterpret_cast<LiveEntry*>(at(LIVE));
    region->strings = reinterpret_cast<StringRecord*>(at(STRINGS));
    region->text = at(TEXT);
    region->devices = reinterpret_cast<DeviceRecord*>(at(DEVICES));
    region->sets = reinterpret_cast<SetRecord*>(at(SETS));
    region->cores = reinterpret_cast<CoresRecord*>(at(CORES));
    region->features = reinterpret_cast<FeatureRecord*>(at(FEATURES));
    region->failures = reinterpret_cast<FailureRecord*>(at(FAILURES));
    region->size = plan.size;
    for (std::uint32_t section = 0; section < SECTIONS; ++section) {
        region->counts[section] = plan.sections[section].count;
    }
    return region;
}

void fill_header(Header& header, const Plan& plan, const Settings& settings, std::uint64_t ticks) {
    std::memcpy(header.magic, MAGIC, sizeof MAGIC);
    header.version = VERSION;
    header.file_size = plan.size;
    header.pid = static_cast<std::uint32_t>(getpid());
    header.start_ticks = ticks;
    header.created_ns = now_ns();
    header.options = (settings.call_sites ? +CALL_SITES : 0u) | (settings.stacks ? +STACKS : 0u);
    header.launcher = settings.launcher;
    std::memcpy(header.sections, plan.sections, sizeof plan.sections);
    header.strings = 1;  // number 0 means 'none' everywhere
    header.cores = 1;
    header.tracking = settings.tracking ? 1 : 0;
    header.state.store(IN_USE, order::PUBLISH);
}

// A forked child has its parent's memory, but holds nothing on any device: it starts empty.
void start_over_in_child() {
    if (Region* region = mapped_region.exchange(nullptr)) {
        stop_guarding();
        munmap(region->header, region->size);
        tracking_word = &undecided;
    }
    forget_private_state();
    making = false;
}

// An empty file needs no space: `ttmem run` counts and removes it (sources/probe/ended.py).
void tell_launcher(const Settings& settings) {
    if (settings.launcher) {
        const std::string path = settings.directory + "/ttmem_no_room_" + std::to_string(settings.launcher) + "_" +
                                 std::to_string(getpid());
        const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file >= 0) {
            close(file);
        }
    }
}

Region* try_to_make() {
    // The same library under two paths: the hooks of the first are the ones that are called.
    void* first = dlsym(RTLD_DEFAULT, "ttmem_probe_track");
    if (first && first != reinterpret_cast<void*>(&ttmem_probe_track)) {
        return nullptr;
    }
    const Settings settings = Settings::from_environment();
    if (!settings.enabled) {
        return nullptr;
    }
    const std::uint64_t ticks = own_start_ticks();
    const std::string path =
        settings.directory + "/ttmem_" + std::to_string(getpid()) + "_" + std::to_string(ticks);
    std::string problem;
    Plan plan = plan_for(settings.events, settings.live);
    void* memory = map_region_file(path, plan.size, problem);
    if (!memory && unlink((path + EARLIER).c_str()) == 0) {  // what happens now comes first
        memory = map_region_file(path, plan.size, problem);
    }
    if (!memory) {  // a container's /dev/shm is small: a short ring is better than none
        plan = plan_for(std::min(settings.events, 4096u), std::min(settings.live, 8192u));
        memory = map_region_file(path, plan.size, problem);
    }
    if (!memory) {
        say("tracking is off: no space for the region (%s)", problem.c_str());
        tell_launcher(settings);
        return nullptr;
    }
    Region* region = region_at(memory, plan);
    fill_header(*region->header, plan, settings, ticks);
    guard_against_truncation(memory, plan.size);
    pthread_once(&fork_handler, [] { pthread_atfork(nullptr, nullptr, start_over_in_child); });
    return region;
}

__attribute__((destructor)) void end_in_order() {
    Region* region = mapped_region.load();
    if (region && region->header->pid == static_cast<std::uint32_t>(getpid())) {  // prevents a fork in between
        region->header->ended_ns = now_ns();
        region->header->state.store(ENDED, order::PUBLISH);
    }
}

}  // namespace

Region* make_region() {
    if (making.exchange(true)) {
        return mapped_region.load(order::OBSERVE);  // another thread is doing it: nobody waits
    }
    const NoCancellation whole;
    Region* region = nullptr;
    try {
        region = try_to_make();
    } catch (...) {  // out of memory for a path
    }
    tracking_word.store(region ? &region->header->tracking : &refused, order::PUBLISH);
    mapped_region.store(region, order::PUBLISH);
    return region && region->header->tracking.load(order::ALONE) ? region : nullptr;
}

std::uint64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000ull + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace ttmem::probe
