// Once per process: small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "settings.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "quiet_signals.hpp"

namespace ttmem::probe {

namespace {

bool flag(const char* name, bool otherwise) {
    const char* text = std::getenv(name);
    return text && *text ? std::strcmp(text, "0") != 0 : otherwise;
}

std::uint32_t power_of_two(const char* name, std::uint32_t otherwise) {
    const char* text = std::getenv(name);
    const unsigned long wanted = text ? std::strtoul(text, nullptr, 10) : 0;
    if (wanted < 64 || wanted > (1ul << 24)) {
        return otherwise;
    }
    std::uint32_t size = 64;
    while (size < wanted) {
        size *= 2;
    }
    return size;
}

}  // namespace

Settings Settings::from_environment() {
    Settings settings;
    settings.enabled = flag("TTMEM", true);
    settings.tracking = flag("TTMEM_TRACKING", true);
    settings.stacks = flag("TTMEM_STACKS", false);
    settings.call_sites = flag("TTMEM_SITES", true) || settings.stacks;
    settings.events = power_of_two("TTMEM_EVENTS", 1u << 17);  // 160 ms of 16 threads at 50,000 events/s
    settings.live = power_of_two("TTMEM_LIVE", 1u << 16);
    const char* launcher = std::getenv("TTMEM_LAUNCHER");
    settings.launcher = launcher ? static_cast<std::uint32_t>(std::strtoul(launcher, nullptr, 10)) : 0;
    const char* directory = std::getenv("TTMEM_REGION_DIR");
    settings.directory = directory && *directory ? directory : "/dev/shm";
    return settings;
}

void say(const char* format, ...) {
    char line[512];
    const int prefix = std::snprintf(line, sizeof line, "ttmem: pid %d: ", static_cast<int>(getpid()));
    va_list arguments;
    va_start(arguments, format);
    const int written = std::vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
    va_end(arguments);
    std::size_t length = prefix + (written < 0 ? 0 : written);
    length = length > sizeof line - 2 ? sizeof line - 2 : length;
    line[length++] = '\n';
    const NoCancellation whole;
    const SignalBlocked unread(SIGPIPE);
    const char* path = std::getenv("TTMEM_LOG");
    const int file = path && *path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600) : -1;
    pollfd output{file < 0 ? STDERR_FILENO : file, POLLOUT, 0};
    // A full pipe would make the application wait.
    if (poll(&output, 1, 0) != 1 || !(output.revents & POLLOUT) || write(output.fd, line, length) < 0) {
        // nobody is there to be told
    }
    if (file >= 0) {
        close(file);
    }
}

}  // namespace ttmem::probe
