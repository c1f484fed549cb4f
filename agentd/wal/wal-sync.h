/*
 * The back end of ordinary system calls: pwrite() and fdatasync(). It works on every kernel; a
 * pushed frame is written before push() returns.
 */
#ifndef SB_WAL_SYNC_H
#define SB_WAL_SYNC_H

#include "agentd/wal/wal-io.h"

/* Opens it for a directory, which stays open until fini(). Return: 0, -errno. */
int sb_wal_sync_open(int directory_fd, struct sb_wal_io *ret);

/* What both back ends do by ordinary system calls, in a directory. Return: 0, -errno. */
int sb_wal_sync_open_file(int directory_fd, const char *name, int flags, int *ret_fd);
int sb_wal_sync_write(int fd, const void *bytes, size_t len, uint64_t file_offset);
int sb_wal_sync_rename(int directory_fd, const char *from, const char *to);
int sb_wal_sync_unlink(int directory_fd, const char *name);
int sb_wal_sync_directory(int directory_fd);
int sb_wal_sync_random(uint64_t *ret);
/* Takes the two buffers, aligned to pages and zeroed; and gives them back. */
int sb_wal_sync_take_buffers(struct sb_wal_io *io);
void sb_wal_sync_drop_buffers(unsigned char *const *buffers);

#endif
