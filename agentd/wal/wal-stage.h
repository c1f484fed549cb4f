/*
 * The stage: memory in which the log keeps versions between the segment, which it reads under a
 * pin and at a cut that others have to keep, and the files, on which it may have to wait. It grows
 * to 32 MiB, so of most batches all is read before the first byte is written. A value that is
 * larger still has a stage of its size.
 */
#ifndef SB_WAL_STAGE_H
#define SB_WAL_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-writer.h"
#include "ring/log/batch.h"

struct sb_wal_stage {
        unsigned char *bytes;
        uint64_t len, capacity;
};

/* Return: 0, -ENOMEM. */
int sb_wal_stage_init(struct sb_wal_stage *ret);
void sb_wal_stage_clear(struct sb_wal_stage *stage);
/* Copy an entry. Return: false: there is no room. */
bool sb_wal_stage_add(struct sb_wal_stage *stage, const struct sb_batch_entry *entry);
/* Make room for more. Return: false: the stage is as large as it may be, or there is no memory. */
bool sb_wal_stage_grow(struct sb_wal_stage *stage);
/* Make the empty stage so large that an entry with @size bytes of key and value fits. Return: 0,
 * -ENOMEM. */
int sb_wal_stage_reserve(struct sb_wal_stage *stage, uint64_t size);
/* Give all entries to the writer; then it is empty. *written: so many bytes more. Return: 0,
 * -errno of the writer. */
int sb_wal_stage_write(struct sb_wal_stage *stage, struct sb_wal_writer *writer, uint64_t *written);

#endif
