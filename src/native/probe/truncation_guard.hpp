// Somebody may truncate the mapped file; the next write would be a SIGBUS in the application.
#pragma once

#include <cstddef>

namespace ttmem::probe {

// From now on such a fault maps zeroes (tracking = 0) over the file, and the application continues. Faults elsewhere go
// to the previous handler.
void stop_guarding();  // the region is unmapped: what is mapped there later belongs to the application

void guard_against_truncation(void* memory, std::size_t size);

}  // namespace ttmem::probe
