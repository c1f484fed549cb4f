/*
 * What a start says to an operator about a log that it does not bring back, and what to do then;
 * and about a command that did not do what it was meant to: a --recover-to that names a cut which
 * the log does not have, a restore-from that was killed, a --size that is too small. Without a line
 * the bus would look as if all were well.
 */
#ifndef SB_WAL_OPERATOR_H
#define SB_WAL_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/config.h"
#include "agentd/wal/wal-room.h"
#include "ring/wal/wal-reader.h"

/* The operator asked for a cut that lies before the first batch. */
void sb_wal_operator_say_too_old(const struct sb_config *config);
/* The log ends with @last_cut; 0: there is none. Where the operator asked for a later one, say so:
 * all that there is comes back. */
void sb_wal_operator_say_unreached(const struct sb_config *config, uint64_t last_cut);
/* There is no log, and an agentd that was here before kept one. */
void sb_wal_operator_say_gone(const struct sb_config *config);
/* Whether a directory without a log has what a killed restore-from, or a backup into it, left: that
 * is said. An empty bus there would keep the next restore-from out. */
bool sb_wal_operator_finds_partial(const struct sb_config *config, int directory_fd);

/* The log is damaged, and nothing is done. @is_whole: what it has before that has the whole bus, so
 * one can go on from its last cut. */
void sb_wal_operator_say_damaged(
        const struct sb_config *config, const struct sb_wal_end *end, bool is_whole);
/* What the log has does not have the whole bus, for something is missing before it. */
void sb_wal_operator_say_headless(const struct sb_config *config, const struct sb_wal_end *end);

/* What a start says of a log that does not fit, with -ENOSPC or -EMSGSIZE: what of it, and into
 * which size it fits, or does not either. */
void sb_wal_operator_say_too_small(const struct sb_wal_room *room, int r);
/* What a start says when a log cannot be brought back, at batch @sequence, with -errno; when the
 * segment is larger than --size; and of a log that another program, machine or bus has written, or
 * of which a file is none. */
void sb_wal_operator_say_failed(const struct sb_config *config, uint64_t sequence, int r);
void sb_wal_operator_say_larger(const struct sb_config *config, uint64_t size);
void sb_wal_operator_say_foreign(const struct sb_config *config, const struct sb_wal_end *end);
/* What was passed over, if anything was, and that it costs nothing. */
void sb_wal_operator_say_passed(const struct sb_wal_end *end);

#endif
