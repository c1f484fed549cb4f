/*
 * A program that loads the library and unloads it, as a host of plug-ins does: a thread uses a bus,
 * dlclose() comes, and only then the thread ends. Nothing that the thread's end or the process's
 * end would call may be gone by then. Run by api-heap.
 *
 *      unload LIBRARY        an agentd serves the bus $STATEBUS
 *
 * Always true: the program is linked with the C library alone.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "libclient/statebus.h"

#define ROUNDS 3

#define LOOK_UP(library, name) ((__typeof__(&name))dlsym(library, #name))

static struct unload {
        void *library;
        sem_t used, closed;
        int r;
} unload;

/* Set a key, read it, and commit a transaction. Return: 0; what failed. */
static int unload_use(void *library)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER};
        struct sb_bytes key = {"unload", 6}, value = {"loaded", 6};
        struct sb_guard guard = {0};
        struct sb_bus *bus = NULL;
        struct sb_txn *txn = NULL;
        int r = LOOK_UP(library, sb_open)(&options, &bus);

        r = r ? r : LOOK_UP(library, sb_set)(bus, key, value, NULL, NULL);
        r = r ? r : LOOK_UP(library, sb_get)(bus, key, &guard);
        r = r ? r : memcmp(guard.value.data, "loaded", 6);
        LOOK_UP(library, sb_guard_release)(&guard);
        r = r ? r : LOOK_UP(library, sb_txn_begin)(bus, SB_SERIALIZABLE, &txn);
        r = r ? r : LOOK_UP(library, sb_txn_set)(txn, key, value);
        r = r ? r : LOOK_UP(library, sb_txn_commit)(txn, NULL);
        LOOK_UP(library, sb_txn_end)(txn);
        LOOK_UP(library, sb_close)(bus);
        return r;
}

static void *unload_thread(void *unused)
{
        unload.r = unload_use(unload.library);
        sem_post(&unload.used);
        sem_wait(&unload.closed);
        return unused;
}

int main(int argc, char **argv)
{
        pthread_t thread;

        sem_init(&unload.used, 0, 0);
        sem_init(&unload.closed, 0, 0);
        for (int i = 0; i < ROUNDS; i++) {
                unload.library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
                if (!unload.library) {
                        fprintf(stderr, "unload: %s\n", argc > 1 ? dlerror() : "no library");
                        return 1;
                }
                if (pthread_create(&thread, NULL, unload_thread, NULL))
                        return 1;
                sem_wait(&unload.used);
                dlclose(unload.library);
                sem_post(&unload.closed);
                pthread_join(thread, NULL);
                if (unload.r)
                        return 1;
        }
        printf("unloaded %d times\n", ROUNDS);
        return 0;
}
