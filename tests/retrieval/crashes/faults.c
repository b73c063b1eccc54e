/* Faults below Python: preloaded into a process, it stands between every library and the kernel.

   Each call that changes what a later process would find under one folder is a point. At the n-th
   point the process is killed, or the call fails, or a write is cut short; and all of them can be
   written to a trace, with their bytes, from which a loss of power can be played afterwards.
   fsync is counted but not carried out: what a kill leaves does not depend on it, and it is slow. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* As in faults.py. */
enum kind { WRITE = 1, TRUNCATE = 2, SYNC = 4, CREATE = 8, MKDIR = 16, RENAME = 32, REMOVE = 64 };
enum { MARK = 128, LINK = 256 };
enum action { NOTHING, KILL_BEFORE, KILL_TORN, KILL_AFTER, FAIL, SHORT };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* points happen one after the other */
static struct {
    int on, action, kinds, forever, error, trace;
    long at, count;
    double share; /* of a write's bytes that get through when it is torn or short */
    char folder[PATH_MAX];
} armed = {.trace = -1};

void faults_arm(const char *folder, int action, int kinds, long at, int forever, int error,
                double share, const char *trace) {
    pthread_mutex_lock(&lock);
    snprintf(armed.folder, sizeof armed.folder, "%s/", folder);
    armed.action = action, armed.kinds = kinds, armed.forever = forever, armed.error = error;
    armed.at = at, armed.count = 0, armed.share = share, armed.on = 1;
    if (*trace)
        armed.trace = syscall(SYS_openat, AT_FDCWD, trace,
                              O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pthread_mutex_unlock(&lock);
}

/* How many points there have been. */
long faults_disarm(void) {
    pthread_mutex_lock(&lock);
    armed.on = 0;
    pthread_mutex_unlock(&lock);
    return armed.count;
}

struct record {
    uint32_t kind, path, second, padding;
    uint64_t offset, bytes;
};

static void record(int kind, const char *path, const char *second, uint64_t offset,
                   const void *data, uint64_t bytes) {
    if (armed.trace < 0)
        return;
    struct record head = {kind, strlen(path), strlen(second), 0, offset, bytes};
    struct iovec parts[] = {{&head, sizeof head},
                            {(void *)path, head.path},
                            {(void *)second, head.second},
                            {(void *)data, bytes}};
    syscall(SYS_writev, armed.trace, parts, 4);
}

/* A note of the test's own in the trace. */
void faults_mark(const char *text) {
    pthread_mutex_lock(&lock);
    record(MARK, text, "", 0, "", 0);
    pthread_mutex_unlock(&lock);
}

static int ours(const char *path) {
    size_t length = strlen(armed.folder);
    return armed.on && (!strncmp(path, armed.folder, length) ||
                        (strlen(path) == length - 1 && !strncmp(path, armed.folder, length - 1)));
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return ours(path);
}

static int path_at(int folder, const char *name, char *path) {
    if (*name == '/')
        snprintf(path, PATH_MAX, "%s", name);
    else if (path_of(folder, path)) {
        size_t length = strlen(path);
        snprintf(path + length, PATH_MAX - length, "/%s", name);
    }
    return ours(path);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

/* What is to be done at this point; -1 with errno if the call is to fail. */
static int point(int kind) {
    if (!(armed.kinds & kind))
        return NOTHING;
    armed.count++;
    if (armed.forever ? armed.count < armed.at : armed.count != armed.at)
        return NOTHING;
    if (armed.action == KILL_BEFORE || (armed.action == KILL_TORN && kind != WRITE))
        die();
    if (armed.action == FAIL) {
        errno = armed.error;
        return -1;
    }
    return armed.action;
}

/* Of a change that `go` makes and that `note` records once it is made. */
#define CHANGE(kind, is_ours, go, note)            \
    do {                                           \
        if (!(is_ours))                            \
            return go;                             \
        pthread_mutex_lock(&lock);                 \
        int action = point(kind);                  \
        int result = action < 0 ? -1 : (int)(go);  \
        int error = errno;                         \
        if (result >= 0)                           \
            note;                                  \
        if (action == KILL_AFTER)                  \
            die();                                 \
        pthread_mutex_unlock(&lock);               \
        errno = error;                             \
        return result;                             \
    } while (0)

/* Bytes at an offset, or at the file's own place if that is negative. */
static ssize_t put(int fd, const void *data, size_t bytes, off_t offset) {
    char path[PATH_MAX];
    int tracked = armed.on && bytes && path_of(fd, path), action = NOTHING;
    if (tracked) {
        pthread_mutex_lock(&lock);
        action = point(WRITE);
        if (action == KILL_TORN || action == SHORT)
            bytes = (size_t)(bytes * armed.share) + (action == SHORT && bytes * armed.share < 1);
    }
    off_t start = offset;
    if (tracked && offset < 0) {
        int append = syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND;
        start = lseek(fd, 0, append ? SEEK_END : SEEK_CUR);
    }
    ssize_t done = action < 0   ? -1
                   : offset < 0 ? syscall(SYS_write, fd, data, bytes)
                                : syscall(SYS_pwrite64, fd, data, bytes, offset);
    int error = errno;
    if (tracked) {
        if (done > 0)
            record(WRITE, path, "", start, data, done);
        if (action == KILL_TORN || action == KILL_AFTER)
            die();
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return done;
}

ssize_t write(int fd, const void *data, size_t bytes) { return put(fd, data, bytes, -1); }

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
    return put(fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset) {
    return put(fd, data, bytes, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!armed.on || !path_of(fd, path))
        return syscall(SYS_writev, fd, parts, count);
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t done = put(fd, parts[i].iov_base, parts[i].iov_len, -1);
        if (done < 0)
            return total ? total : -1;
        total += done;
        if ((size_t)done < parts[i].iov_len)
            break;
    }
    return total;
}

int ftruncate(int fd, off_t size) {
    char path[PATH_MAX];
    CHANGE(TRUNCATE, armed.on && path_of(fd, path), syscall(SYS_ftruncate, fd, size),
           record(TRUNCATE, path, "", size, "", 0));
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

/* DuckDB gives free blocks back to the file system with it; they then read as zeros. */
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
    char path[PATH_MAX];
    CHANGE(TRUNCATE, armed.on && path_of(fd, path), syscall(SYS_fallocate, fd, mode, offset, bytes),
           (void)0);
}
int fallocate64(int fd, int mode, off_t offset, off_t bytes) {
    return fallocate(fd, mode, offset, bytes);
}

static int sync_file(int fd, int call) {
    char path[PATH_MAX];
    CHANGE(SYNC, armed.on && path_of(fd, path), armed.on ? 0 : syscall(call, fd),
           record(SYNC, path, "", 0, "", 0));
}
int fsync(int fd) { return armed.on ? sync_file(fd, SYS_fsync) : syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return armed.on ? sync_file(fd, SYS_fdatasync) : syscall(SYS_fdatasync, fd); }

static int open_file(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    struct stat found;
    int writes = (flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE;
    if (!armed.on || !writes || !path_at(folder, name, path))
        return syscall(SYS_openat, folder, name, flags, mode);
    int new = fstatat(AT_FDCWD, path, &found, 0) != 0;
    int empties = !new && flags & O_TRUNC && found.st_size > 0;
    CHANGE(new ? CREATE : TRUNCATE, new || empties, syscall(SYS_openat, folder, name, flags, mode),
           record(new ? CREATE : TRUNCATE, path, "", 0, "", 0));
}

#define OPEN(name, parameters, folder)                    \
    int name parameters {                                 \
        va_list rest;                                     \
        va_start(rest, flags);                            \
        mode_t mode = va_arg(rest, mode_t);               \
        va_end(rest);                                     \
        return open_file(folder, path, flags, mode);      \
    }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN(openat, (int folder, const char *path, int flags, ...), folder)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder)

int mkdirat(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    CHANGE(MKDIR, armed.on && path_at(folder, name, path), syscall(SYS_mkdirat, folder, name, mode),
           record(MKDIR, path, "", 0, "", 0));
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    CHANGE(REMOVE, armed.on && path_at(folder, name, path),
           syscall(SYS_unlinkat, folder, name, flags), record(REMOVE, path, "", 0, "", 0));
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) {
    int result = unlinkat(AT_FDCWD, name, 0);
    return result < 0 && errno == EISDIR ? unlinkat(AT_FDCWD, name, AT_REMOVEDIR) : result;
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    char path[PATH_MAX], second[PATH_MAX];
    CHANGE(LINK, armed.on && path_at(from, old, path) && path_at(to, new, second),
           syscall(SYS_linkat, from, old, to, new, flags), record(LINK, path, second, 0, "", 0));
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    char path[PATH_MAX], second[PATH_MAX];
    CHANGE(RENAME, armed.on && path_at(from, old, path) && path_at(to, new, second),
           syscall(SYS_renameat2, from, old, to, new, flags),
           record(RENAME, path, second, 0, "", 0));
}
int renameat(int from, const char *old, int to, const char *new) {
    return renameat2(from, old, to, new, 0);
}
int rename(const char *old, const char *new) {
    return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0);
}
