/* LD_PRELOAD: while the file HORAE_TEST_DISK names holds "eio", syncing fails with EIO for every file whose path
   contains HORAE_TEST_DISK_MATCH. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_broken(int file) {
    const char *path = getenv("HORAE_TEST_DISK"), *match = getenv("HORAE_TEST_DISK_MATCH");
    char word[8] = {0}, link[64], name[4096];
    int told = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (told < 0)
        return 0;
    ssize_t size = read(told, word, sizeof word - 1);
    close(told);
    if (size < 3 || strncmp(word, "eio", 3) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, name, sizeof name - 1);
    if (size < 0)
        return 0;
    name[size] = 0;
    return !match || strstr(name, match) != NULL;
}

int fsync(int file) {
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (is_broken(file)) {
        errno = EIO;
        return -1;
    }
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (is_broken(file)) {
        errno = EIO;
        return -1;
    }
    return real(file);
}
