/*
 * The back end of io_uring: a frame is written while the next one is filled, and a batch's last
 * frame and its fdatasync are one chain and one system call. A frame that is a batch by itself is
 * written and synced by ordinary calls (decision 93).
 *
 * Buffers and files are registered, so that the kernel takes hold of neither for each write. One
 * frame is on its way at a time. In a chain a write that fails or is short cancels the sync behind
 * it. Creating, naming and opening files is done by ordinary system calls: it is rare.
 */
#ifndef SB_WAL_URING_H
#define SB_WAL_URING_H

#include "agentd/wal/wal-io.h"

/* Opens it for a directory, which stays open until fini(). Return: 0; -errno: where the kernel
 * refuses io_uring to this process, one of -ENOSYS, -EPERM, -ENOMEM (locked memory, before Linux
 * 5.12), -EINVAL. */
int sb_wal_uring_open(int directory_fd, struct sb_wal_io *ret);

#endif
