// What a program may call in the library that is loaded into it, by ctypes or dlsym.
#pragma once

#include <cstdint>

#define TTMEM_EXPORT extern "C" __attribute__((visibility("default")))

// 1 on, 0 off, -1 only asks. Returns what it was; -1 if there is no region.
TTMEM_EXPORT int ttmem_probe_track(int on);

// What happens in this thread from now on belongs to a phase; 0 = none. Returns the phase before.
TTMEM_EXPORT std::uint32_t ttmem_probe_enter_phase(const char* name);
TTMEM_EXPORT void ttmem_probe_leave_phase(std::uint32_t before);

// The peaks of a chip, or of all (-1), are what is held now. The highest before that stays known: see Counter. By one
// thread at a time. Returns 0; -1 if there is no region.
TTMEM_EXPORT int ttmem_probe_reset_peaks(int chip);
