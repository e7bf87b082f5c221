// The peer of `serve --log-events`: a server as the original was built. A thread for each client peeks, receives one
// record, takes the lock, changes a table and prints a line that is flushed at once.
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

struct Record {
    std::uint8_t type, padding[3];
    std::int32_t device;
    std::uint64_t size;
    std::uint8_t kind, more_padding[3];
    std::int32_t pid;
    std::uint64_t id, rest[14];
};
static_assert(sizeof(Record) == 144, "the largest of the historical records");

std::mutex lock;
std::map<std::pair<std::int32_t, std::uint64_t>, std::uint64_t> live;
std::uint64_t total = 0;

void take(const Record& record) {
    const std::lock_guard<std::mutex> guard(lock);
    const auto key = std::make_pair(record.device, record.id);
    const bool begins = record.type == 1 || record.type == 8 || record.type == 10;
    if (begins) {
        live[key] = record.size;
        total += record.size;
    } else {
        total -= live[key];
        live.erase(key);
    }
    std::cout << (begins ? "+ " : "- ") << "[PID " << record.pid << "] " << int{record.type} << " of " << record.size
              << " bytes on device " << record.device << " (id 0x" << std::hex << record.id << std::dec << ", total "
              << static_cast<double>(total) / (1 << 20) << " MB)" << std::endl;
}

void serve(int client) {
    Record record;
    std::uint8_t type;
    while (recv(client, &type, 1, MSG_PEEK) == 1 && recv(client, &record, sizeof record, MSG_WAITALL) == sizeof record) {
        take(record);
    }
    close(client);
}

}  // namespace

int main(int, char** arguments) {
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, arguments[1], sizeof address.sun_path - 1);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener, 128) != 0) {
        return 1;
    }
    for (;;) {
        std::thread(serve, accept(listener, nullptr, nullptr)).detach();
    }
}
