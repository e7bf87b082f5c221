// Functions that a program may call in the preloaded library, through ctypes or dlsym.
#pragma once

#include <cstdint>

#define TTMEM_EXPORT extern "C" __attribute__((visibility("default")))

// 1 on, 0 off, -1 only queries. Returns the previous state; -1 if there is no region.
TTMEM_EXPORT int ttmem_probe_track(int on);

// Tags what this thread does from now on with a phase; 0 = none. Returns the previous phase.
TTMEM_EXPORT std::uint32_t ttmem_probe_enter_phase(const char* name);
TTMEM_EXPORT void ttmem_probe_leave_phase(std::uint32_t before);

// Reports a mark. Returns 1; 0 if nothing is reported.
TTMEM_EXPORT int ttmem_probe_mark(const char* text);

// Resets the peaks of a chip, or of all (-1), to what is held now. The highest before is still known: see Counter. One
// thread at a time. Returns 0; -1 if there is no region.
TTMEM_EXPORT int ttmem_probe_reset_peaks(int chip);
