/* Programs without Python that do what Python never does; argv: the runtime, what to do, a library to load. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void* (*mesh_open)(int);
static const char* plugin;
static volatile int done;
static pthread_key_t own;

static void* load_and_unload(void* unused) {
    while (!done) {
        void* handle = dlopen(plugin, RTLD_NOW);
        if (handle) {
            dlclose(handle);
        }
    }
    return unused;
}

static void* open_cancelled(void* unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    mesh_open(1);
    return unused;
}

static void* open_without_keys(void* unused) {
    pthread_setspecific(own, (void*)0x1111);
    mesh_open(1);
    puts(pthread_getspecific(own) == (void*)0x1111 ? "kept" : "lost");
    return unused;
}

static void in_thread(void* (*work)(void*)) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
}

int main(int count, char** arguments) {
    void* runtime = dlopen(arguments[1], RTLD_NOW);
    *(void**)&mesh_open = dlsym(runtime, "mesh_open");
    if (!strcmp(arguments[2], "unread pipe")) {
        int ends[2];
        if (pipe(ends) || close(ends[0]) || dup2(ends[1], 2) < 0) {
            return 1;
        }
        mesh_open(1);
    } else if (!strcmp(arguments[2], "cancelled")) {
        in_thread(open_cancelled);
    } else if (!strcmp(arguments[2], "no keys")) {
        pthread_key_t another;
        pthread_key_create(&own, NULL);
        while (!pthread_key_create(&another, NULL)) {
        }
        in_thread(open_without_keys);
    } else if (count > 3) {
        pthread_t loader;
        plugin = arguments[3];
        pthread_create(&loader, NULL, load_and_unload, NULL);
        mesh_open(1);
        done = 1;
        pthread_join(loader, NULL);
    }
    puts("alive");
    return 0;
}
