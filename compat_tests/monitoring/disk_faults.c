/* Faults of one disk, for a process that has this library in LD_PRELOAD.

   HEADGATE_FAULTS names a directory of switches, HEADGATE_FAULTY a directory whose files are on the faulty disk. A
   switch is a file: `hang` has statvfs wait until the switch is gone; `sync` has fsync and fdatasync fail with EIO. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int is_on(const char *name) {
    char path[PATH_MAX];
    const char *directory = getenv("HEADGATE_FAULTS");
    return directory && snprintf(path, sizeof path, "%s/%s", directory, name) > 0 && access(path, F_OK) == 0;
}

static int is_faulty(const char *path) {
    const char *directory = getenv("HEADGATE_FAULTY");
    return directory && strncmp(path, directory, strlen(directory)) == 0;
}

static int is_faulty_file(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_faulty(path);
}

#define HANGING(NAME, TYPE)                                        \
    int NAME(const char *path, struct TYPE *found) {               \
        while (is_faulty(path) && is_on("hang")) usleep(20000);    \
        int (*real)(const char *, struct TYPE *) = dlsym(RTLD_NEXT, #NAME); \
        return real(path, found);                                  \
    }

HANGING(statvfs, statvfs)
HANGING(statvfs64, statvfs64)

#define FAILING(NAME)                                              \
    int NAME(int descriptor) {                                     \
        if (is_on("sync") && is_faulty_file(descriptor)) {         \
            errno = EIO;                                           \
            return -1;                                             \
        }                                                          \
        int (*real)(int) = dlsym(RTLD_NEXT, #NAME);                \
        return real(descriptor);                                   \
    }

FAILING(fsync)
FAILING(fdatasync)
