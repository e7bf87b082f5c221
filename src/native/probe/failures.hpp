// An allocation that the runtime refused, with its message. The exception continues to the application.
#pragma once

#include "recording.hpp"

namespace ttmem::probe {

struct Failure {
    std::uint32_t what;  // as in FailureRecord
    std::uint32_t kind;
    std::uint64_t requested;
    std::uint64_t program;
    const void* device;
};

void failed(const Recording& recording, const Failure& failure, const char* message);

}  // namespace ttmem::probe
