// Each event in the words of the original server, as text.
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
        std::uint64_t elapsed_ms;  // stands before peaks
        bool dispatches;           // have lines, too
    };

    // As Ledger::apply, one event after the other; what each did is appended to `out`.
    std::size_t apply(Ledger& ledger, const Sender& sender, const Event* events, std::size_t count, std::uint64_t now,
                      std::string& out);

private:
    void tell_peak(const Device& device, std::uint32_t index, std::uint32_t logical, std::uint64_t elapsed_ms,
                   std::string& out);

    std::vector<std::uint64_t> peaks_;  // of L1 by device, in MB, as told last
};

}  // namespace ttmem
