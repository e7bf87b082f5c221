// Once per process: small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "region_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "quiet_signals.hpp"

namespace ttmem::probe {

Plan plan_for(std::uint32_t events, std::uint32_t live) {
    const std::uint32_t strings = 32768;
    const std::uint32_t shapes[SECTIONS][2] = {
        {MAX_DEVICES * COUNTED, sizeof(Counter)},
        {MAX_DEVICES, sizeof(Activity)},
        {events, sizeof(Slot)},
        {live, sizeof(std::uint64_t)},
        {live, sizeof(LiveEntry)},
        {strings, sizeof(StringRecord)},
        {strings * 64, 1},
        {MAX_DEVICES, sizeof(DeviceRecord)},
        {256, sizeof(SetRecord)},
        {4096, sizeof(CoresRecord)},
        {MAX_FEATURES, sizeof(FeatureRecord)},
        {64, sizeof(FailureRecord)},
    };
    Plan plan;
    plan.size = HEADER_SIZE;
    for (std::uint32_t section = 0; section < SECTIONS; ++section) {
        plan.sections[section] = {plan.size, shapes[section][0], shapes[section][1]};
        plan.size += std::uint64_t{shapes[section][0]} * shapes[section][1];
        plan.size = (plan.size + 127) / 128 * 128;
    }
    plan.size = (plan.size + 4095) / 4096 * 4096;
    return plan;
}

namespace {

// A file with this name belongs to the same process before an exec. What it held then is gone, and `ttmem dump` lists
// it. Only one is kept, so that a process that calls exec repeatedly does not fill the directory.
void keep_earlier(const std::string& path) {
    struct stat status;
    const bool there = lstat(path.c_str(), &status) == 0;
    const bool keep = there && S_ISREG(status.st_mode) && status.st_size > 0;
    if (there && (!keep || rename(path.c_str(), (path + EARLIER).c_str()) != 0)) {
        unlink(path.c_str());
    }
}

}  // namespace

void* map_region_file(const std::string& path, std::uint64_t size, std::string& problem) {
    keep_earlier(path);
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        problem = path + ": " + std::strerror(errno);
        return nullptr;
    }
    int error;
    void* memory = MAP_FAILED;
    {
        const SignalBlocked blocked(SIGXFSZ);  // which is fatal
        fchmod(file, 0600);  // regardless of the umask
        // Reserved now: a page that is missing later would be a SIGBUS in the application.
        error = posix_fallocate(file, 0, static_cast<off_t>(size));
    }
    if (!error) {
        // Mapped completely: 5,000 page faults at once cost less than one at a time, in the middle of allocations.
        memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
        error = memory == MAP_FAILED ? errno : 0;
    }
    close(file);
    if (error) {
        unlink(path.c_str());
        problem = path + ": " + std::strerror(error);
        return nullptr;
    }
    return memory;
}

std::uint64_t own_start_ticks() {
    char text[1024];
    const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) {
        close(file);
    }
    if (length <= 0) {
        return 0;
    }
    text[length] = 0;
    const char* at = std::strrchr(text, ')');  // the command before it may be anything
    for (int field = 2; at && field < 22; ++field) {
        at = std::strchr(at + 1, ' ');
    }
    return at ? std::strtoull(at + 1, nullptr, 10) : 0;
}

}  // namespace ttmem::probe
