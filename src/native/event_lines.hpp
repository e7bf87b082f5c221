// A line of text for each event, worded like the original server's.
#pragma once

#include <string>
#include <vector>

#include "ledger.hpp"

namespace ttmem {

class EventLines {
public:
    struct Sender {
        std::uint32_t process;
        std::uint64_t pid;
        std::uint64_t elapsed_ms;  // printed before peaks
        bool dispatches;           // dispatches get lines, too
    };

    // Like Ledger::apply, one event at a time; appends a description of each to `out`.
    std::size_t apply(Ledger& ledger, const Sender& sender, const Event* events, std::size_t count, std::uint64_t now,
                      std::string& out);

private:
    void tell_peak(const Device& device, std::uint32_t index, std::uint32_t logical, std::uint64_t elapsed_ms,
                   std::string& out);

    std::vector<std::uint64_t> peaks_;  // L1 peak by device, in MB, as last printed
};

}  // namespace ttmem
