// Settings from the environment, read once when the region is created.
#pragma once

#include <cstdint>
#include <string>

namespace ttmem::probe {

struct Settings {
    bool enabled;           // TTMEM=0 disables a loaded library
    bool tracking;          // TTMEM_TRACKING=0: start switched off
    bool call_sites;        // TTMEM_SITES=0
    bool stacks;            // TTMEM_STACKS=1
    std::uint32_t events;   // TTMEM_EVENTS: slots of the ring, a power of two
    std::uint32_t live;     // TTMEM_LIVE: entries of the live table, a power of two
    std::uint32_t launcher; // TTMEM_LAUNCHER: pid of the `ttmem run` that started us; 0 = none
    std::string directory;  // TTMEM_REGION_DIR

    static Settings from_environment();
};

// One line to TTMEM_LOG, else to standard error.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace ttmem::probe
