/*
 * A log, copied into one file: the batches that count, and of them each frame as it is, sealed anew
 * for its place in the new file. Backups are made by it, and brought back.
 *
 * What counts begins with the batch from which on the log has the whole bus. The new file is a
 * log's first one (ring/wal/wal-file.h), and closed: its header, which is written last, says which
 * batches it has. So agentd takes it as a log, and a reader tells whether it is all there. Its log
 * has a name of its own: where it goes on, its files are not those of the bus that it was made of,
 * and no reader takes both for one log.
 *
 * Always true: each frame was whole by its checksum when it was copied.
 */
#ifndef SB_CLI_LOG_COPY_H
#define SB_CLI_LOG_COPY_H

#include <stdint.h>

#include "cli/logged.h"
#include "cli/partial.h"

/* What was copied. */
struct cli_log_copied {
        uint64_t first_sequence, sequence, cut, realtime_ns;
        uint64_t batches, bytes; /* of the file */
};

/* Copy the log, which has a batch and is whole up to a torn end, into the file that has begun.
 * @what: the command, for a line that tells how far it is. Return: 0; -ESTALE: the log is not any
 * more what it was when it was opened; as cli_partial_write(); -errno. Cost: reads from the first
 * file on to the last batch, once; memory: a frame. */
int cli_log_copy(const struct cli_logged *logged, const char *what, struct cli_partial *partial,
        struct cli_log_copied *ret);

#endif
